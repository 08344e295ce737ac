//! Text.
//!
//! Connect puts a replacement character where bytes are no text and so loses
//! them; here that is an error that names the place.

use bytes::Bytes;
use bytestring::ByteString;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::value::{Datum, Kind as ValueKind, Schema, Value};

use super::part::Part;
use crate::config::definition::{Key, Kind, Preset, Reader};

const ENCODING: &str = "converter.encoding";

pub(super) const KEYS: &[Key] = &[Key {
    name: ENCODING,
    kind: Kind::Text,
    preset: Preset::Value("UTF-8"),
    doc: "How the text is encoded: UTF-8, ISO-8859-1, US-ASCII, UTF-16 (big endian unless a byte \
          order mark says otherwise), UTF-16BE or UTF-16LE.",
}];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
    Ascii,
    Utf16,
    Utf16Be,
    Utf16Le,
}

/// What each encoding is called, its first name first.
const NAMES: &[(Encoding, &[&str])] = &[
    (Encoding::Utf8, &["UTF-8", "UTF8"]),
    (
        Encoding::Latin1,
        &["ISO-8859-1", "ISO8859_1", "ISO8859-1", "LATIN1"],
    ),
    (Encoding::Ascii, &["US-ASCII", "ASCII"]),
    (Encoding::Utf16, &["UTF-16", "UTF16"]),
    (Encoding::Utf16Be, &["UTF-16BE"]),
    (Encoding::Utf16Le, &["UTF-16LE"]),
];

impl Encoding {
    fn of(name: &str) -> Option<Self> {
        let found = NAMES
            .iter()
            .find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        found.map(|(encoding, _)| *encoding)
    }

    /// The text, or the place of the first byte that is none.
    fn decode(self, bytes: &Bytes) -> Result<ByteString, usize> {
        match self {
            Self::Utf8 => utf8(bytes),
            Self::Ascii => match bytes.iter().position(|byte| !byte.is_ascii()) {
                Some(at) => Err(at),
                None => utf8(bytes),
            },
            Self::Latin1 if bytes.is_ascii() => utf8(bytes),
            Self::Latin1 => Ok(bytes
                .iter()
                .map(|byte| char::from(*byte))
                .collect::<String>()
                .into()),
            Self::Utf16 => match &**bytes {
                [0xff, 0xfe, ..] => utf16(bytes, 2, u16::from_le_bytes),
                [0xfe, 0xff, ..] => utf16(bytes, 2, u16::from_be_bytes),
                _ => utf16(bytes, 0, u16::from_be_bytes),
            },
            Self::Utf16Be => utf16(bytes, 0, u16::from_be_bytes),
            Self::Utf16Le => utf16(bytes, 0, u16::from_le_bytes),
        }
    }
}

/// The same bytes as text, or the place of the first byte that is none.
pub(super) fn utf8(bytes: &Bytes) -> Result<ByteString, usize> {
    ByteString::try_from(bytes.clone())
        .map_err(|_| std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len))
}

fn utf16(bytes: &[u8], start: usize, unit: fn([u8; 2]) -> u16) -> Result<ByteString, usize> {
    let (units, rest) = bytes[start..].as_chunks::<2>();
    let mut text = String::with_capacity(units.len());
    let mut at = start;
    for character in char::decode_utf16(units.iter().map(|pair| unit(*pair))) {
        let character = character.map_err(|_| at)?;
        text.push(character);
        at += 2 * character.len_utf16();
    }
    if rest.is_empty() {
        Ok(text.into())
    } else {
        Err(at)
    }
}

static SCHEMA: Schema = Schema::optional(ValueKind::String);

pub struct StringConverter {
    part: Part,
    encoding: Encoding,
}

