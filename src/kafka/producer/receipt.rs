//! What goes with each record through a producer.

use sluice_actors::ports::sink::SinkError;

/// Told what became of its record, on the producer's thread. Dropped when the
/// record is on its way no more, whatever became of it.
pub(crate) trait Receipt: Send + Sync + 'static {
    fn delivered(&self);
    /// No broker takes this record.
    fn reject(&self, cause: String);
    /// It may work later.
    fn retry(&self, cause: String);
    /// The record or another one of its batch is at fault.
    fn suspect(&self);
    /// No record is to blame.
    fn fail(&self, error: SinkError);
    /// A broker did not let us write to that topic; comes before the failure.
    fn denied(&self, topic: &str);
}
