//! Values as bodies.

use bytes::Bytes;
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::value::{Datum, Value};

use crate::config::definition::Reader;
use crate::sinks::file::json_line::write_json;
use crate::sinks::http::keys;

const BYTES: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// `request.body.format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Raw,
    Json,
}

impl Format {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        match reader.choice(keys::FORMAT) {
            keys::JSON => Self::Json,
            _ => Self::Raw,
        }
    }

    /// A value as a body, and its content type. Bytes and strings are not
    /// copied.
    pub(super) fn body(self, value: &Datum) -> Result<(Bytes, &'static str), ConvertError> {
        match (self, &value.value) {
            (Self::Raw, Value::Bytes(bytes)) => Ok((bytes.clone(), BYTES)),
            (Self::Raw, Value::String(text)) => Ok((text.clone().into_bytes(), TEXT)),
            _ => {
                let mut json = Vec::new();
                write_json(&mut json, value)?;
                Ok((json.into(), JSON))
            }
        }
    }
}

/// Several bodies as one.
#[derive(Clone, Debug)]
pub(super) struct Batching {
    pub(super) max_records: usize,
    prefix: String,
    separator: String,
    suffix: String,
}

impl Batching {
    /// `None` without batching.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let batching = Self {
            max_records: usize::try_from(reader.int(keys::BATCH_SIZE)).unwrap_or(1),
            prefix: unescaped(&reader.text(keys::BATCH_PREFIX)),
            separator: unescaped(&reader.text(keys::BATCH_SEPARATOR)),
            suffix: unescaped(&reader.text(keys::BATCH_SUFFIX)),
        };
        reader.boolean(keys::BATCHING).then_some(batching)
    }

    pub(super) fn join(&self, bodies: &[Bytes]) -> Bytes {
        let separators = self.separator.len() * bodies.len();
        let records: usize = bodies.iter().map(Bytes::len).sum();
        let size = self.prefix.len() + records + separators + self.suffix.len();
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(self.prefix.as_bytes());
        for (place, body) in bodies.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(self.separator.as_bytes());
            }
            out.extend_from_slice(body);
        }
        out.extend_from_slice(self.suffix.as_bytes());
        out.into()
    }
}

/// Settings are trimmed, so that a newline must be written as one.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(at) = rest.next() {
        if at != '\\' {
            out.push(at);
            continue;
        }
        match rest.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Faults, Properties};
    use crate::sinks::contract::item;

    fn body(format: Format, value: Value) -> (Bytes, &'static str) {
        format.body(&Datum::schemaless(value)).unwrap()
    }

    #[test]
    fn raw_values_go_as_they_are_and_uncopied() {
        let bytes = Bytes::from_static(&[0, 159, 255]);
        let (sent, kind) = body(Format::Raw, Value::Bytes(bytes.clone()));
        assert_eq!((sent.as_ptr(), kind), (bytes.as_ptr(), BYTES));
        let (sent, kind) = body(Format::Raw, Value::String("{\"a\":1}".into()));
        assert_eq!((&sent[..], kind), (&b"{\"a\":1}"[..], TEXT));
        let (sent, kind) = body(Format::Raw, Value::Int64(i64::MAX));
        assert_eq!((&sent[..], kind), (&b"9223372036854775807"[..], JSON));
    }

    #[test]
    fn as_json_every_value_is_json() {
        let json = |value| body(Format::Json, value).0;
        assert_eq!(json(Value::String("a\"b".into())), r#""a\"b""#);
        assert_eq!(json(Value::Bytes("ab\n".into())), r#""YWIK""#);
        assert_eq!(json(Value::Float64(f64::INFINITY)), r#""Infinity""#);
        let (sent, kind) = Format::Raw.body(&item(Value::Int64(4))).unwrap();
        assert_eq!((&sent[..], kind), (&b"{\"item\":4}"[..], JSON));
    }

    #[test]
    fn a_struct_without_its_schema_has_no_body() {
        let unfit = Datum::schemaless(Value::Struct(vec![Value::Null]));
        assert!(Format::Raw.body(&unfit).is_err());
    }

    fn joined(settings: &[(&str, &str)]) -> Option<Bytes> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let mut reader = Reader::new(&properties, "", keys::KEYS, &mut faults);
        let bodies: [Bytes; 3] = ["1".into(), "2".into(), "3".into()];
        Some(Batching::read(&mut reader)?.join(&bodies))
    }

    #[test]
    fn a_batch_is_a_json_array_or_lines_or_nothing() {
        let on = ("batching.enabled", "true");
        assert_eq!(joined(&[on]).unwrap(), "[1,2,3]");
        let lines = [
            on,
            ("batch.prefix", ""),
            ("batch.separator", "\\n"),
            ("batch.suffix", "\\n"),
        ];
        assert_eq!(joined(&lines).unwrap(), "1\n2\n3\n");
        assert_eq!(joined(&[]), None);
    }

    #[test]
    fn escapes_are_newline_return_tab_and_backslash() {
        assert_eq!(unescaped(r"a\n\r\t\\n\x\"), "a\n\r\t\\n\\x\\");
    }
}
