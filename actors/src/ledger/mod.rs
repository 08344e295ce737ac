//! The ledger: every acquired record until the broker has answered its
//! settlement. A pure state machine; the time is passed in.
//!
//! A record is known by partition, offset and acquisition: the same offset may
//! be acquired again after its lock was lost, and then the older delivery is
//! fenced. While a put has it, it is also known by that put's lease.

#[cfg(test)]
mod model;
mod partition;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

use crate::meters::{Spread, Timing};
use crate::near_limit::NearLimit;
use crate::ports::source::{Answer, AnsweredRange, LostRange, SettleRange, Settlement};
use crate::record::{RecordId, SourcePartition, TopicId};
use partition::{Fresh, PartitionLedger, SettledRun};

/// One delivery of one record.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub partition: &'a Arc<SourcePartition>,
    pub offset: i64,
    pub acquisition: u32,
}

impl Entry<'_> {
    /// Where the record lies.
    #[must_use]
    pub fn place(&self) -> RecordId {
        RecordId {
            partition: Arc::clone(self.partition),
            offset: self.offset,
        }
    }
}

/// What an outcome asks the ledger to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Tell the broker, from now on, and wait for its answer.
    Settle(Settlement, Instant),
    /// Wait for another put.
    Requeue,
    /// Wait for its letter; no put has it any more. Settled by ACCEPT, it counts
    /// as what the letter makes of it.
    PutAside(Aside),
    /// Wait for the sink's flush.
    Buffer,
    /// Keep the lock, and do nothing more (the connector has failed).
    Hold,
}

/// What a record's letter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// A dead letter: the record counts as rejected.
    Dead,
    /// Its copy in the parking topic.
    Parked,
}

/// How many records the ledger has seen end in each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub acquired: u64,
    pub redelivered: u64,
    pub accepted: u64,
    pub released: u64,
    /// By REJECT, or by ACCEPT behind a dead letter.
    pub rejected: u64,
    /// By ACCEPT, when they were in the parking topic.
    pub parked: u64,
    pub renewed: u64,
    pub unknown: u64,
    pub lost: u64,
    /// Outcomes that came too late or for a delivery that is not ours.
    pub fenced: u64,
}

/// The offset that keeps a partition from moving on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub partition: Arc<SourcePartition>,
    pub offset: i64,
    /// Offsets from the pin to the last one acquired, both included: what the
    /// broker counts, also when all behind the pin is settled.
    pub span: u64,
    pub since: Instant,
    /// It waits for its sink's flush.
    pub is_buffered: bool,
}

impl Times {
    fn note(&mut self, run: SettledRun, now: Instant) {
        let took = now.saturating_duration_since(run.acquired_at);
        self.accept.add(took, run.records, now);
        if run.by_a_put {
            let took = now.saturating_duration_since(run.settled_at);
            self.settlement.add(took, u64::from(run.records));
        }
    }
}

/// A record that nobody has settled.
#[derive(Clone, Copy, Debug)]
pub struct Unsettled<'a> {
    pub partition: &'a Arc<SourcePartition>,
    pub offset: i64,
    pub acquisition: u32,
    pub delivery_count: u16,
    pub held: bool,
}

/// A record that the broker has not answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settling {
    pub(crate) offset: i64,
    pub(crate) acquisition: u32,
    pub(crate) delivery_count: u16,
    /// Of the put that it was settled by; 0 if by none.
    pub(crate) lease: u32,
    pub(crate) settled_at: Instant,
}

impl<'a> Unsettled<'a> {
    #[must_use]
    pub const fn entry(&self) -> Entry<'a> {
        Entry {
            partition: self.partition,
            offset: self.offset,
            acquisition: self.acquisition,
        }
    }
}

/// All open records of one connector on this worker.
#[derive(Debug)]
pub struct Ledger {
    partitions: AHashMap<(TopicId, i32), PartitionLedger>,
    next_acquisition: u32,
    open: usize,
    held: usize,
    totals: Totals,
    times: Times,
}

