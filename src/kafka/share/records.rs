//! From one partition's answer to records: one pass over the batches beside
//! the acquired ranges.
//!
//! A broker returns whole batches, but only the offsets inside the acquired
//! ranges are ours; the others are done or held by somebody else. Acquired
//! offsets without a record are gaps. Acquired offsets whose bytes cannot be
//! read are told as corrupt, never as gaps: that would drop them.

use bytes::{Buf, Bytes, BytesMut};
use sluice_actors::record::{CorruptRange, RawHeader, RawRecord, TimestampType};

use super::wire::{self, Batch, BatchHeader};

/// Offsets that the broker locked for us, with how often it gave them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcquiredRange {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) delivery_count: u16,
}

/// What one partition's answer held.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) records: Vec<RawRecord>,
    pub(super) corrupt: Vec<CorruptRange>,
    /// Offsets of `records` and `corrupt`, in ranges.
    pub(super) kept: Vec<(i64, i64)>,
    /// Acquired offsets without a record.
    pub(super) gaps: Vec<(i64, i64)>,
    /// Bytes of memory that `records` keep alive.
    pub(super) bytes: usize,
    /// Bytes of the answer that were read, and of all payload in them (headers
    /// too), also of others' records.
    pub(super) packed: usize,
    pub(super) unpacked: usize,
    /// What there was no room for.
    pub(super) rest: Option<Rest>,
}

/// What is still to be collected.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) bytes: Bytes,
    pub(super) ranges: Vec<AcquiredRange>,
}

/// How much may come of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The largest size of one batch.
    pub(super) batch: usize,
    /// So many bytes more than were read. The batch that goes beyond that is
    /// the last one.
    pub(super) room: usize,
}

/// Collects the acquired records of one partition's answer; its ranges are in
/// order, and each offset is in one of them (see [`disjoint`]).
pub(super) fn collect(
    records: Option<Bytes>,
    acquired: Vec<AcquiredRange>,
    limits: Limits,
) -> Collected {
    let mut walk = Walk::new(acquired);
    let mut rest = records.unwrap_or_default();
    let backing = rest.len();
    while !rest.is_empty() && !walk.is_done() {
        match wire::batch_header(&rest) {
            Ok(header) => walk.batch(&header, &mut rest, limits.batch),
            Err(cause) => {
                walk.damaged.get_or_insert(cause);
                break;
            }
        }
        walk.out.packed = backing - rest.len();
        if walk.is_full(limits.room) && !rest.is_empty() && !walk.is_done() {
            let packed = walk.out.packed;
            return walk.stop(rest).finish(packed);
        }
    }
    walk.pass_to(i64::MAX);
    walk.finish(backing)
}

/// Ranges in ascending order without overlaps; whether there were any.
pub(super) fn disjoint(mut ranges: Vec<AcquiredRange>) -> (Vec<AcquiredRange>, bool) {
    ranges.sort_by_key(|range| range.first);
    let mut doubled = false;
    let mut next = 0;
    ranges.retain_mut(|range| {
        // The greatest number has no successor, and is no offset.
        range.last = range.last.min(i64::MAX - 1);
        doubled |= range.first < next;
        range.first = range.first.max(next);
        next = next.max(range.last + 1);
        range.first <= range.last
    });
    (ranges, doubled)
}

/// A cursor over the acquired ranges; what it passes becomes a record, a gap
/// or corrupt.
struct Walk {
    /// What is left of the current range, and those after it.
    current: Option<AcquiredRange>,
    ranges: std::vec::IntoIter<AcquiredRange>,
    /// A batch could not be read. Its header may lie as well, so everything
    /// up to the next readable batch counts as corrupt.
    damaged: Option<String>,
    out: Collected,
}

impl Walk {
    fn new(ranges: Vec<AcquiredRange>) -> Self {
        let mut ranges = ranges.into_iter();
        Self {
            current: ranges.next(),
            ranges,
            damaged: None,
            out: Collected::default(),
        }
    }

    fn is_done(&self) -> bool {
        self.current.is_none()
    }

    /// Whether more than there is room for has come of it. Never just behind a
    /// damaged batch, whose offsets end where the next one begins: nothing came
    /// of it.
    fn is_full(&self, room: usize) -> bool {
        self.out.unpacked.saturating_sub(self.out.packed) > room
    }

    /// Leaves the rest for later.
    fn stop(mut self, bytes: Bytes) -> Self {
        let ranges = self.current.take().into_iter().chain(self.ranges.by_ref());
        self.out.rest = Some(Rest {
            bytes,
            ranges: ranges.collect(),
        });
        self
    }

    /// Reads the batch at the front of `rest` and steps over it.
    fn batch(&mut self, header: &BatchHeader, rest: &mut Bytes, max_decompressed_bytes: usize) {
        let size = header.total_size();
        match wire::decode_batch(rest, max_decompressed_bytes) {
            Ok(batch) => {
                self.pass_to(batch.base_offset);
                self.decoded(batch);
            }
            Err(cause) => {
                self.pass_to(header.base_offset);
                self.damaged.get_or_insert(cause);
                rest.advance(size.min(rest.len()));
            }
        }
    }

