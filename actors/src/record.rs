//! Records on their way from the source to the sink, and the names they go by.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::credit::BytesHeld;
use crate::life::Life;
use crate::trace_context::TraceContext;
use crate::value::Datum;

/// Kafka's id of a topic; a topic that is deleted and made again gets another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub [u8; 16]);

/// A partition that records come from. Shared by all its records.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SourcePartition {
    pub topic: Arc<str>,
    pub topic_id: TopicId,
    pub partition: i32,
}

impl fmt::Display for SourcePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Names a record for ever; with the delivery count it names one delivery.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordId {
    pub partition: Arc<SourcePartition>,
    pub offset: i64,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)
    }
}

/// Who set a record's timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    #[default]
    CreateTime,
    LogAppendTime,
}

/// A header as it lies in the log. Keys are text by convention only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawHeader {
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A record as the source hands it over: payloads are slices of the response
/// that brought them.
#[derive(Clone, Debug)]
pub struct RawRecord {
    pub offset: i64,
    /// Which delivery of this record this is; the first is 1.
    pub delivery_count: u16,
    /// Milliseconds since the epoch; `None` when the producer set none (-1).
    pub timestamp: Option<i64>,
    pub timestamp_type: TimestampType,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<RawHeader>,
    /// Timestamp and headers are then those that it had at its origin.
    pub parked: Option<Arc<Parked>>,
}

/// What a record that comes from the parking topic says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Where it came from, and what it is known by outside.
    pub origin: RecordId,
    /// Where it lies now, under its lock.
    pub place: RecordId,
    /// How often it was parked.
    pub count: u32,
    /// When it failed first.
    pub since: Instant,
    /// When it is to be tried again.
    pub due: Instant,
}

/// Acquired offsets whose bytes could not be decoded (bad checksum, unknown
/// codec). They are locked like any other record and need an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptRange {
    pub first_offset: i64,
    pub last_offset: i64,
    pub delivery_count: u16,
    pub cause: String,
}

/// A record that lies where the connector's records do, and is none of them. It
/// is locked like any other and needs an outcome.
#[derive(Clone, Debug)]
pub struct Stray {
    /// As it lies in the log.
    pub raw: RawRecord,
    pub cause: String,
    /// Somebody else can deliver it: it is held for them, whatever is tolerated.
    pub is_kept: bool,
}

/// Records of one partition that one answer of the broker locked for us.
#[derive(Debug)]
pub struct AcquiredBatch {
    pub partition: Arc<SourcePartition>,
    /// In ascending order of offset, each offset once.
    pub records: Vec<RawRecord>,
    pub corrupt: Vec<CorruptRange>,
    pub strays: Vec<Stray>,
    /// When the locks end, as the broker told it.
    pub lock_deadline: Instant,
    /// How long a fresh lock lasts, as the broker told it. What is left until
    /// the deadline says nothing of it: the answer may have been slow.
    pub lock: Duration,
    /// When the answer arrived.
    pub acquired_at: Instant,
    /// The bytes that these records hold; given back when dropped.
    pub held: BytesHeld,
}

/// A header after the header converter.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    pub key: Arc<str>,
    pub value: Datum,
}

/// A record as a sink sees it: converted and transformed.
#[derive(Clone, Debug)]
pub struct SinkRecord {
    /// Where the record came from, also if it was parked meanwhile. Transforms
    /// never change it.
    pub partition: Arc<SourcePartition>,
    pub offset: i64,
    pub delivery_count: u16,
    /// Which acquisition of this offset it belongs to (see the ledger).
    pub acquisition: u32,
    /// The topic to route by; a transform may have changed it.
    pub topic: Arc<str>,
    pub timestamp: Option<i64>,
    pub timestamp_type: TimestampType,
    pub key: Datum,
    pub value: Datum,
    pub headers: Vec<Header>,
    /// The record as it lay in the log, kept for letters; `None` when
    /// nothing could ask for it.
    pub original: Option<Arc<RawRecord>>,
    /// Where its lock is, if that is not where it came from.
    pub parked: Option<Arc<Parked>>,
    /// What this delivery goes through, if it is traced.
    pub life: Option<Arc<Life>>,
}

impl SinkRecord {
    #[must_use]
    pub fn id(&self) -> RecordId {
        RecordId {
            partition: Arc::clone(&self.partition),
            offset: self.offset,
        }
    }

    /// The span that it is put in, to be passed on by the sink.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        self.life.as_ref().map(|life| life.current())
    }

    /// Roughly how much data its key, value and headers are.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let headers = self.headers.iter();
        let headers = headers.map(|it| it.key.len() + it.value.value.payload_bytes());
        self.key.value.payload_bytes() + self.value.value.payload_bytes() + headers.sum::<usize>()
    }
}