/// How long confirmed ACCEPTs took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// From acquisition to the broker's answer.
    pub accept: Timing,
    /// From the sink's word to the broker's answer.
    pub settlement: Spread,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            partitions: AHashMap::new(),
            next_acquisition: 1,
            open: 0,
            held: 0,
            totals: Totals::default(),
            times: Times::default(),
        }
    }
}

impl Ledger {
    /// Records that are acquired and not answered for.
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }

    /// Partitions that records have come from.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Open records that are kept for the operator to mend something.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held
    }

    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    #[must_use]
    pub const fn times(&self) -> &Times {
        &self.times
    }

    /// The highest delivery count of a record that is open.
    #[must_use]
    pub fn highest_delivery_count(&self) -> Option<u16> {
        let partitions = self.partitions.values();
        partitions
            .filter_map(PartitionLedger::highest_delivery_count)
            .max()
    }

    fn counted(&self) -> impl Iterator<Item = (&Arc<SourcePartition>, i64, u16)> {
        let partitions = self.partitions.values();
        partitions.flat_map(|ledger| {
            let unsettled = ledger.unsettled();
            unsettled.map(move |(offset, count)| (ledger.partition(), offset, count))
        })
    }

    /// Records that nobody has settled, with their delivery counts.
    pub fn unsettled(&self) -> impl Iterator<Item = (RecordId, u16)> {
        self.counted().map(|(partition, offset, count)| {
            let partition = Arc::clone(partition);
            (RecordId { partition, offset }, count)
        })
    }

    /// Open records that came so often or more, if there are any; the example
    /// is the first of those that came most often.
    #[must_use]
    pub fn came_often(&self, delivery_count: u16) -> Option<NearLimit> {
        let (mut records, mut most) = (0, None::<(&Arc<SourcePartition>, i64, u16)>);
        for this in self.counted().filter(|it| it.2 >= delivery_count) {
            records += 1;
            if most.is_none_or(|most| this.2 > most.2) {
                most = Some(this);
            }
        }
        most.map(|(partition, offset, delivery_count)| NearLimit {
            records,
            example: RecordId {
                partition: Arc::clone(partition),
                offset,
            },
            delivery_count,
            trace: None,
        })
    }

    /// Takes up records of one partition: offsets (ascending) with their
    /// delivery counts. Returns the acquisition that they are known by.
    pub fn acquire(
        &mut self,
        partition: &Arc<SourcePartition>,
        records: impl Iterator<Item = (i64, u16)>,
        lock_deadline: Instant,
        now: Instant,
    ) -> u32 {
        let acquisition = self.next_acquisition;
        self.next_acquisition = self.next_acquisition.wrapping_add(1).max(1);
        let ledger = self
            .partitions
            .entry((partition.topic_id, partition.partition))
            .or_insert_with(|| PartitionLedger::new(Arc::clone(partition), now));
        for (offset, delivery_count) in records {
            self.totals.acquired += 1;
            self.totals.redelivered += u64::from(delivery_count > 1);
            let fresh = Fresh {
                delivery_count,
                acquisition,
                acquired_at: now,
                lock_deadline,
            };
            let displaced = ledger.acquire(offset, fresh);
            self.open += 1;
            self.open -= displaced.records;
            self.held -= displaced.held;
            self.totals.lost += displaced.records as u64;
        }
        ledger.note_front(now);
        acquisition
    }

    /// Hands records to a put. Calls `stale` with the place of each one that
    /// is not ours any more; those must not be delivered.
    pub fn lease<'a>(
        &mut self,
        lease: u32,
        entries: impl Iterator<Item = Entry<'a>>,
        mut stale: impl FnMut(usize),
    ) {
        let partitions = &mut self.partitions;
        each_run(partitions, entries, |ledger, place, entry| {
            let leased =
                ledger.is_some_and(|ledger| ledger.lease(entry.offset, entry.acquisition, lease));
            if !leased {
                stale(place);
            }
        });
    }

    /// Takes one step with records that a put (or, with lease 0, nobody yet)
    /// holds. What must be told to the broker is added to `settle`, merged
    /// into ranges. Calls `fenced` with the place of each one that is not ours
    /// any more.
    pub fn step<'a>(
        &mut self,
        lease: u32,
        step: Step,
        entries: impl Iterator<Item = Entry<'a>>,
        settle: &mut Vec<SettleRange>,
        mut fenced: impl FnMut(usize),
    ) {
        let (open_held, totals) = (&mut self.held, &mut self.totals);
        let partitions = &mut self.partitions;
        each_run(partitions, entries, |ledger, place, entry| {
            let taken = ledger
                .is_some_and(|ledger| ledger.step(entry.offset, entry.acquisition, lease, step));
            if !taken {
                totals.fenced += 1;
                fenced(place);
                return;
            }
            match step {
                Step::Settle(settlement, _) => push_merged(settle, entry, settlement),
                Step::Hold => *open_held += 1,
                Step::Requeue | Step::PutAside(_) | Step::Buffer => {}
            }
        });
    }

    /// Whether a record is open under this acquisition.
    #[must_use]
    pub fn is_open(&self, partition: (TopicId, i32), offset: i64, acquisition: u32) -> bool {
        self.partitions
            .get(&partition)
            .is_some_and(|ledger| ledger.is_open(offset, acquisition))
    }

    /// The same of an entry.
    #[must_use]
    pub fn has(&self, entry: Entry<'_>) -> bool {
        let partition = (entry.partition.topic_id, entry.partition.partition);
        self.is_open(partition, entry.offset, entry.acquisition)
    }

    /// Records that wait for the broker's answer to a settlement.
    pub(crate) fn settling(&self, range: &SettleRange) -> impl Iterator<Item = Settling> {
        let key = (range.partition.topic_id, range.partition.partition);
        let offsets = range.first_offset..=range.last_offset;
        let ledger = self.partitions.get(&key).into_iter();
        ledger.flat_map(move |it| it.settling(offsets.clone(), range.settlement))
    }

    /// Takes the broker's answer to a settlement.
    pub fn answered(&mut self, answered: &AnsweredRange, now: Instant) {
        let range = &answered.range;
        let key = (range.partition.topic_id, range.partition.partition);
        let Some(ledger) = self.partitions.get_mut(&key) else {
            return;
        };
        let offsets = range.first_offset..=range.last_offset;
        if let Answer::Renewed { lock_deadline } = answered.answer {
            self.totals.renewed += ledger.renewed(offsets, lock_deadline);
            return;
        }
        let ended = if range.settlement.is_final() {
            let is_accept =
                (&answered.answer, range.settlement) == (&Answer::Confirmed, Settlement::Accept);
            let times = &mut self.times;
            ledger.settled(offsets, range.settlement, |run| {
                if is_accept {
                    times.note(run, now);
                }
            })
        } else {
            // A renewal that failed: the lock is as good as gone.
            ledger.vacate_renewing(offsets)
        };
        self.open -= ended.records;
        self.held -= ended.held;
        let records = ended.records as u64;
        match (&answered.answer, range.settlement) {
            (Answer::Confirmed, Settlement::Accept) => {
                let (dead, parked) = (ended.dead as u64, ended.parked as u64);
                self.totals.rejected += dead;
                self.totals.parked += parked;
                self.totals.accepted += records - dead - parked;
            }
            (Answer::Confirmed, Settlement::Release) => self.totals.released += records,
            (Answer::Confirmed, Settlement::Reject) => self.totals.rejected += records,
            (_, Settlement::Renew) => self.totals.lost += records,
            _ => self.totals.unknown += records,
        }
        ledger.note_front(now);
    }

    /// Forgets records whose lock is gone. Settlements under way are answered
    /// by the source on their own.
    pub fn lost(&mut self, lost: &LostRange, now: Instant) {
        let key = (lost.partition.topic_id, lost.partition.partition);
        if let Some(ledger) = self.partitions.get_mut(&key) {
            let ended = ledger.vacate_unsettled(lost.first_offset..=lost.last_offset);
            self.open -= ended.records;
            self.held -= ended.held;
            self.totals.lost += ended.records as u64;
            ledger.note_front(now);
        }
    }

    /// Ranges whose lock ends within the margin of their partition, and that
    /// nobody has settled; each is asked for once until its answer has come.
    pub fn renewals(
        &mut self,
        now: Instant,
        margin: impl Fn(&SourcePartition) -> Duration,
    ) -> Vec<SettleRange> {
        let mut ranges = Vec::new();
        for ledger in self.partitions.values_mut() {
            let until = now + margin(ledger.partition());
            ledger.renewals(until, &mut ranges);
        }
        ranges
    }

    /// Forgets records whose lock has ended. Returns how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut expired = 0;
        for ledger in self.partitions.values_mut() {
            let ended = ledger.expire(now);
            expired += ended.records;
            self.held -= ended.held;
            ledger.note_front(now);
        }
        self.open -= expired;
        self.totals.lost += expired as u64;
        expired
    }

    /// Settles what nobody has settled, where `may` allows it; the rest stays
    /// as it is.
    pub fn settle_rest(
        &mut self,
        settlement: Settlement,
        mut may: impl FnMut(Unsettled<'_>) -> bool,
    ) -> Vec<SettleRange> {
        let mut ranges = Vec::new();
        for ledger in self.partitions.values_mut() {
            self.held -= ledger.settle_rest(settlement, &mut may, &mut ranges);
        }
        ranges
    }

    /// Topics that records have come from, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<str>> {
        let partitions = self.partitions.values();
        let topics: BTreeSet<Arc<str>> = partitions.map(PartitionLedger::topic).collect();
        topics.into_iter().collect()
    }

    /// Whether a partition's span is used up, and the first open record is in
    /// a sink's buffer.
    #[must_use]
    pub fn waits_for_flush(&self, span: u64) -> bool {
        let mut pins = self.partitions.values().filter_map(PartitionLedger::pin);
        pins.any(|pin| pin.is_buffered && pin.span >= span)
    }

    /// The first open offset of one partition.
    #[must_use]
    pub fn pin(&self, partition: &SourcePartition) -> Option<Pin> {
        let key = (partition.topic_id, partition.partition);
        self.partitions.get(&key).and_then(PartitionLedger::pin)
    }

    /// How many records of a topic nobody has settled, or the broker has not
    /// confirmed yet.
    #[must_use]
    pub fn open_in(&self, topic: &str) -> usize {
        let partitions = self.partitions.values();
        let of_topic = partitions.filter(|ledger| &*ledger.partition().topic == topic);
        of_topic.map(PartitionLedger::open).sum()
    }

    /// The first open offset of each partition, the one that has waited
    /// longest first.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        let mut pins: Vec<Pin> = self
            .partitions
            .values()
            .filter_map(PartitionLedger::pin)
            .collect();
        pins.sort_by_key(|pin| pin.since);
        pins
    }
}

