//! The requests of a share session and what becomes of them, as the pure
//! parts see them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use krafka::auth::AuthConfig;
use krafka::error::ErrorCode;
use sluice_actors::credit::BytesHeld;
use sluice_actors::outcome::Cause;
use sluice_actors::record::{AcquiredBatch, SourcePartition};
use tokio::time::Instant;

use super::config::AcquireMode;
use super::reauthentication::Validity;
use super::records::AcquiredRange;
use super::session::{Delta, PartitionKey};
use super::settlements::AckBatch;

/// Settlements by partition, in the order of the request.
pub(super) type Acknowledgements = Vec<(PartitionKey, Vec<AckBatch>)>;

/// What a session sends next.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) broker: i32,
    pub(super) epoch: i32,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Fetch(Fetch),
    Acknowledge(Acknowledgements),
    /// Outside of the session: it has no part in its epochs.
    Reauthenticate(Arc<AuthConfig>),
}

#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) max_wait: Duration,
    pub(super) max_bytes: usize,
    pub(super) max_records: usize,
    pub(super) acquire_mode: AcquireMode,
    pub(super) delta: Delta,
    pub(super) acknowledgements: Acknowledgements,
}

/// What the broker said to a request.
#[derive(Debug)]
pub(super) struct Reply {
    /// When the request went out: locks are counted from here, which is
    /// earlier than the broker's own count.
    pub(super) sent_at: Instant,
    /// How long the broker takes no other request after this fetch, since a
    /// quota is used up.
    pub(super) throttle: Option<Duration>,
    /// How long a lock lasts.
    pub(super) lock: Option<Duration>,
    /// How long the connection's credentials hold.
    pub(super) validity: Option<Validity>,
    pub(super) partitions: Vec<PartitionReply>,
}

/// One partition's part of a reply.
#[derive(Debug)]
pub(super) struct PartitionReply {
    pub(super) key: PartitionKey,
    pub(super) fetch_error: Option<Refusal>,
    pub(super) acknowledge_error: Option<Refusal>,
    pub(super) acquired: Option<Acquired>,
}

/// Tells a source's acquisitions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acquisition(pub(super) u64);

/// What a partition's reply locked for us. Its records are still to be read:
/// the next request need not wait for that.
#[derive(Debug)]
pub(super) struct Acquired {
    pub(super) acquisition: Acquisition,
    pub(super) partition: Arc<SourcePartition>,
    /// In order, each offset once.
    pub(super) ranges: Vec<AcquiredRange>,
    /// The broker named an offset twice.
    pub(super) doubled: bool,
    /// When the first of its locks ends.
    pub(super) deadline: Instant,
    /// How long a fresh lock lasts.
    pub(super) lock: Duration,
    pub(super) arrived_at: Instant,
    pub(super) bytes: Option<Bytes>,
    /// The credit for `bytes`, until the records have theirs.
    pub(super) held: BytesHeld,
}

/// Acquired records to be read, and whose they are.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) broker: i32,
    pub(super) key: PartitionKey,
    pub(super) acquired: Acquired,
    /// What it will probably take when it is read, on top of its own bytes.
    pub(super) reserved: Option<BytesHeld>,
}

/// What is to be read at a time.
#[derive(Debug)]
pub(super) struct ToRead {
    pub(super) unread: Vec<Unread>,
    /// So many bytes more than they are may come of them, kept for them until
    /// they are read. The batch that goes beyond that is the last one.
    pub(super) room: BytesHeld,
}

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct HasRead {
    pub(super) read: Vec<Read>,
    /// What there was no room for.
    pub(super) left: Vec<Unread>,
}

/// What was read of an acquisition.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) broker: i32,
    pub(super) key: PartitionKey,
    /// `None` when there were only gaps.
    pub(super) batch: Option<AcquiredBatch>,
    /// Acquired offsets without a record.
    pub(super) gaps: Vec<(i64, i64)>,
    pub(super) acquisition: Acquisition,
    /// Bytes of the answer that were read.
    pub(super) packed: usize,
    /// Bytes of payload that were in them.
    pub(super) unpacked: usize,
}

impl Read {
    /// How many bytes came on top of the answer's.
    pub(super) fn growth(&self) -> usize {
        self.unpacked.saturating_sub(self.packed)
    }
}

/// An error code with the broker's words.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} ({})", self.code, self.code.to_i16())?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Why a request has no reply.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The connection could not be made, was lost, or did not answer in time.
    Lost(Cause),
    /// The broker refused the request as a whole.
    Refused(Refusal),
    /// It cannot work with this broker or these credentials.
    Impossible(Cause),
}

/// Whether there is a renewal among settlements; such a request must say so.
pub(super) fn renews(acknowledgements: &Acknowledgements) -> bool {
    acknowledgements
        .iter()
        .flat_map(|(_, batches)| batches)
        .any(|batch| batch.kind == super::settlements::AckType::Renew)
}
