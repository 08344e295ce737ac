//! Record to zero or one record.

use crate::ports::converter::ConvertError;
use crate::record::SinkRecord;

/// Changes a record, or drops it (`None`): a dropped record counts as done.
///
/// May change topic, timestamp, key, value and headers; where the record came
/// from stays. Called on the hot path, never twice for one delivery; an error
/// rejects the record, a panic is caught and counts as an error.
pub trait Transform: Send + Sync + 'static {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError>;
}
