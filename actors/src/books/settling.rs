//! The steps that outcomes lead to: settle, retry, reject, split, take back.

use std::sync::Arc;

use tokio::time::Instant;

use super::copies::copy_record;
use super::policy::Again;
use super::waiting::Waiting;
use super::{
    Alike, Books, DeliveryKey, Effects, Failing, Letter, Notice, PutAside, Retriable, Tolerance,
    entry,
};
use crate::chunk::{Chunk, Holds};
use crate::ledger::{Aside, Entry, Step};
use crate::life::{self, Event};
use crate::messages::RecordFailed;
use crate::outcome::{Cause, Rejection, Stage};
use crate::ports::dead_letter::DeadLetter;
use crate::ports::source::Settlement;
use crate::record::{RawRecord, RecordId, SinkRecord};
use crate::work_queue::{History, Work};

/// What is left of a record that is rejected.
pub(super) struct Remains {
    /// Where it came from.
    pub(super) origin: RecordId,
    pub(super) original: Option<Arc<RawRecord>>,
    /// What it still owes.
    pub(super) holds: Holds,
    /// Whose put it was in; 0 when it did not come so far.
    pub(super) task: u32,
}

impl Remains {
    /// Of a record whose bytes could not be decoded.
    pub(super) fn none(entry: Entry<'_>) -> Self {
        Self {
            origin: entry.place(),
            original: None,
            holds: Holds::default(),
            task: 0,
        }
    }
}

/// What becomes of a record that is rejected.
#[derive(Clone, Copy)]
enum Rejected {
    /// The broker is told, and writes its dead letter, if any.
    ByBroker,
    WithLetter,
    /// The broker would write none now, though it is to.
    Withheld,
    /// It fails the connector.
    Fatal,
}

/// The put whose records are spoken of.
#[derive(Clone, Debug)]
pub(super) struct PutRef {
    pub(super) lease: u32,
    pub(super) task: u32,
    pub(super) handed_out: Instant,
    pub(super) buffered_at: Option<Instant>,
    pub(super) chunk: Chunk,
    pub(super) history: History,
    pub(super) is_probe: bool,
}

/// An outage, and the one after it, may meet the same records.
const REFUSALS_BY_CHANCE: u32 = 3;

impl PutRef {
    fn entries<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = Entry<'a>> {
        places.iter().map(|place| entry(&self.chunk[*place]))
    }

    fn remains(&self, place: usize) -> Remains {
        Remains {
            origin: self.chunk[place].id(),
            original: self.chunk[place].original.clone(),
            holds: self.chunk.holds().clone(),
            task: self.task,
        }
    }
}

