//! Single numbers and booleans as Kafka's serializers write them: big endian,
//! of fixed length.

use bytes::Bytes;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::value::{Datum, Kind, Schema, Value};

use super::part::Part;

static BOOLEAN: Schema = Schema::optional(Kind::Boolean);
static INT16: Schema = Schema::optional(Kind::Int16);
static INT32: Schema = Schema::optional(Kind::Int32);
static INT64: Schema = Schema::optional(Kind::Int64);
static FLOAT32: Schema = Schema::optional(Kind::Float32);
static FLOAT64: Schema = Schema::optional(Kind::Float64);

/// Reads values of one primitive type.
pub struct PrimitiveConverter {
    part: Part,
    schema: &'static Schema,
    /// What the bytes must be.
    layout: &'static str,
    decode: fn(&[u8]) -> Option<Value>,
}

impl PrimitiveConverter {
    fn new(
        part: Part,
        schema: &'static Schema,
        layout: &'static str,
        decode: fn(&[u8]) -> Option<Value>,
    ) -> Self {
        Self {
            part,
            schema,
            layout,
            decode,
        }
    }

    pub(super) fn boolean(part: Part) -> Self {
        Self::new(
            part,
            &BOOLEAN,
            "one byte, 0 or 1, for a boolean",
            |bytes| match bytes {
                [0] => Some(Value::Boolean(false)),
                [1] => Some(Value::Boolean(true)),
                _ => None,
            },
        )
    }

    pub(super) fn short(part: Part) -> Self {
        Self::new(part, &INT16, "2 bytes for a short", |bytes| {
            bytes
                .try_into()
                .ok()
                .map(|bytes| Value::Int16(i16::from_be_bytes(bytes)))
        })
    }

    pub(super) fn integer(part: Part) -> Self {
        Self::new(part, &INT32, "4 bytes for an integer", |bytes| {
            bytes
                .try_into()
                .ok()
                .map(|bytes| Value::Int32(i32::from_be_bytes(bytes)))
        })
    }

    pub(super) fn long(part: Part) -> Self {
        Self::new(part, &INT64, "8 bytes for a long", |bytes| {
            bytes
                .try_into()
                .ok()
                .map(|bytes| Value::Int64(i64::from_be_bytes(bytes)))
        })
    }

    pub(super) fn float(part: Part) -> Self {
        Self::new(part, &FLOAT32, "4 bytes for a float", |bytes| {
            bytes
                .try_into()
                .ok()
                .map(|bytes| Value::Float32(f32::from_be_bytes(bytes)))
        })
    }

    pub(super) fn double(part: Part) -> Self {
        Self::new(part, &FLOAT64, "8 bytes for a double", |bytes| {
            bytes
                .try_into()
                .ok()
                .map(|bytes| Value::Float64(f64::from_be_bytes(bytes)))
        })
    }
}

impl Converter for PrimitiveConverter {
    fn to_datum(&self, _topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        let Some(bytes) = bytes else {
            return Ok(Datum::null());
        };
        let value = (self.decode)(bytes).ok_or_else(|| {
            let (part, key) = (self.part.name(), self.part.class_key());
            let (length, layout) = (bytes.len(), self.layout);
            ConvertError(format!(
                "the record's {part} ({length} bytes) is not what {key} expects: {layout}"
            ))
        })?;
        Ok(Datum::with_schema(self.schema, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_read_big_endian() {
        let part = Part::Value;
        for (converter, bytes, value) in [
            (
                PrimitiveConverter::boolean(part),
                &[1][..],
                Value::Boolean(true),
            ),
            (
                PrimitiveConverter::boolean(part),
                &[0],
                Value::Boolean(false),
            ),
            (
                PrimitiveConverter::short(part),
                &[0xff, 0xfe],
                Value::Int16(-2),
            ),
            (
                PrimitiveConverter::integer(part),
                &[0, 0, 1, 0],
                Value::Int32(256),
            ),
            (
                PrimitiveConverter::long(part),
                &[0, 0, 0, 0, 0, 0, 1, 0],
                Value::Int64(256),
            ),
            (
                PrimitiveConverter::float(part),
                &[0x3f, 0xc0, 0, 0],
                Value::Float32(1.5),
            ),
            (
                PrimitiveConverter::double(part),
                &[0x3f, 0xf8, 0, 0, 0, 0, 0, 0],
                Value::Float64(1.5),
            ),
        ] {
            let datum = converter
                .to_datum("t", Some(&Bytes::copy_from_slice(bytes)))
                .unwrap();
            assert_eq!(datum.value, value);
            assert_eq!(converter.to_datum("t", None).unwrap(), Datum::null());
        }
    }

    #[test]
    fn bytes_of_another_length_are_an_error_that_says_what_is_expected() {
        let converter = PrimitiveConverter::integer(Part::Key);
        for bytes in [&b""[..], b"123", b"12345"] {
            let error = converter.to_datum("t", Some(&Bytes::copy_from_slice(bytes)));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("key.converter expects: 4 bytes"), "{error}");
            assert!(
                error.contains(&format!("({} bytes)", bytes.len())),
                "{error}"
            );
        }
        let boolean = PrimitiveConverter::boolean(Part::Value);
        assert!(
            boolean
                .to_datum("t", Some(&Bytes::from_static(&[2])))
                .is_err()
        );
    }
}
