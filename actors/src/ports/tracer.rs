//! Where the lives of traced records go.

use std::fmt::Debug;

use tokio::time::Instant;

use crate::life::{Choice, FinishedLife, FinishedPut};
use crate::sampling::Sampling;

/// Takes what traced records went through, once each is settled.
///
/// None of the calls waits or fails: deliveries go on behind them. The first
/// three are made while the books are locked, and must be quick; the others,
/// which take what is to be told, are not.
pub trait Tracer: Debug + Send + Sync + 'static {
    /// Asked once, when a connector starts.
    fn sampling(&self) -> Sampling;

    /// Whether there is room for another life now. One that was admitted comes
    /// back when it is over.
    fn admits(&self, choice: Choice, now: Instant) -> bool;

    /// So many deliveries were to be traced, and there was no room.
    fn left_out(&self, deliveries: usize);

    /// A delivery of a record is over.
    fn ended(&self, life: FinishedLife);

    /// A put of several records is over, some of which are traced.
    fn put_ended(&self, put: FinishedPut);
}
