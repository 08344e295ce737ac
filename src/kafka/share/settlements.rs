//! What one partition's records are waiting for: the book of its locks and
//! settlements, as a pure state machine.
//!
//! An acquired offset is *held* until a final settlement is asked for, then
//! *pending* until a request takes it, then *in flight* until the broker has
//! answered. The broker answers per partition: a refusal says nothing about
//! the single record, so what was refused is tried again in smaller parts
//! while its lock lasts, and is unknown after that.

use std::collections::VecDeque;
use std::sync::Arc;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::{Answer, AnsweredRange, LostRange, SettleRange, Settlement};
use sluice_actors::record::{AcquiredBatch, CorruptRange, RawRecord, SourcePartition};
use tokio::time::Instant;

use super::ranges::{Ranges, Run};
use super::request::{Acquired, Acquisition, Read};

/// An acknowledgement as the broker numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckType {
    /// An acquired offset without a record (compaction, control record).
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
    Renew = 4,
}

impl AckType {
    fn settlement(self) -> Option<Settlement> {
        match self {
            Self::Gap => None,
            Self::Accept => Some(Settlement::Accept),
            Self::Release => Some(Settlement::Release),
            Self::Reject => Some(Settlement::Reject),
            Self::Renew => Some(Settlement::Renew),
        }
    }
}

impl From<Settlement> for AckType {
    fn from(settlement: Settlement) -> Self {
        match settlement {
            Settlement::Accept => Self::Accept,
            Settlement::Release => Self::Release,
            Settlement::Reject => Self::Reject,
            Settlement::Renew => Self::Renew,
        }
    }
}

/// Consecutive offsets acknowledged alike, on their way to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AckBatch {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) kind: AckType,
    /// When the first of these locks ends.
    pub(super) deadline: Instant,
}

/// The lock of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    /// Which acquisition it came with: renewing moves its end, and the same
    /// offset may come again.
    pub(super) acquisition: Acquisition,
    pub(super) deadline: Instant,
}

/// What a book has to tell; the answers go out before the losses, and both
/// before any new acquisition.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) answered: Vec<AnsweredRange>,
    pub(super) lost: Vec<LostRange>,
}

/// The locks and settlements of one partition in one session.
#[derive(Debug)]
pub(super) struct Book {
    partition: Arc<SourcePartition>,
    /// Locked, no final settlement asked for.
    pub(super) held: Ranges<Lock>,
    pub(super) pending: Ranges<(AckType, Instant)>,
    /// Offsets of `held` whose lock is to be renewed.
    pub(super) renewals: Ranges<Instant>,
    pub(super) in_flight: Vec<AckBatch>,
    /// Refused parts, each tried again alone.
    pub(super) retries: VecDeque<AckBatch>,
    pub(super) retry_at: Option<Instant>,
    /// The last request took a retry; fresh settlements are next.
    retried: bool,
}

impl Book {
    pub(super) fn new(partition: Arc<SourcePartition>) -> Self {
        Self {
            partition,
            held: Ranges::default(),
            pending: Ranges::default(),
            renewals: Ranges::default(),
            in_flight: Vec::new(),
            retries: VecDeque::new(),
            retry_at: None,
            retried: false,
        }
    }

    pub(super) fn topic(&self) -> &str {
        &self.partition.topic
    }

    /// Offsets acquired and not yet put on a request as finally settled.
    pub(super) fn open(&self) -> u64 {
        self.held.len() + self.pending.len()
    }

    /// Offsets that wait to be finally settled by the next request.
    pub(super) fn pending(&self) -> u64 {
        self.pending.len()
    }

    /// All that was acquired is settled, as far as the pipeline is concerned.
    pub(super) fn is_whole(&self) -> bool {
        self.held.is_empty()
    }

