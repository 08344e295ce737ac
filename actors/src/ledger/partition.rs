//! The open offsets of one partition: a slot each, from the first open one on.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Aside, Pin, Settling, Step, Unsettled};
use crate::ports::source::{SettleRange, Settlement};
use crate::record::SourcePartition;

/// A broker keeps what is in flight within some thousands of offsets; offsets
/// further apart than this cannot be open together.
const MAX_SPREAD: i64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Vacant,
    /// Being converted, queued, or waiting for another try.
    Waiting,
    Delivering,
    Buffered,
    Held,
    /// Waits for its letter.
    Aside(Aside),
    Settling(Settlement),
    /// By ACCEPT, behind its letter.
    SettlingAside(Aside),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// When the lock ends; of a settling one, when it was settled.
    moment: Instant,
    acquisition: u32,
    lease: u32,
    /// Since the partition's ledger was made: a whole instant would make each
    /// slot half as large again.
    acquired_ms: u32,
    delivery_count: u16,
    state: State,
    renewing: bool,
}

impl Slot {
    const fn is_open(&self) -> bool {
        !matches!(self.state, State::Vacant)
    }

    const fn is_unsettled(&self) -> bool {
        !matches!(
            self.state,
            State::Vacant | State::Settling(_) | State::SettlingAside(_)
        )
    }

    /// How old the partition's ledger was when it was acquired.
    const fn age(&self) -> Duration {
        Duration::from_millis(self.acquired_ms as u64)
    }

    const fn ended(&self) -> Ended {
        Ended {
            records: 1,
            held: matches!(self.state, State::Held) as usize,
            dead: matches!(self.state, State::SettlingAside(Aside::Dead)) as usize,
            parked: matches!(self.state, State::SettlingAside(Aside::Parked)) as usize,
        }
    }
}

/// A record as it is acquired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    pub(super) delivery_count: u16,
    pub(super) acquisition: u32,
    pub(super) acquired_at: Instant,
    pub(super) lock_deadline: Instant,
}

/// Neighbours that came and were settled at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledRun {
    pub(super) acquired_at: Instant,
    pub(super) settled_at: Instant,
    /// And not on the way to one.
    pub(super) by_a_put: bool,
    pub(super) records: u32,
}

/// Records that are open no more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ended {
    pub(super) records: usize,
    pub(super) held: usize,
    /// Whose letters are written.
    pub(super) dead: usize,
    pub(super) parked: usize,
}

impl Ended {
    const fn add(&mut self, other: Self) {
        self.records += other.records;
        self.held += other.held;
        self.dead += other.dead;
        self.parked += other.parked;
    }
}

#[derive(Debug)]
pub(super) struct PartitionLedger {
    partition: Arc<SourcePartition>,
    born: Instant,
    base: i64,
    slots: VecDeque<Slot>,
    /// Behind the last offset acquired while others were open.
    reach: i64,
    front: i64,
    front_since: Instant,
}

impl PartitionLedger {
    pub(super) const fn new(partition: Arc<SourcePartition>, now: Instant) -> Self {
        Self {
            partition,
            born: now,
            base: 0,
            slots: VecDeque::new(),
            reach: 0,
            front: -1,
            front_since: now,
        }
    }

    /// Opens a slot; tells what had to go because its lock cannot be ours any
    /// more.
    pub(super) fn acquire(&mut self, offset: i64, fresh: Fresh) -> Ended {
        let age = fresh.acquired_at.saturating_duration_since(self.born);
        let fresh = Slot {
            moment: fresh.lock_deadline,
            acquisition: fresh.acquisition,
            lease: 0,
            acquired_ms: age.as_millis() as u32,
            delivery_count: fresh.delivery_count,
            state: State::Waiting,
            renewing: false,
        };
        let vacant = Slot {
            state: State::Vacant,
            ..fresh
        };
        if self.slots.is_empty() {
            self.base = offset;
            self.reach = offset;
        }
        let mut displaced = Ended::default();
        if (offset - self.base).abs() > MAX_SPREAD {
            displaced = self.vacate(i64::MIN..=i64::MAX, Slot::is_open);
            self.base = offset;
            self.reach = offset;
        }
        self.reach = self.reach.max(offset + 1);
        while offset < self.base {
            self.slots.push_front(vacant);
            self.base -= 1;
        }
        let place = (offset - self.base) as usize;
        while self.slots.len() < place {
            self.slots.push_back(vacant);
        }
        if place == self.slots.len() {
            self.slots.push_back(fresh);
            return displaced;
        }
        let before = std::mem::replace(&mut self.slots[place], fresh);
        if before.is_open() {
            displaced.add(before.ended());
        }
        displaced
    }

