//! Bytes to values.

use bytes::Bytes;

use crate::value::Datum;

/// Bytes that are not what they should be. Words for the person who must mend
/// them; never the payload itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(pub String);

/// Turns a record's key or value into a value with a schema.
///
/// Called for every record on the hot path. The same bytes always give the
/// same answer, so nobody retries: an error rejects the record. A panic is
/// caught and counts as an error; its message may quote the payload. A call that does not come back within 60 s
/// hangs: it is made once more, and then its record is rejected. `None` is
/// Kafka's null: as a value it is a tombstone, and stays one.
pub trait Converter: Send + Sync + 'static {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError>;
}

/// Turns a header's bytes into a value; otherwise like [`Converter`].
pub trait HeaderConverter: Send + Sync + 'static {
    fn to_datum(
        &self,
        topic: &str,
        header: &str,
        bytes: Option<&Bytes>,
    ) -> Result<Datum, ConvertError>;
}
