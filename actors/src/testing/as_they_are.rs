//! Converters that change nothing.

use std::sync::Arc;

use bytes::Bytes;

use crate::conversion::Conversion;
use crate::ports::converter::{ConvertError, Converter, HeaderConverter};
use crate::value::{Datum, Value};

/// Bytes as they are, null as null.
pub struct AsTheyAre;

impl Converter for AsTheyAre {
    fn to_datum(&self, _topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        let value = bytes.map_or(Value::Null, |bytes| Value::Bytes(bytes.clone()));
        Ok(Datum::schemaless(value))
    }
}

impl HeaderConverter for AsTheyAre {
    fn to_datum(
        &self,
        topic: &str,
        _header: &str,
        bytes: Option<&Bytes>,
    ) -> Result<Datum, ConvertError> {
        Converter::to_datum(self, topic, bytes)
    }
}

/// All parts of a record as they are, but for its value.
#[must_use]
pub fn conversion_of_values(value: impl Converter) -> Conversion {
    Conversion {
        key: Arc::new(AsTheyAre),
        value: Arc::new(value),
        header: Arc::new(AsTheyAre),
        transforms: Vec::new(),
    }
}
