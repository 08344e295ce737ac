//! Record to zero or one record.

use crate::ports::converter::ConvertError;
use crate::record::SinkRecord;

/// Changes a record, or drops it (`None`): a dropped record counts as done.
///
/// May change topic, timestamp, key, value and headers; where the record came
/// from stays. Called on the hot path, once for a delivery, and again only when
/// its pipeline was started anew meanwhile; an error rejects the record, a panic
/// is caught and counts as an error. A call that does not come back within 60 s
/// hangs: it is made once more, and then its record is rejected.
pub trait Transform: Send + Sync + 'static {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError>;

    /// The name that its connector has for it.
    fn alias(&self) -> &str {
        "transform"
    }
}
