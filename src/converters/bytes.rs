//! Bytes as they are.

use bytes::Bytes;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::value::{Datum, Kind, Schema, Value};

/// The payload itself, not copied.
#[derive(Default)]
pub struct ByteArrayConverter;

static SCHEMA: Schema = Schema::optional(Kind::Bytes);

impl Converter for ByteArrayConverter {
    fn to_datum(&self, _topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        Ok(bytes.map_or_else(Datum::null, |bytes| {
            Datum::with_schema(&SCHEMA, Value::Bytes(bytes.clone()))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_payload_itself() {
        let payload = Bytes::from(vec![0, 0xff, 7]);
        let datum = ByteArrayConverter.to_datum("t", Some(&payload)).unwrap();
        let Value::Bytes(bytes) = datum.value else {
            panic!("no bytes");
        };
        assert_eq!(bytes.as_ptr(), payload.as_ptr());
        assert_eq!(
            datum.schema.as_deref(),
            Some(&Schema::optional(Kind::Bytes))
        );
    }

    #[test]
    fn empty_and_null_are_kept_apart() {
        let converter = ByteArrayConverter;
        let empty = converter.to_datum("t", Some(&Bytes::new())).unwrap();
        assert_eq!(empty.value, Value::Bytes(Bytes::new()));
        assert_eq!(converter.to_datum("t", None).unwrap(), Datum::null());
    }
}