    fn decoded(&mut self, batch: Batch) {
        if batch.attributes.is_control_batch {
            return;
        }
        let stamp = Stamp::of(&batch);
        self.out.records.reserve(batch.records.len());
        for record in batch.records {
            let payload = payload_bytes(&record);
            self.out.unpacked += payload;
            let offset = batch
                .base_offset
                .saturating_add(i64::from(record.offset_delta));
            if let Some(delivery_count) = self.pass(offset) {
                extend(&mut self.out.kept, offset, offset);
                self.out.bytes += payload;
                let record = raw(record, offset, delivery_count, stamp);
                self.out.records.push(record);
            }
        }
    }

    /// Records are slices of the answer, or of what it was decompressed to, and
    /// keep the whole of it alive. Where most of that is not theirs, they are
    /// copied out of it.
    fn finish(mut self, backing: usize) -> Collected {
        let whole = backing.max(self.out.unpacked);
        if self.out.bytes < whole / 2 {
            copy_out(&mut self.out.records, self.out.bytes);
        } else {
            self.out.bytes = whole;
        }
        self.out
    }

    /// Passes everything below an offset where a readable batch begins.
    fn pass_to(&mut self, offset: i64) {
        match self.damaged.take() {
            Some(cause) => self.corrupt_to(offset, &cause),
            None => self.gap_to(offset),
        }
    }

    /// Passes a record: its delivery count if it is ours.
    fn pass(&mut self, offset: i64) -> Option<u16> {
        self.gap_to(offset);
        let range = self
            .current
            .as_mut()
            .filter(|range| range.first == offset)?;
        let delivery_count = range.delivery_count;
        range.first += 1;
        if range.first > range.last {
            self.current = self.ranges.next();
        }
        Some(delivery_count)
    }

    /// Acquired offsets below `end` that were not passed have no record.
    fn gap_to(&mut self, end: i64) {
        while let Some(range) = self.below(end) {
            extend(&mut self.out.gaps, range.first, range.last);
        }
    }

    /// Acquired offsets below `end` that were not passed cannot be read.
    fn corrupt_to(&mut self, end: i64, cause: &str) {
        while let Some(range) = self.below(end) {
            extend(&mut self.out.kept, range.first, range.last);
            self.out.corrupt.push(CorruptRange {
                first_offset: range.first,
                last_offset: range.last,
                delivery_count: range.delivery_count,
                cause: cause.to_owned(),
            });
        }
    }

    /// Cuts off what the current range has below `end`.
    fn below(&mut self, end: i64) -> Option<AcquiredRange> {
        let range = self.current.as_mut().filter(|range| range.first < end)?;
        let cut = AcquiredRange {
            last: range.last.min(end - 1),
            ..*range
        };
        if cut.last == range.last {
            self.current = self.ranges.next();
        } else {
            range.first = end;
        }
        Some(cut)
    }
}

/// Moves all payloads into one allocation of their own.
fn copy_out(records: &mut [RawRecord], bytes: usize) {
    let mut own = BytesMut::with_capacity(bytes);
    let mut copy = |payload: &mut Bytes| {
        own.extend_from_slice(payload);
        *payload = own.split().freeze();
    };
    for record in records {
        [&mut record.key, &mut record.value]
            .into_iter()
            .flatten()
            .for_each(&mut copy);
        for header in &mut record.headers {
            copy(&mut header.key);
            header.value.iter_mut().for_each(&mut copy);
        }
    }
}

/// Appends offsets to ascending ranges.
fn extend(ranges: &mut Vec<(i64, i64)>, first: i64, last: i64) {
    match ranges.last_mut() {
        Some(previous) if previous.1 + 1 == first => previous.1 = last,
        _ => ranges.push((first, last)),
    }
}

/// How a batch dates its records.
#[derive(Clone, Copy)]
struct Stamp {
    base: i64,
    kind: TimestampType,
}

impl Stamp {
    fn of(batch: &Batch) -> Self {
        if batch.attributes.timestamp_type == wire::TimestampType::LogAppendTime {
            Self {
                base: batch.max_timestamp,
                kind: TimestampType::LogAppendTime,
            }
        } else {
            Self {
                base: batch.base_timestamp,
                kind: TimestampType::CreateTime,
            }
        }
    }

    fn timestamp(self, delta: i64) -> Option<i64> {
        let timestamp = match self.kind {
            TimestampType::LogAppendTime => self.base,
            TimestampType::CreateTime => self.base.saturating_add(delta),
        };
        (timestamp != -1).then_some(timestamp)
    }
}

fn raw(record: wire::Record, offset: i64, delivery_count: u16, stamp: Stamp) -> RawRecord {
    RawRecord {
        offset,
        delivery_count,
        timestamp: stamp.timestamp(record.timestamp_delta),
        timestamp_type: stamp.kind,
        key: record.key,
        value: record.value,
        headers: record
            .headers
            .into_iter()
            .map(|header| RawHeader {
                key: header.key,
                value: header.value,
            })
            .collect(),
        parked: None,
    }
}

fn len(bytes: &Option<Bytes>) -> usize {
    bytes.as_ref().map_or(0, Bytes::len)
}

/// Key, value and headers: all that is a slice of the batch.
fn payload_bytes(record: &wire::Record) -> usize {
    let headers: usize = record
        .headers
        .iter()
        .map(|header| header.key.len() + len(&header.value))
        .sum();
    len(&record.key) + len(&record.value) + headers
}