    /// Nothing is locked, and nothing waits for the broker.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && !self.has_work() && self.in_flight.is_empty()
    }

    /// Something is to be sent, now or later.
    pub(super) fn has_work(&self) -> bool {
        !self.pending.is_empty() || !self.renewals.is_empty() || !self.retries.is_empty()
    }

    /// Something final is to be sent now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.pending.is_empty() || self.due_retry(now).is_some()
    }

    /// A renewal is to be sent now, which a normal fetch cannot carry.
    pub(super) fn is_renewal_due(&self, now: Instant) -> bool {
        !self.renewals.is_empty()
            || self
                .due_retry(now)
                .is_some_and(|batch| batch.kind == AckType::Renew)
    }

    /// When a part that was refused is to be sent again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retries.front().and(self.retry_at)
    }

    fn due_retry(&self, now: Instant) -> Option<&AckBatch> {
        let due = self.retry_at.is_none_or(|at| at <= now);
        self.retries.front().filter(|_| due)
    }

    /// Offsets that a request locked, with or without a record. Those that are
    /// here already have lost their former lock, which is told before.
    pub(super) fn acquire(&mut self, acquired: &Acquired, told: &mut Told) {
        let lock = Lock {
            acquisition: acquired.acquisition,
            deadline: acquired.deadline,
        };
        for range in &acquired.ranges {
            self.forget(range.first, range.last, told);
            self.held.insert(Run {
                first: range.first,
                last: range.last,
                value: lock,
            });
        }
    }

    /// Takes what was read of an acquisition. Gaps are settled by the book
    /// itself; what has lost its lock meanwhile, which was told then, is left
    /// out.
    pub(super) fn read(&mut self, read: Read) -> Option<AcquiredBatch> {
        let acquisition = read.acquisition;
        for (first, last) in read.gaps {
            let runs: Vec<_> = self.still_held(acquisition, first, last).collect();
            for run in runs {
                self.held.remove(run.first, run.last);
                self.renew_no_more(run.first, run.last);
                self.pending.insert(Run {
                    first: run.first,
                    last: run.last,
                    value: (AckType::Gap, run.value.deadline),
                });
            }
        }
        let mut batch = read.batch?;
        self.retain_held(acquisition, &mut batch.records);
        let corrupt = std::mem::take(&mut batch.corrupt);
        batch.corrupt = corrupt
            .into_iter()
            .flat_map(|range| {
                let (first, last) = (range.first_offset, range.last_offset);
                let parts = self.still_held(acquisition, first, last);
                parts.map(move |run| CorruptRange {
                    first_offset: run.first,
                    last_offset: run.last,
                    ..range.clone()
                })
            })
            .collect();
        (!batch.records.is_empty() || !batch.corrupt.is_empty()).then_some(batch)
    }

    /// Records come in order, so one look is enough for those of a run.
    fn retain_held(&self, acquisition: Acquisition, records: &mut Vec<RawRecord>) {
        let mut run = None;
        records.retain(|record| {
            let offset = record.offset;
            run = run
                .filter(|run: &Run<Lock>| run.contains(offset))
                .or_else(|| self.held.run(offset));
            run.is_some_and(|run| run.value.acquisition == acquisition)
        });
    }

    /// When the first lock ends of what is left of an acquisition.
    pub(super) fn deadline(&self, acquired: &Acquired) -> Option<Instant> {
        self.left(acquired).map(|run| run.value.deadline).min()
    }

    /// Marks what is left of an acquisition for renewal.
    pub(super) fn renew_acquired(&mut self, acquired: &Acquired) {
        let left: Vec<_> = self.left(acquired).collect();
        for run in left {
            self.renew(run.first, run.last);
        }
    }

    /// Whether something that is left of an acquisition waits for a renewal, or
    /// for the answer to one.
    pub(super) fn is_renewing(&self, acquired: &Acquired) -> bool {
        let sent = self.in_flight.iter().chain(&self.retries);
        let sent = sent.filter(|batch| batch.kind == AckType::Renew);
        let asked = self.renewals.iter().map(|run| (run.first, run.last));
        let renewals = sent.map(|batch| (batch.first, batch.last)).chain(asked);
        let mut overlaps = renewals.flat_map(|(first, last)| {
            let ranges = acquired.ranges.iter();
            ranges.map(move |range| (first.max(range.first), last.min(range.last)))
        });
        let acquisition = acquired.acquisition;
        let is_held = |first, last| self.still_held(acquisition, first, last).next().is_some();
        overlaps.any(|(first, last)| first <= last && is_held(first, last))
    }

    fn left(&self, acquired: &Acquired) -> impl Iterator<Item = Run<Lock>> {
        let (acquisition, ranges) = (acquired.acquisition, acquired.ranges.iter());
        ranges.flat_map(move |range| self.still_held(acquisition, range.first, range.last))
    }

    fn still_held(
        &self,
        acquisition: Acquisition,
        first: i64,
        last: i64,
    ) -> impl Iterator<Item = Run<Lock>> {
        let runs = self.held.within(first, last);
        runs.filter(move |run| run.value.acquisition == acquisition)
    }

    /// Drops what is known of offsets that were acquired anew.
    fn forget(&mut self, first: i64, last: i64, told: &mut Told) {
        if self.is_empty() {
            return;
        }
        let cause: Cause = "the lock ended, and the broker gave the record out again".into();
        for run in self.pending.remove(first, last) {
            self.unknown(run.first, run.last, run.value.0, &cause, told);
        }
        for run in self.renewals.remove(first, last) {
            self.unknown(run.first, run.last, AckType::Renew, &cause, told);
        }
        for batch in std::mem::take(&mut self.retries) {
            for part in without(batch, first, last) {
                self.retries.push_back(part);
            }
            if batch.first <= last && first <= batch.last {
                let (from, to) = (batch.first.max(first), batch.last.min(last));
                self.unknown(from, to, batch.kind, &cause, told);
            }
        }
        for run in self.held.remove(first, last) {
            self.lost(run.first, run.last, &cause, told);
        }
    }

    /// Takes a settlement from the pipeline. A final one replaces a renewal;
    /// offsets that are not held are unknown at once.
    pub(super) fn settle(&mut self, range: &SettleRange, told: &mut Told) {
        let (first, last) = (range.first_offset, range.last_offset);
        let kind = AckType::from(range.settlement);
        let runs = if kind == AckType::Renew {
            self.renew(first, last)
        } else {
            self.renew_no_more(first, last);
            let runs = self.held.remove(first, last);
            for run in &runs {
                self.pending.insert(Run {
                    first: run.first,
                    last: run.last,
                    value: (kind, run.value.deadline),
                });
            }
            runs
        };
        let mut next = first;
        for run in &runs {
            self.unheld(next, run.first - 1, kind, told);
            next = run.last.saturating_add(1);
        }
        self.unheld(next, last, kind, told);
    }

    /// Marks what is held for renewal; gives back which offsets those are.
    pub(super) fn renew(&mut self, first: i64, last: i64) -> Vec<Run<Lock>> {
        let runs: Vec<Run<Lock>> = self.held.within(first, last).collect();
        for run in &runs {
            self.renewals.insert(Run {
                first: run.first,
                last: run.last,
                value: run.value.deadline,
            });
        }
        runs
    }

    /// What is settled needs no lock, also where a renewal was refused and is to
    /// be sent again.
    fn renew_no_more(&mut self, first: i64, last: i64) {
        self.renewals.remove(first, last);
        for batch in std::mem::take(&mut self.retries) {
            if batch.kind == AckType::Renew {
                self.retries.extend(without(batch, first, last));
            } else {
                self.retries.push_back(batch);
            }
        }
    }

    fn unheld(&self, first: i64, last: i64, kind: AckType, told: &mut Told) {
        if first <= last {
            self.unknown(first, last, kind, &not_held(), told);
        }
    }

    /// What the next request carries for this partition, in ascending order.
    /// Renewals stay behind when it is a fetch.
    pub(super) fn take(&mut self, with_renewals: bool, now: Instant) -> &[AckBatch] {
        let fresh = !self.pending.is_empty() || (with_renewals && !self.renewals.is_empty());
        let retry = self
            .due_retry(now)
            .is_some_and(|batch| with_renewals || batch.kind != AckType::Renew);
        self.retried = retry && !(fresh && self.retried);
        if self.retried {
            self.in_flight.extend(self.retries.pop_front());
            return &self.in_flight;
        }
        let pending = self.pending.take().into_iter().map(|run| AckBatch {
            first: run.first,
            last: run.last,
            kind: run.value.0,
            deadline: run.value.1,
        });
        let renewals = if with_renewals {
            self.renewals.take()
        } else {
            Vec::new()
        };
        let renewals = renewals.into_iter().map(|run| AckBatch {
            first: run.first,
            last: run.last,
            kind: AckType::Renew,
            deadline: run.value,
        });
        let mut batches: Vec<AckBatch> = pending.chain(renewals).collect();
        batches.sort_unstable_by_key(|batch| batch.first);
        for batch in batches {
            match self.in_flight.last_mut() {
                Some(previous) if joins(previous, &batch) => {
                    previous.last = batch.last;
                    previous.deadline = previous.deadline.min(batch.deadline);
                }
                _ => self.in_flight.push(batch),
            }
        }
        &self.in_flight
    }

    pub(super) fn unknown(
        &self,
        first: i64,
        last: i64,
        kind: AckType,
        cause: &Cause,
        told: &mut Told,
    ) {
        let cause = cause.clone();
        self.answer(first, last, kind, Answer::Unknown { cause }, told);
    }

    pub(super) fn answer(
        &self,
        first: i64,
        last: i64,
        kind: AckType,
        answer: Answer,
        told: &mut Told,
    ) {
        let Some(settlement) = kind.settlement() else {
            return;
        };
        told.answered.push(AnsweredRange {
            range: SettleRange {
                partition: Arc::clone(&self.partition),
                first_offset: first,
                last_offset: last,
                settlement,
            },
            answer,
        });
    }

    pub(super) fn lost(&self, first: i64, last: i64, cause: &Cause, told: &mut Told) {
        told.lost.push(LostRange {
            partition: Arc::clone(&self.partition),
            first_offset: first,
            last_offset: last,
            cause: cause.clone(),
        });
    }
}

/// Why a settlement is unknown that meets no lock.
pub(super) fn not_held() -> Cause {
    "this member holds no lock on it (lost, expired or settled before)".into()
}

pub(super) fn joins(previous: &AckBatch, next: &AckBatch) -> bool {
    previous.kind == next.kind && previous.last.checked_add(1) == Some(next.first)
}

/// What is left of a batch outside of some offsets.
fn without(batch: AckBatch, first: i64, last: i64) -> impl Iterator<Item = AckBatch> {
    let left = AckBatch {
        last: batch.last.min(first.saturating_sub(1)),
        ..batch
    };
    let right = AckBatch {
        first: batch.first.max(last.saturating_add(1)),
        ..batch
    };
    [left, right]
        .into_iter()
        .filter(|part| part.first <= part.last)
}