    pub(super) fn lease(&mut self, offset: i64, acquisition: u32, lease: u32) -> bool {
        match self.slot(offset) {
            Some(slot) if slot.acquisition == acquisition && slot.state == State::Waiting => {
                slot.state = State::Delivering;
                slot.lease = lease;
                true
            }
            _ => false,
        }
    }

    pub(super) fn step(&mut self, offset: i64, acquisition: u32, lease: u32, step: Step) -> bool {
        let Some(slot) = self.slot(offset) else {
            return false;
        };
        if slot.acquisition != acquisition || slot.lease != lease || !slot.is_unsettled() {
            return false;
        }
        if slot.state == State::Held {
            return false;
        }
        slot.state = match step {
            Step::Settle(settlement, now) => {
                slot.moment = now;
                match (slot.state, settlement) {
                    (State::Aside(aside), Settlement::Accept) => State::SettlingAside(aside),
                    _ => State::Settling(settlement),
                }
            }
            Step::PutAside(aside) => {
                slot.lease = 0;
                State::Aside(aside)
            }
            Step::Buffer => State::Buffered,
            Step::Hold => State::Held,
            Step::Requeue => {
                slot.lease = 0;
                State::Waiting
            }
        };
        true
    }

    pub(super) fn is_open(&self, offset: i64, acquisition: u32) -> bool {
        self.open_slot(offset, acquisition).is_some()
    }

    /// Records that wait for the broker's answer to this settlement; those that
    /// wait for a letter's are left out.
    pub(super) fn settling(
        &self,
        offsets: RangeInclusive<i64>,
        settlement: Settlement,
    ) -> impl Iterator<Item = Settling> {
        let len = self.slots.len() as i64;
        let first = offsets.start().saturating_sub(self.base).clamp(0, len);
        let end = (offsets.end() - self.base + 1).clamp(first, len);
        let slots = self.slots.range(first as usize..end as usize);
        let slots = (self.base + first..).zip(slots);
        let settling = slots.filter(move |(_, it)| it.state == State::Settling(settlement));
        settling.map(|(offset, slot)| Settling {
            offset,
            acquisition: slot.acquisition,
            delivery_count: slot.delivery_count,
            lease: slot.lease,
            settled_at: slot.moment,
        })
    }

    fn open_slot(&self, offset: i64, acquisition: u32) -> Option<&Slot> {
        let place = usize::try_from(offset - self.base).ok()?;
        let slot = self.slots.get(place)?;
        (slot.acquisition == acquisition && slot.is_open()).then_some(slot)
    }

    pub(super) fn renewed(&mut self, offsets: RangeInclusive<i64>, lock_deadline: Instant) -> u64 {
        let mut renewed = 0;
        for slot in self.range(offsets) {
            if slot.is_unsettled() && slot.renewing {
                slot.moment = lock_deadline;
                slot.renewing = false;
                renewed += 1;
            }
        }
        renewed
    }

    /// Ends records that were settled in this way, and tells of them in runs.
    pub(super) fn settled(
        &mut self,
        offsets: RangeInclusive<i64>,
        settlement: Settlement,
        mut tell: impl FnMut(SettledRun),
    ) -> Ended {
        let born = self.born;
        let mut run: Option<SettledRun> = None;
        let ended = self.vacate(offsets, |slot| {
            if let State::SettlingAside(_) = slot.state {
                return settlement == Settlement::Accept;
            }
            if slot.state != State::Settling(settlement) {
                return false;
            }
            let this = SettledRun {
                acquired_at: born + slot.age(),
                settled_at: slot.moment,
                by_a_put: slot.lease != 0,
                records: 1,
            };
            match &mut run {
                Some(run) if SettledRun { records: 1, ..*run } == this => run.records += 1,
                _ => {
                    if let Some(before) = run.replace(this) {
                        tell(before);
                    }
                }
            }
            true
        });
        if let Some(last) = run {
            tell(last);
        }
        ended
    }

