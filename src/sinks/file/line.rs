//! A record as a line.

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::record::SinkRecord;
use sluice_actors::value::{Datum, Value};

use crate::converters::json::non_finite_name;
use crate::sinks::file::json_line::{write_json, write_record};

/// What a line looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sinks) enum Format {
    Raw(Newlines),
    Json,
}

/// What becomes of newlines inside a raw value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sinks) enum Newlines {
    Keep,
    Escape,
}

impl Format {
    /// Appends a record's line. On an error nothing is appended.
    pub(in crate::sinks) fn write(
        self,
        out: &mut Vec<u8>,
        record: &SinkRecord,
    ) -> Result<(), ConvertError> {
        let start = out.len();
        let written = match self {
            Self::Raw(newlines) => write_raw(out, &record.value, newlines),
            Self::Json => write_record(out, record),
        };
        match written {
            Ok(()) => out.push(b'\n'),
            Err(_) => out.truncate(start),
        }
        written
    }
}

/// The value's text as Connect's FileStreamSink prints it. It prints bytes,
/// maps and structs as Java objects; here bytes stay bytes and the others are
/// JSON, and so is the notation of floating-point numbers.
fn write_raw(out: &mut Vec<u8>, datum: &Datum, newlines: Newlines) -> Result<(), ConvertError> {
    match &datum.value {
        Value::String(text) => write_text(out, text.as_bytes(), newlines),
        Value::Bytes(bytes) => write_text(out, bytes, newlines),
        Value::Float32(value) if !value.is_finite() => {
            out.extend_from_slice(non_finite_name(f64::from(*value)).as_bytes());
        }
        Value::Float64(value) if !value.is_finite() => {
            out.extend_from_slice(non_finite_name(*value).as_bytes());
        }
        _ => write_json(out, datum)?,
    }
    Ok(())
}

fn write_text(out: &mut Vec<u8>, text: &[u8], newlines: Newlines) {
    if newlines == Newlines::Keep {
        return out.extend_from_slice(text);
    }
    for byte in text {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            _ => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::{item, record, text_record};

    fn raw(value: Datum, newlines: Newlines) -> Vec<u8> {
        let mut out = Vec::new();
        let written = Format::Raw(newlines).write(&mut out, &record(0, value));
        written.unwrap();
        out
    }

    fn raw_text(value: Value) -> String {
        String::from_utf8(raw(Datum::schemaless(value), Newlines::Keep)).unwrap()
    }

    #[test]
    fn raw_is_what_connect_prints() {
        assert_eq!(
            raw_text(Value::String("plain \"text\"".into())),
            "plain \"text\"\n"
        );
        assert_eq!(raw_text(Value::Null), "null\n");
        assert_eq!(raw_text(Value::String("".into())), "\n");
        assert_eq!(raw_text(Value::Int64(-7)), "-7\n");
        assert_eq!(raw_text(Value::Boolean(true)), "true\n");
        assert_eq!(raw_text(Value::Float64(f64::NAN)), "NaN\n");
        assert_eq!(raw_text(Value::Float32(f32::NEG_INFINITY)), "-Infinity\n");
    }

    #[test]
    fn raw_bytes_stay_as_they_are() {
        let bytes = Value::Bytes(vec![0, 159, 255].into());
        assert_eq!(
            raw(Datum::schemaless(bytes), Newlines::Keep),
            [0, 159, 255, b'\n']
        );
    }

    #[test]
    fn raw_struct_is_json() {
        let line = raw(item(Value::Int64(3)), Newlines::Keep);
        assert_eq!(line, b"{\"item\":3}\n");
    }

    #[test]
    fn newlines_are_kept_or_escaped_by_setting() {
        let text = Datum::schemaless(Value::String("a\\n\r\nb".into()));
        assert_eq!(raw(text.clone(), Newlines::Keep), b"a\\n\r\nb\n");
        assert_eq!(raw(text, Newlines::Escape), b"a\\\\n\\r\\nb\n");
    }

    #[test]
    fn record_that_has_no_line_leaves_no_trace() {
        let mut out = b"\n".to_vec();
        let unfit = record(1, Datum::schemaless(Value::Struct(vec![Value::Null])));
        for format in [Format::Json, Format::Raw(Newlines::Keep)] {
            assert!(format.write(&mut out, &unfit).is_err());
            assert_eq!(out, b"\n");
        }
        Format::Json.write(&mut out, &text_record(2, "x")).unwrap();
        assert!(out.ends_with(b"}\n"));
    }
}
