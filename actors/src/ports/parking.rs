//! Where records go that fail for now, so that others need not wait for them.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::outcome::Cause;
use crate::record::{RawRecord, RecordId};

/// A record on its way to the parking topic.
#[derive(Clone, Debug)]
pub struct ToPark {
    /// Where it came from, also if it was parked before.
    pub record: RecordId,
    /// As it lay in the log.
    pub original: Arc<RawRecord>,
    /// How often it is parked with this.
    pub count: u32,
    /// When it failed first.
    pub since: Instant,
}

/// Keeps the parked records of one connector, which come back by its source
/// when they are due.
///
/// What holds for [dead letters](crate::ports::dead_letter::DeadLetterQueue)
/// holds here: many at once, each again until it is there for good. One that is
/// written twice is delivered twice.
#[async_trait]
pub trait ParkingLot: Send + Sync + 'static {
    /// Writes a record, and answers when it is there for good, or why it is
    /// not: in words that name the topic, and never key or value.
    async fn park(&self, record: &ToPark) -> Result<(), Cause>;
}