impl Books {
    pub(super) fn settle<'a>(
        &mut self,
        lease: u32,
        entries: impl Iterator<Item = Entry<'a>>,
        settlement: Settlement,
        effects: &mut Effects,
    ) {
        let step = Step::Settle(settlement, self.now);
        self.ledger
            .step(lease, step, entries, &mut effects.settle, |_| {});
    }

    pub(super) fn deliver(&mut self, put: &PutRef, places: &[usize], effects: &mut Effects) {
        if !self.failing.is_empty() {
            for entry in put.entries(places) {
                self.failing.remove(&key(entry));
            }
        }
        self.note_delivered(put, places);
        let fenced = self.ledger.totals().fenced;
        self.settle(put.lease, put.entries(places), Settlement::Accept, effects);
        let taken = places.len() as u64 - (self.ledger.totals().fenced - fenced);
        self.delivered += taken;
        self.finished += taken;
        if taken > 0 {
            self.delivered_at = Some(self.now);
            self.newest_taken = self.newest_taken.max(Some(put.handed_out));
        }
        if !places.is_empty() {
            // Also of records that are not ours any more.
            self.note_answer(effects);
        }
    }

    pub(super) fn buffer(&mut self, put: &PutRef, places: Vec<usize>) {
        if places.is_empty() {
            return;
        }
        let buffered = put.entries(&places);
        self.ledger
            .step(put.lease, Step::Buffer, buffered, &mut Vec::new(), |_| {});
        self.note_all(put, &places, &Event::Buffered);
        for entry in put.entries(&places) {
            self.enter_step(entry, life::Step::Flush);
        }
        if let Some(put) = self.puts.get(put.lease) {
            put.buffered_at.get_or_insert(self.now);
            put.buffered.extend(places);
        }
    }

    /// Rejects a record of a put.
    pub(super) fn reject_put(
        &mut self,
        put: &PutRef,
        place: usize,
        rejection: &Rejection,
        effects: &mut Effects,
    ) {
        self.note_all(put, &[place], &Event::Rejected(rejection.clone()));
        let entry = entry(&put.chunk[place]);
        self.reject(put.lease, entry, rejection, || put.remains(place), effects);
    }

    /// `remains` is asked for if it is still ours.
    pub(super) fn reject(
        &mut self,
        lease: u32,
        entry: Entry<'_>,
        rejection: &Rejection,
        remains: impl FnOnce() -> Remains,
        effects: &mut Effects,
    ) {
        self.failing.remove(&key(entry));
        let fate = self.fate_of_rejected();
        let step = match fate {
            Rejected::ByBroker => Step::Settle(Settlement::Reject, self.now),
            Rejected::WithLetter => Step::PutAside(Aside::Dead),
            Rejected::Withheld | Rejected::Fatal => Step::Hold,
        };
        if !self.step_one(lease, step, entry, effects) {
            return;
        }
        self.finished += 1;
        self.errors.rejected += 1;
        let Remains {
            origin: record,
            original,
            holds,
            task,
        } = remains();
        let rejection = rejection.clone();
        match fate {
            Rejected::ByBroker => {
                self.errors.skipped += 1;
                effects.put_aside.push(PutAside {
                    record,
                    rejection,
                    trace: self.trace_context(entry),
                });
            }
            Rejected::WithLetter => {
                let letter = DeadLetter {
                    record,
                    original,
                    rejection,
                    task,
                };
                self.write(Waiting::dead(letter, entry, holds), effects);
            }
            Rejected::Withheld => {
                self.enter_step(entry, life::Step::Hold);
                self.withhold(key(entry), record, rejection);
            }
            Rejected::Fatal => {
                self.enter_step(entry, life::Step::Hold);
                effects.failure = Some(RecordFailed {
                    record,
                    rejection,
                    trace: self.trace_context(entry),
                });
            }
        }
    }

    const fn fate_of_rejected(&self) -> Rejected {
        match (self.policy.tolerance, self.writes_dead_letters) {
            (Tolerance::None, _) => Rejected::Fatal,
            (Tolerance::All, true) => Rejected::WithLetter,
            (Tolerance::All, false) if self.policy.terms.may_reject => Rejected::ByBroker,
            (Tolerance::All, false) => Rejected::Withheld,
        }
    }

    /// Takes a step with one record; whether it is still ours.
    pub(super) fn step_one(
        &mut self,
        lease: u32,
        step: Step,
        entry: Entry<'_>,
        effects: &mut Effects,
    ) -> bool {
        let mut is_ours = true;
        let one = std::iter::once(entry);
        self.ledger
            .step(lease, step, one, &mut effects.settle, |_| is_ours = false);
        is_ours
    }

    /// Has a letter written for a record that waits for it.
    pub(super) fn write(&mut self, waiting: Waiting, effects: &mut Effects) {
        let step = match *waiting.letter {
            Letter::Dead(_) => life::Step::PutAside,
            Letter::Parked(_) => life::Step::Park,
        };
        self.enter_step(waiting.entry(), step);
        self.letters.push(waiting, &self.credit);
        effects.letters = true;
    }

    /// Tries records again later, or gives them back, as the policy says.
    pub(super) fn retry(
        &mut self,
        put: &PutRef,
        places: &[usize],
        cause: &Cause,
        effects: &mut Effects,
    ) {
        self.note_in_vain(put, places, cause, effects);
        let jitter = fastrand::f64();
        let mut later: Vec<(Instant, Vec<usize>)> = Vec::new();
        let mut release = Vec::new();
        for place in places {
            match self.fail(&put.chunk[*place], None, jitter) {
                Again::Release => release.push(*place),
                Again::PutAside => self.put_aside(put, *place, cause, effects),
                Again::Park => self.park_put(put, *place, cause, effects),
                Again::At(at) => match later.iter_mut().find(|(time, _)| *time == at) {
                    Some((_, places)) => places.push(*place),
                    None => later.push((at, vec![*place])),
                },
            }
        }
        self.errors.transient += places.len() as u64;
        self.release(put, &release, cause, effects);
        for (at, places) in later {
            self.retries += places.len() as u64;
            let mut work = self.take_back(put, &places, put.history.answered());
            self.copy_out(&mut work);
            self.queue.push_later(at, work);
            effects.work = true;
        }
    }

    /// Counts a failure of a record, and tells what becomes of it. One that hung
    /// was handed out at `hung_since`.
    pub(super) fn fail(
        &mut self,
        record: &SinkRecord,
        hung_since: Option<Instant>,
        jitter: f64,
    ) -> Again {
        let (key, now) = (key(entry(record)), self.now);
        let others_go_on = self.others_go_on(record);
        let before = self.failing.get(&key).copied();
        let first = record.parked.as_ref().map_or(now, |parked| parked.since);
        let failing = Failing {
            failures: before.map_or(1, |before| before.failures + 1),
            since: before.map_or(first, |before| before.since),
            last: now,
            hung_since,
            others_go_on: before.is_some_and(|it| it.others_go_on || others_go_on),
            outages: self.circuit.outages(),
        };
        self.failing.insert(key, failing);
        if self.parks(record, others_go_on, &failing) {
            return Again::Park;
        }
        let is_blameless = self.is_nobody_to_blame(others_go_on);
        let next_try = self.next_try(record, before, &failing, jitter);
        let next_try = next_try.or_else(|| {
            let delay = self.policy.retry.delay(failing.failures, jitter);
            is_blameless.then(|| now + delay)
        });
        let again = match (&record.parked, next_try) {
            // Back in the parking topic it would come again at once.
            (Some(_), Some(at)) => Again::At(at),
            (Some(_), None) => Again::PutAside,
            (None, Some(at)) if is_blameless => Again::At(at),
            (None, _) => self.policy.again(record.delivery_count, next_try, now),
        };
        if again == Again::Release {
            self.failing.remove(&key);
        }
        again
    }

    /// When to put a record again that has failed, if at all. Nobody gives one
    /// up in an outage. One whose time went by in it, or while no worker ran,
    /// is tried once more before that, and so is one that came back while
    /// nothing was delivered.
    fn next_try(
        &self,
        record: &SinkRecord,
        before: Option<Failing>,
        failing: &Failing,
        jitter: f64,
    ) -> Option<Instant> {
        let (retry, now) = (self.policy.retry, failing.last);
        let is_first_now = before.is_none_or(|before| before.outages != failing.outages);
        let one_more = (is_first_now && failing.since < now)
            || (before.is_none() && self.in_vain.came_back(record));
        retry
            .next_try(failing.failures, failing.since, now, jitter)
            .or_else(|| one_more.then(|| now + retry.delay(failing.failures, jitter)))
    }

    /// Gives records back, so that another worker can try.
    pub(super) fn release(
        &mut self,
        put: &PutRef,
        places: &[usize],
        cause: &Cause,
        effects: &mut Effects,
    ) {
        let is_news = self.policy.retriable == Retriable::Hold;
        if let Some(first) = places.first().filter(|_| is_news) {
            effects.notices.push(Notice::Releasing(Alike {
                records: places.len(),
                example: put.chunk[*first].id(),
                cause: cause.clone(),
                trace: self.trace_context(entry(&put.chunk[*first])),
            }));
        }
        let released = put.entries(places);
        self.settle(put.lease, released, Settlement::Release, effects);
    }

    /// Its time is over, and the broker would archive it if it went back; or it
    /// was parked, so that going back would be no news.
    pub(super) fn put_aside(
        &mut self,
        put: &PutRef,
        place: usize,
        cause: &Cause,
        effects: &mut Effects,
    ) {
        let tries = match &put.chunk[place].parked {
            Some(parked) => format!("parked {} times", parked.count),
            None => "on its last delivery attempt".to_owned(),
        };
        let cause = cause.behind(&format!("{tries}, with no time left to retry"));
        let rejection = Rejection::new(Stage::TaskPut, cause);
        self.reject_put(put, place, &rejection, effects);
    }

    /// Puts records again that found the sink unavailable: at once, since the
    /// circuit makes them wait. If that happens to the same ones over and over
    /// while the sink takes others, it is they that it refuses: in halves, and
    /// ever later, they hold up the others less and less.
    pub(super) fn refused(&mut self, put: &PutRef, places: &[usize], effects: &mut Effects) {
        let mut work = self.take_back(put, places, put.history);
        if !put.is_probe {
            work.history.refusals += 1;
        }
        if work.history.refusals < REFUSALS_BY_CHANCE || put.is_probe {
            return self.put_again(work, effects);
        }
        self.copy_out(&mut work);
        effects.work |= !work.records.is_empty();
        let delay = self
            .policy
            .retry
            .delay(work.history.refusals, fastrand::f64());
        for half in work.halves() {
            self.queue.push_later(self.now + delay, half);
        }
    }

    /// Puts two halves again to find the record that is to blame; a single
    /// one is.
    pub(super) fn split(
        &mut self,
        put: &PutRef,
        places: &[usize],
        history: History,
        cause: Cause,
        effects: &mut Effects,
    ) {
        if let [place] = places {
            let rejection = Rejection::new(Stage::TaskPut, cause);
            return self.reject_put(put, *place, &rejection, effects);
        }
        let work = self.take_back(put, places, history);
        for half in work.halves() {
            self.put_again(half, effects);
        }
    }

    pub(super) fn put_again(&mut self, work: Work, effects: &mut Effects) {
        effects.work |= !work.records.is_empty();
        self.queue.push_again(work);
    }

    /// Takes records from a put; those that are not ours any more stay behind.
    pub(super) fn take_back(&mut self, put: &PutRef, places: &[usize], history: History) -> Work {
        let mut records: Vec<Option<&SinkRecord>> =
            places.iter().map(|place| put.chunk.get(*place)).collect();
        let ours: Vec<&SinkRecord> = records.iter().copied().flatten().collect();
        let held = ours.iter().map(|record| entry(record));
        self.ledger
            .step(put.lease, Step::Requeue, held, &mut Vec::new(), |place| {
                records[place] = None;
            });
        let mut records: Vec<_> = records.into_iter().flatten().cloned().collect();
        self.note_queued(&mut records);
        Work {
            records,
            holds: put.chunk.holds().clone(),
            history,
        }
    }

    /// Copies payloads that will be held for long out of the response that
    /// they are slices of, or they would keep the whole of it in memory.
    pub(super) fn copy_out(&self, work: &mut Work) {
        let mut bytes = 0;
        for record in &mut work.records {
            copy_record(record, &mut bytes);
        }
        work.holds = Holds::of(self.credit.hold(bytes));
    }
}

pub(super) fn key(entry: Entry<'_>) -> DeliveryKey {
    (
        entry.partition.topic_id,
        entry.partition.partition,
        entry.offset,
        entry.acquisition,
    )
}
