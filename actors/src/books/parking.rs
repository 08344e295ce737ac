//! Steps with parked records: into the parking topic, and back from it.

use std::sync::Arc;

use tokio::time::Instant;

use super::settling::{PutRef, key};
use super::waiting::Waiting;
use super::{Alike, Books, Effects, Failing, Notice, entry};
use crate::chunk::Holds;
use crate::ledger::{Aside, Pin, Step};
use crate::life;
use crate::outcome::Cause;
use crate::parking::{Failure, ParkingPolicy, Returns};
use crate::ports::parking::ToPark;
use crate::record::{AcquiredBatch, SinkRecord};
use crate::work_queue::Work;

/// Why records are parked that wait for their next try.
const PINNING: &str = "failed before, and keeps its partition back";

impl Books {
    /// Whether parking is what becomes of a record that failed now. Nothing is
    /// parked while the sink takes no records at all.
    pub(super) fn parks(&self, record: &SinkRecord, others_go_on: bool, failing: &Failing) -> bool {
        let (Some(policy), now) = (self.policy.parking, failing.last) else {
            return false;
        };
        if !self.circuit.is_closed() || record.original.is_none() {
            return false;
        }
        let parked = record.parked.as_ref();
        if parked.is_some() && self.hurries {
            return true;
        }
        let holds_up = parked.is_none() && self.holds_up(&policy, record, now);
        // When the others that were delivered wait for it, none will be.
        let was_to_be = holds_up && self.letters.is_unparked(&key(entry(record)));
        let failure = Failure {
            since: failing.since,
            others_go_on: others_go_on || was_to_be,
            is_urgent: parked.is_some() || holds_up,
        };
        policy.parks(&failure, now)
            && policy.comes_in_time(failing.since, self.policy.retry.timeout, now)
    }

    /// Whether a record is, or would be next, what keeps its partition back.
    fn holds_up(&self, policy: &ParkingPolicy, record: &SinkRecord, now: Instant) -> bool {
        let pin = self.ledger.pin(&record.partition);
        pin.is_some_and(|pin| is_pinned(policy, &pin, now) && is_close(policy, &pin, record))
    }

    /// Parks a record of a put.
    pub(super) fn park_put(
        &mut self,
        put: &PutRef,
        place: usize,
        cause: &Cause,
        effects: &mut Effects,
    ) {
        let (record, holds) = (&put.chunk[place], put.chunk.holds());
        let trace = self.trace_context(entry(record));
        self.park(put.lease, record, holds, effects);
        match effects.notices.last_mut() {
            Some(Notice::Parking(alike)) => alike.records += 1,
            _ => effects.notices.push(Notice::Parking(Alike {
                records: 1,
                example: record.id(),
                cause: cause.clone(),
                trace,
            })),
        }
    }

    /// Parks the failed records that keep a partition back and wait for their
    /// next try, for which the others must not wait.
    pub(super) fn park_pins(&mut self, now: Instant, effects: &mut Effects) {
        let Some(policy) = self.policy.parking else {
            return;
        };
        if !self.circuit.is_closed() || self.queue.waiting() == 0 {
            return;
        }
        let pins = self.pins();
        let (failing, timeout) = (&self.failing, self.policy.retry.timeout);
        let may_park = |record: &SinkRecord| {
            // Without an entry it found the sink unavailable, over and over,
            // while the sink took others.
            let keeps_failing = failing.get(&key(entry(record))).is_none_or(|failing| {
                failing.others_go_on && policy.comes_in_time(failing.since, timeout, now)
            });
            record.parked.is_none() && record.original.is_some() && keeps_failing
        };
        let mut pinning = Vec::new();
        for pin in pins {
            if is_pinned(&policy, &pin, now) {
                let is_meant =
                    |record: &SinkRecord| is_close(&policy, &pin, record) && may_park(record);
                pinning.extend(self.queue.take_waiting(is_meant));
            }
        }
        let Some(first) = pinning.iter().find_map(|work| work.records.first()) else {
            return;
        };
        effects.notices.push(Notice::Parking(Alike {
            records: pinning.len(),
            example: first.id(),
            cause: PINNING.into(),
            trace: self.trace_context(entry(first)),
        }));
        for work in &pinning {
            for record in &work.records {
                self.park(0, record, &work.holds, effects);
            }
        }
    }

    fn park(&mut self, lease: u32, record: &SinkRecord, holds: &Holds, effects: &mut Effects) {
        let (entry, now) = (entry(record), self.now);
        let Some(original) = record.original.clone() else {
            return;
        };
        if !self.step_one(lease, Step::PutAside(Aside::Parked), entry, effects) {
            return;
        }
        // Kept until it is parked: it may have to be tried on.
        let failing = self.failing.entry(key(entry)).or_insert(Failing {
            failures: 1,
            since: now,
            last: now,
            hung_since: None,
            others_go_on: false,
            outages: self.circuit.outages(),
        });
        let count = record.parked.as_ref().map_or(0, |parked| parked.count);
        let letter = ToPark {
            record: record.id(),
            original,
            count: count + 1,
            since: failing.since,
        };
        self.write(Waiting::parked(letter, record, holds.clone()), effects);
    }

