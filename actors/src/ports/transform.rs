//! Record to zero or one record.

use crate::ports::converter::ConvertError;
use crate::record::SinkRecord;

/// Changes a record, or drops it (`None`): a dropped record counts as done.
///
/// May change topic, timestamp, key, value and headers; where the record came
/// from stays. Called on the hot path, once for a delivery, and again only when
/// a converter or transform hung over a record of the same batch; an error
/// rejects the record, a panic is caught and counts as an error. A call that
/// does not come back within 60 s hangs, and its record is rejected in the end.
pub trait Transform: Send + Sync + 'static {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError>;
}
