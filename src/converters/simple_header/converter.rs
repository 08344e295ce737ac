//! Bytes to a guess.

use bytes::Bytes;
use bytestring::ByteString;
use sluice_actors::ports::converter::{ConvertError, HeaderConverter};
use sluice_actors::value::{Datum, Value};

use super::{scan, schemas};

/// Never fails: what is nothing else is text, and what is no text is bytes.
pub struct SimpleHeaderConverter;

impl HeaderConverter for SimpleHeaderConverter {
    fn to_datum(
        &self,
        _topic: &str,
        _header: &str,
        bytes: Option<&Bytes>,
    ) -> Result<Datum, ConvertError> {
        let Some(bytes) = bytes else {
            return Ok(Datum::null());
        };
        Ok(match ByteString::try_from(bytes.clone()) {
            Ok(text) => scan::infer(&text),
            Err(_) => Datum::with_schema(schemas::bytes(), Value::Bytes(bytes.clone())),
        })
    }
}