    /// A record that could not be parked is put again, after its back-off; the
    /// topic is only asked again when the sink has refused it while it took
    /// others.
    pub(super) fn not_parked(&mut self, waiting: &Waiting, effects: &mut Effects) {
        let entry = waiting.entry();
        let (Some(record), Some(failing)) =
            (waiting.record.clone(), self.failing.get_mut(&key(entry)))
        else {
            return;
        };
        failing.last = self.now;
        failing.hung_since = None;
        failing.others_go_on = false;
        let delay = (self.policy.retry).delay(failing.failures, fastrand::f64());
        if !self.step_one(0, Step::Requeue, entry, effects) {
            return;
        }
        self.enter_step(entry, life::Step::Queue);
        let again = Work::new(vec![record], waiting.holds.clone());
        self.queue.push_later(self.now + delay, again);
        effects.work = true;
    }

    /// Counts those of a batch that come back from the parking topic.
    pub(super) fn note_returns(&mut self, batch: &AcquiredBatch) {
        let Some(policy) = self.policy.parking else {
            return;
        };
        for parked in batch.records.iter().filter_map(|it| it.parked.as_ref()) {
            self.returns.records += 1;
            let due = policy.due(parked, batch.acquired_at);
            self.returns.due = self.returns.due.max(Some(due));
        }
    }

    /// Takes records that come back. One that is not due waits for it under its
    /// lock, unless its next return would archive it.
    pub(super) fn take_parked(&mut self, records: Vec<SinkRecord>, holds: &Holds) {
        let now = self.now;
        let mut due = Vec::new();
        for record in records {
            match self.waits_until(&record, now) {
                Some(at) => {
                    let mut work = Work::new(vec![record], holds.clone());
                    self.copy_out(&mut work);
                    self.queue.push_later(at, work);
                }
                None => due.push(record),
            }
        }
        self.queue.push(due, holds.clone());
    }

    fn waits_until(&self, record: &SinkRecord, now: Instant) -> Option<Instant> {
        let (policy, parked) = (self.policy.parking?, record.parked.as_deref()?);
        let due = policy.due(parked, now);
        let may_wait = !self.hurries && self.policy.terms.gate.may_release(record.delivery_count);
        (due > now && may_wait).then_some(due)
    }

    /// Parked records are put whether they are due or not: the worker is to
    /// stop, and they would only lose an attempt.
    pub fn hurry_parked(&mut self) -> Effects {
        self.hurries = true;
        let mut effects = Effects::default();
        for work in self.queue.take_waiting(|record| record.parked.is_some()) {
            self.put_again(work, &mut effects);
        }
        effects
    }

    /// How records are parked, if they are.
    #[must_use]
    pub const fn parking(&self) -> Option<ParkingPolicy> {
        self.policy.parking
    }

    /// Names the topic that parked records come back from.
    pub fn park_in(&mut self, topic: Arc<str>) {
        self.parking_topic = Some(topic);
    }

    /// What has come back from the parking topic.
    #[must_use]
    pub const fn returns(&self) -> Returns {
        self.returns
    }

    /// Parked records that are not answered for.
    #[must_use]
    pub fn open_parked(&self) -> usize {
        let topic = self.parking_topic.as_ref();
        topic.map_or(0, |topic| self.ledger.open_in(topic))
    }

    /// The first open offset of each partition of the connector's own topics,
    /// the one that has waited longest first. Parked records keep nothing back.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        let mut pins = self.ledger.pins();
        pins.retain(|pin| !self.is_parking_topic(&pin.partition.topic));
        pins
    }

    /// The connector's own topics that records have come from, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<str>> {
        let mut topics = self.ledger.topics();
        topics.retain(|topic| !self.is_parking_topic(topic));
        topics
    }

    fn is_parking_topic(&self, topic: &str) -> bool {
        self.parking_topic.as_deref() == Some(topic)
    }
}

fn is_pinned(policy: &ParkingPolicy, pin: &Pin, now: Instant) -> bool {
    policy.is_pinned(pin.span, now.saturating_duration_since(pin.since))
}

/// Whether a record is the first open one of its partition, or close behind it.
fn is_close(policy: &ParkingPolicy, pin: &Pin, record: &SinkRecord) -> bool {
    let (of, at) = (&record.partition, &pin.partition);
    (of.topic_id, of.partition) == (at.topic_id, at.partition)
        && record.offset < pin.offset + policy.reach()
}

#[cfg(test)]
pub(super) mod tests;