/// Visits entries with their place and their partition's ledger, which is
/// looked up once for a run of neighbours.
fn each_run<'a>(
    partitions: &mut AHashMap<(TopicId, i32), PartitionLedger>,
    entries: impl Iterator<Item = Entry<'a>>,
    mut visit: impl FnMut(Option<&mut PartitionLedger>, usize, Entry<'a>),
) {
    let mut entries = entries.enumerate().peekable();
    while let Some((_, first)) = entries.peek() {
        let partition = first.partition;
        let mut ledger = partitions.get_mut(&(partition.topic_id, partition.partition));
        let same = |(_, entry): &(usize, Entry<'a>)| Arc::ptr_eq(entry.partition, partition);
        while let Some((place, entry)) = entries.next_if(same) {
            visit(ledger.as_deref_mut(), place, entry);
        }
    }
}

fn push_merged(ranges: &mut Vec<SettleRange>, entry: Entry<'_>, settlement: Settlement) {
    if let Some(last) = ranges.last_mut()
        && last.settlement == settlement
        && last.last_offset + 1 == entry.offset
        && Arc::ptr_eq(&last.partition, entry.partition)
    {
        last.last_offset = entry.offset;
        return;
    }
    ranges.push(SettleRange {
        partition: Arc::clone(entry.partition),
        first_offset: entry.offset,
        last_offset: entry.offset,
        settlement,
    });
}