impl StringConverter {
    pub(super) fn read(settings: &mut Reader<'_>, part: Part) -> Self {
        let name = settings.text(ENCODING);
        let encoding = Encoding::of(&name).unwrap_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(_, names)| names[0]).collect();
            let known = known.join(", ");
            settings.fault(
                ENCODING,
                format!("{name:?} is not supported; these are: {known}"),
            );
            Encoding::Utf8
        });
        Self { part, encoding }
    }

    fn explain(&self, at: usize) -> ConvertError {
        let (part, prefix) = (self.part.name(), self.part.prefix());
        let name = NAMES
            .iter()
            .find(|(encoding, _)| *encoding == self.encoding);
        let encoding = name.map_or("text", |(_, names)| names[0]);
        ConvertError(format!(
            "the record's {part} is not {encoding} from byte {at} on; set {prefix}{ENCODING} to \
             its encoding, or read it with the ByteArrayConverter"
        ))
    }
}

impl Converter for StringConverter {
    fn to_datum(&self, _topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        let Some(bytes) = bytes else {
            return Ok(Datum::null());
        };
        let text = self.encoding.decode(bytes).map_err(|at| self.explain(at))?;
        Ok(Datum::with_schema(&SCHEMA, Value::String(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Faults, Properties};

    fn converter(encoding: &str) -> (StringConverter, Faults) {
        let properties = Properties::from([(format!("key.converter.{ENCODING}"), encoding.into())]);
        let mut faults = Faults::default();
        let mut reader = Reader::new(&properties, "key.converter.", KEYS, &mut faults);
        let converter = StringConverter::read(&mut reader, Part::Key);
        (converter, faults)
    }

    fn text(encoding: &str, bytes: &[u8]) -> Result<String, String> {
        let (converter, faults) = converter(encoding);
        assert!(faults.is_empty(), "{faults}");
        match converter.to_datum("t", Some(&Bytes::copy_from_slice(bytes))) {
            Ok(Datum {
                value: Value::String(text),
                ..
            }) => Ok(text.to_string()),
            Ok(other) => panic!("no text: {other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn utf8_is_the_payload_itself() {
        let payload = Bytes::from_static("grün".as_bytes());
        let datum = converter("UTF-8").0.to_datum("t", Some(&payload)).unwrap();
        let Value::String(text) = datum.value else {
            panic!("no text");
        };
        assert_eq!(text.as_bytes().as_ptr(), payload.as_ptr());
    }

    #[test]
    fn each_encoding_gives_the_text_that_java_gives() {
        assert_eq!(text("utf8", "grün".as_bytes()).unwrap(), "grün");
        assert_eq!(text("ISO-8859-1", b"gr\xfcn").unwrap(), "grün");
        assert_eq!(text("US-ASCII", b"green").unwrap(), "green");
        assert_eq!(text("UTF-16", b"\x00a\xd8\x3d\xde\x00").unwrap(), "a😀");
        assert_eq!(text("UTF-16", b"\xff\xfea\x00").unwrap(), "a");
        assert_eq!(text("UTF-16", b"\xfe\xff\x00a").unwrap(), "a");
        assert_eq!(text("UTF-16LE", b"a\x00").unwrap(), "a");
        assert_eq!(text("UTF-16BE", b"\x00a").unwrap(), "a");
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_with_their_place_and_not_replaced() {
        for (encoding, bytes, at) in [
            ("UTF-8", &b"ab\xffcd"[..], 2),
            ("US-ASCII", b"a\xc3\xa9", 1),
            ("UTF-16", b"\x00a\xd8\x3d\x00b", 2),
            ("UTF-16", b"\x00a\x00", 2),
        ] {
            let error = text(encoding, bytes).unwrap_err();
            assert!(
                error.contains(&format!("key is not {encoding} from byte {at} on")),
                "{error}"
            );
        }
    }

    #[test]
    fn empty_text_is_not_null() {
        assert_eq!(text("UTF-8", b"").unwrap(), "");
        assert_eq!(
            converter("UTF-8").0.to_datum("t", None).unwrap(),
            Datum::null()
        );
    }

    #[test]
    fn an_unknown_encoding_is_refused_with_the_known_ones() {
        let (_, faults) = converter("EBCDIC");
        let fault = faults.iter().next().unwrap();
        assert_eq!(fault.key, "key.converter.converter.encoding");
        assert!(
            fault.message.contains("\"EBCDIC\" is not supported"),
            "{fault}"
        );
        assert!(
            fault
                .message
                .contains("UTF-8, ISO-8859-1, US-ASCII, UTF-16"),
            "{fault}"
        );
    }
}
