//! Where records come from.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::outcome::Cause;
use crate::record::{AcquiredBatch, SourcePartition};

/// What the broker is told about acquired offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// Done; never again.
    Accept,
    /// Give it to whoever asks next. Uses up a delivery attempt.
    Release,
    /// Never again, though not done.
    Reject,
    /// Start the lock's time anew. Not final: another one follows.
    Renew,
}

impl Settlement {
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Renew)
    }
}

/// A settlement of consecutive offsets of one partition, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleRange {
    pub partition: Arc<SourcePartition>,
    pub first_offset: i64,
    pub last_offset: i64,
    pub settlement: Settlement,
}

/// What the broker said to a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The broker holds it; it may be counted.
    Confirmed,
    /// A renewal was taken; the lock now lasts until then.
    Renewed { lock_deadline: Instant },
    /// Nobody can tell. The lock is not ours any more (or never was): the
    /// record is done, or it comes again.
    Unknown { cause: Cause },
}

/// An answer to (a part of) a range that was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRange {
    pub range: SettleRange,
    pub answer: Answer,
}

/// Offsets whose lock is gone without our doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub partition: Arc<SourcePartition>,
    pub first_offset: i64,
    pub last_offset: i64,
    pub cause: Cause,
}

/// What a source has to tell.
#[derive(Debug)]
pub enum SourceEvent {
    Acquired(Vec<AcquiredBatch>),
    Answered(Vec<AnsweredRange>),
    /// Comes before any new acquisition of the same offsets.
    Lost(Vec<LostRange>),
    /// Joined, and a session is open on every leader; also after a trouble
    /// has passed.
    Ready,
    /// Something does not work now and is being tried again; names the
    /// resource.
    Troubled {
        cause: Cause,
    },
    /// It will not work without the operator (rights, credentials, clash of
    /// group ids). The source settles on, as far as it can, and fetches no more.
    Failed {
        cause: Cause,
    },
}

/// How closing a source ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceClosed {
    /// Offsets whose settlement was not confirmed in time.
    pub unconfirmed: u64,
    /// What could not be closed properly, if anything.
    pub cause: Option<Cause>,
}

/// A source of records under locks.
///
/// Events come through the receiver that was handed out when the source was
/// made; they are not lost when nobody waits for them. The source keeps to its
/// [`Credit`](crate::credit::Credit): it acquires no more records than the
/// window leaves free (the broker may exceed it by a batch per partition).
///
/// None of the calls waits (the pipeline makes them under a lock), fails or may be forgotten by the source: whatever
/// goes wrong comes back as an event.
pub trait Source: Send + Sync + 'static {
    /// Tells the broker about offsets that were acquired, at any time, in any
    /// order, ranges in any number. Each offset gets one final settlement;
    /// the source answers every range, in parts if need be, also with
    /// [`Answer::Unknown`]. A renewal that meets a final settlement of the
    /// same offset is dropped without an answer.
    fn settle(&self, ranges: Vec<SettleRange>);

    /// Sends what is settled, waits for the answers until `deadline` has
    /// passed, closes the sessions (which gives back what is still open) and
    /// leaves. Answers still come as events. A second call waits for the first.
    fn close(&self, deadline: Duration) -> BoxFuture<'static, SourceClosed>;
}

/// The events of one source.
pub type SourceEvents = mpsc::Receiver<SourceEvent>;
