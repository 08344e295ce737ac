//! Where records go that can never be delivered.

use std::sync::Arc;

use async_trait::async_trait;

use crate::outcome::{Cause, Rejection};
use crate::record::{RawRecord, RecordId};

/// A record that is put aside.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub record: RecordId,
    /// As it lay in the log; `None` when its bytes could not be decoded.
    pub original: Option<Arc<RawRecord>>,
    pub rejection: Rejection,
    /// Whose put it was in; 0 when it did not come so far.
    pub task: u32,
}

/// Keeps the dead letters of one connector.
///
/// Many are written at once, in no order. The record stays locked until its
/// letter is confirmed, so a letter may take its time; the caller tries one
/// that failed again, for ever, with a back-off. The same letter may come
/// again: after a failure, after the call was dropped at an await, from another
/// worker. A call must not block its thread.
#[async_trait]
pub trait DeadLetterQueue: Send + Sync + 'static {
    /// Writes a letter, and answers when it is there for good, or why it is
    /// not: in words that name the queue, and never key or value.
    async fn write(&self, letter: &DeadLetter) -> Result<(), Cause>;
}