    pub(super) fn open(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_open()).count()
    }

    pub(super) fn topic(&self) -> Arc<str> {
        Arc::clone(&self.partition.topic)
    }

    pub(super) fn highest_delivery_count(&self) -> Option<u16> {
        let unsettled = self.slots.iter().filter(|slot| slot.is_unsettled());
        unsettled.map(|slot| slot.delivery_count).max()
    }

    /// Offsets that nobody has settled, with their delivery counts.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (i64, u16)> {
        let slots = (self.base..).zip(&self.slots);
        let unsettled = slots.filter(|(_, slot)| slot.is_unsettled());
        unsettled.map(|(offset, slot)| (offset, slot.delivery_count))
    }

    pub(super) fn partition(&self) -> &Arc<SourcePartition> {
        &self.partition
    }

    pub(super) fn vacate_unsettled(&mut self, offsets: RangeInclusive<i64>) -> Ended {
        self.vacate(offsets, Slot::is_unsettled)
    }

    pub(super) fn vacate_renewing(&mut self, offsets: RangeInclusive<i64>) -> Ended {
        self.vacate(offsets, |slot| slot.is_unsettled() && slot.renewing)
    }

    pub(super) fn expire(&mut self, now: Instant) -> Ended {
        self.vacate(i64::MIN..=i64::MAX, |slot| {
            slot.is_unsettled() && slot.moment <= now
        })
    }

    pub(super) fn renewals(&mut self, until: Instant, ranges: &mut Vec<SettleRange>) {
        let due = |_, slot: &Slot| slot.is_unsettled() && !slot.renewing && slot.moment <= until;
        self.collect(Settlement::Renew, due, |slot| slot.renewing = true, ranges);
    }

    /// Settles what nobody has settled; returns how many of them were held.
    pub(super) fn settle_rest(
        &mut self,
        settlement: Settlement,
        mut may: impl FnMut(Unsettled<'_>) -> bool,
        ranges: &mut Vec<SettleRange>,
    ) -> usize {
        let mut held = 0;
        let partition = Arc::clone(&self.partition);
        let wanted = |offset: i64, slot: &Slot| {
            slot.is_unsettled()
                && may(Unsettled {
                    partition: &partition,
                    offset,
                    acquisition: slot.acquisition,
                    delivery_count: slot.delivery_count,
                    held: slot.state == State::Held,
                })
        };
        let settle = |slot: &mut Slot| {
            held += slot.ended().held;
            slot.state = State::Settling(settlement);
        };
        self.collect(settlement, wanted, settle, ranges);
        held
    }

    pub(super) fn note_front(&mut self, now: Instant) {
        if self.base != self.front {
            self.front = self.base;
            self.front_since = now;
        }
    }

    pub(super) fn pin(&self) -> Option<Pin> {
        (!self.slots.is_empty()).then(|| Pin {
            partition: Arc::clone(&self.partition),
            offset: self.base,
            span: (self.reach - self.base) as u64,
            since: self.front_since,
            is_buffered: self.slots[0].state == State::Buffered,
        })
    }

    fn collect(
        &mut self,
        settlement: Settlement,
        mut wanted: impl FnMut(i64, &Slot) -> bool,
        mut mark: impl FnMut(&mut Slot),
        ranges: &mut Vec<SettleRange>,
    ) {
        let (partition, base) = (&self.partition, self.base);
        let mut open_range = false;
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let offset = base + place as i64;
            if !wanted(offset, slot) {
                open_range = false;
                continue;
            }
            mark(slot);
            match ranges.last_mut() {
                Some(range) if open_range => range.last_offset = offset,
                _ => ranges.push(SettleRange {
                    partition: Arc::clone(partition),
                    first_offset: offset,
                    last_offset: offset,
                    settlement,
                }),
            }
            open_range = true;
        }
    }

    fn vacate(
        &mut self,
        offsets: RangeInclusive<i64>,
        mut wanted: impl FnMut(&Slot) -> bool,
    ) -> Ended {
        let mut ended = Ended::default();
        for slot in self.range(offsets) {
            if wanted(slot) {
                ended.add(slot.ended());
                slot.state = State::Vacant;
            }
        }
        self.trim();
        ended
    }

    /// Drops what is vacant at both ends.
    fn trim(&mut self) {
        while self.slots.front().is_some_and(|s| s.state == State::Vacant) {
            self.slots.pop_front();
            self.base += 1;
        }
        while self.slots.back().is_some_and(|s| s.state == State::Vacant) {
            self.slots.pop_back();
        }
    }

    fn slot(&mut self, offset: i64) -> Option<&mut Slot> {
        let place = usize::try_from(offset - self.base).ok()?;
        self.slots.get_mut(place)
    }

    fn range(&mut self, offsets: RangeInclusive<i64>) -> impl Iterator<Item = &mut Slot> {
        let len = self.slots.len() as i64;
        let first = offsets.start().saturating_sub(self.base).clamp(0, len);
        let last = offsets.end().saturating_sub(self.base);
        let end = last.saturating_add(1).clamp(first, len);
        self.slots.range_mut(first as usize..end as usize)
    }
}
