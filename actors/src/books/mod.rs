//! What the pipeline knows about its records: the ledger, the queue and the
//! puts under way. Pure, the time is passed in; the actors feed it and carry
//! out what it answers.
//!
//! It outlives the actors, so that their death forgets no record.

mod notice;
mod policy;
mod puts;
mod settling;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ahash::{AHashMap, AHashSet};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

pub use notice::Notice;
pub use policy::{Policy, Tolerance};
pub use puts::{Put, PutEnd};

use crate::chunk::Holds;
use crate::credit::Credit;
use crate::intake::Intake;
use crate::ledger::{Entry, Ledger};
use crate::outcome::{Outcome, Rejection, Stage};
use crate::ports::sink::SinkError;
use crate::ports::source::{AnsweredRange, LostRange, SettleRange, Settlement};
use crate::record::{AcquiredBatch, RecordId, SinkRecord, TopicId};
use crate::report::{Closed, Report};
use crate::work_queue::WorkQueue;
use puts::{OpenPut, Puts};
use settling::key;

/// The books of one connector, shared by its actors.
#[derive(Debug)]
pub struct SharedBooks {
    books: Mutex<Books>,
    /// Told when there is something to convert or work for a task, or the next
    /// work's time has changed. To all who wait: one of them may be dead.
    pub(crate) work: Notify,
    idle_tasks: AtomicUsize,
    polling: AtomicBool,
}

impl SharedBooks {
    #[must_use]
    pub fn new(policy: Policy, credit: Arc<Credit>) -> Arc<Self> {
        Arc::new(Self {
            books: Mutex::new(Books::new(policy, credit)),
            work: Notify::new(),
            idle_tasks: AtomicUsize::new(0),
            polling: AtomicBool::new(true),
        })
    }

    /// Tasks that wait for records.
    #[must_use]
    pub fn idle_tasks(&self) -> usize {
        self.idle_tasks.load(Ordering::Relaxed)
    }

    pub(crate) fn set_idle_tasks(&self, tasks: usize) {
        self.idle_tasks.store(tasks, Ordering::Relaxed);
    }

    /// Whether more records are wanted; not while failed or draining.
    #[must_use]
    pub fn is_polling(&self) -> bool {
        self.polling.load(Ordering::Acquire)
    }

    pub(crate) fn stop_polling(&self) {
        self.polling.store(false, Ordering::Release);
    }

    pub(crate) fn resume_polling(&self) {
        self.polling.store(true, Ordering::Release);
    }

    pub fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.books.is_locked()
    }
}

/// What is to be done after the books were changed.
#[derive(Debug, Default)]
pub struct Effects {
    /// Tell the broker.
    pub settle: Vec<SettleRange>,
    /// Records that were put aside, with the reason.
    pub put_aside: Vec<(RecordId, Rejection)>,
    /// The record that fails the connector.
    pub failure: Option<(RecordId, Rejection)>,
    /// To be logged.
    pub notices: Vec<Notice>,
    /// There is work for a task now, or will be.
    pub work: bool,
}

impl Effects {
    /// Does another's too.
    fn add(&mut self, other: Self) {
        self.settle.extend(other.settle);
        self.put_aside.extend(other.put_aside);
        self.notices.extend(other.notices);
        self.failure = self.failure.take().or(other.failure);
        self.work |= other.work;
    }
}

/// A record that keeps failing.
#[derive(Clone, Copy, Debug)]
struct Failing {
    failures: u32,
    since: Instant,
}

/// A lock is renewed when this part of its time is left: enough for a fetch
/// that waits, a round trip, and another try.
const RENEWAL_MARGIN: f64 = 0.4;
/// Locks that nobody has looked after for so long, or for a small part of their
/// time, need another to do it.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(1);
const UNWATCHED_PART: u32 = 8;

/// What went wrong with single records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorTotals {
    /// Failures that were to be tried again.
    pub transient: u64,
    /// Records that can never be delivered.
    pub rejected: u64,
    /// Those of them that were put aside, as the policy tolerates it.
    pub skipped: u64,
}

type DeliveryKey = (TopicId, i32, i64, u32);

/// See the module.
#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    intake: Intake,
    queue: WorkQueue,
    puts: Puts,
    failing: AHashMap<DeliveryKey, Failing>,
    policy: Policy,
    credit: Arc<Credit>,
    /// How long a fresh lock lasts, as the broker told it last.
    lock_duration: Duration,
    /// When what is being entered happened.
    now: Instant,
    /// When the locks were looked after last.
    watched_at: Option<Instant>,
    delivered: u64,
    finished: u64,
    retries: u64,
    errors: ErrorTotals,
}

impl Books {
    #[must_use]
    pub fn new(policy: Policy, credit: Arc<Credit>) -> Self {
        Self {
            ledger: Ledger::default(),
            intake: Intake::default(),
            queue: WorkQueue::default(),
            puts: Puts::default(),
            failing: AHashMap::new(),
            policy,
            credit,
            lock_duration: Duration::ZERO,
            now: Instant::now(),
            watched_at: None,
            delivered: 0,
            finished: 0,
            retries: 0,
            errors: ErrorTotals::default(),
        }
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    #[must_use]
    pub const fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Records that wait for their conversion; the ledger has them already.
    pub const fn intake(&mut self) -> &mut Intake {
        &mut self.intake
    }

    /// Records that have come to an end for the sink so far, whichever; for
    /// rates.
    #[must_use]
    pub const fn finished(&self) -> u64 {
        self.finished
    }

    /// Outcomes *delivered* so far; for rates, not for guarantees.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    #[must_use]
    pub const fn retries(&self) -> u64 {
        self.retries
    }

    #[must_use]
    pub const fn errors(&self) -> ErrorTotals {
        self.errors
    }

    /// How often a record that is open may still be given back; none is.
    #[must_use]
    pub fn attempts_left(&self) -> Option<u16> {
        let count = self.ledger.highest_delivery_count()?;
        Some(self.policy.gate.attempts_left(count))
    }

    /// Takes up what the source acquired, and returns the acquisition that its
    /// records are known by. Corrupt ranges are rejected on the spot.
    pub fn acquire(&mut self, batch: &AcquiredBatch, effects: &mut Effects) -> u32 {
        let records = batch
            .records
            .iter()
            .map(|record| (record.offset, record.delivery_count));
        let (deadline, now) = (batch.lock_deadline, batch.acquired_at);
        self.now = now;
        self.lock_duration = deadline.saturating_duration_since(now);
        for corrupt in &batch.corrupt {
            let offsets = corrupt.first_offset..=corrupt.last_offset;
            let counted = offsets
                .clone()
                .map(|offset| (offset, corrupt.delivery_count));
            let acquisition = self
                .ledger
                .acquire(&batch.partition, counted, deadline, now);
            let rejection = Rejection::new(Stage::KafkaConsume, corrupt.cause.as_str());
            for offset in offsets {
                let entry = Entry {
                    partition: &batch.partition,
                    offset,
                    acquisition,
                };
                self.reject(0, entry, &rejection, effects);
            }
        }
        self.ledger
            .acquire(&batch.partition, records, deadline, now)
    }

    /// Queues records that were converted.
    pub fn converted(&mut self, records: Vec<SinkRecord>, holds: Holds) {
        self.queue.push(records, holds);
    }

    /// Rejects a record that could not be converted.
    pub fn unconverted(&mut self, entry: Entry<'_>, rejection: &Rejection, effects: &mut Effects) {
        self.reject(0, entry, rejection, effects);
    }

    /// Accepts records that a transform dropped.
    pub fn filtered<'a>(
        &mut self,
        entries: impl Iterator<Item = Entry<'a>>,
        effects: &mut Effects,
    ) {
        let mut finished = 0;
        let entries = entries.inspect(|_| finished += 1);
        self.settle(0, entries, Settlement::Accept, effects);
        self.finished += finished;
    }

    /// The next put for a task, if there is work. Records that are not ours
    /// any more are left out.
    pub fn dispatch(&mut self, task: u32, now: Instant) -> Option<Put> {
        loop {
            let mut work = self
                .queue
                .take(now, self.policy.tasks, self.policy.max_put_records)?;
            let lease = self.puts.next_lease();
            let mut stale = Vec::new();
            self.ledger
                .lease(lease, entries(&work.records), |place| stale.push(place));
            if !stale.is_empty() {
                let mut place = 0;
                let mut stale = stale.into_iter().peekable();
                work.records.retain(|_| {
                    let keep = stale.next_if_eq(&place).is_none();
                    place += 1;
                    keep
                });
            }
            if work.records.is_empty() {
                continue;
            }
            let report = Report::new(work.records.len());
            let kills = work.kills;
            let chunk = work.into_chunk();
            self.puts.open(
                lease,
                OpenPut {
                    task,
                    chunk: chunk.clone(),
                    report: report.clone(),
                    kills,
                    buffered: Vec::new(),
                    ended: false,
                },
            );
            return Some(Put {
                lease,
                chunk,
                report,
            });
        }
    }

    /// Takes what a put has reported so far.
    pub fn reported(&mut self, lease: u32, now: Instant) -> Effects {
        let outcomes = self.puts.get(lease).map(|put| put.report.take());
        self.outcomes(lease, outcomes.unwrap_or_default(), now)
    }

    /// Takes outcomes that came before the put's end.
    pub fn outcomes(
        &mut self,
        lease: u32,
        outcomes: Vec<(usize, Outcome)>,
        now: Instant,
    ) -> Effects {
        self.now = now;
        let mut effects = Effects::default();
        let Some(put) = self.puts.refer(lease) else {
            return effects;
        };
        let mut delivered = Vec::with_capacity(outcomes.len());
        let (mut buffered, mut retry) = (Vec::new(), Vec::new());
        let mut retry_cause = None;
        for (place, outcome) in outcomes {
            match outcome {
                Outcome::Delivered => delivered.push(place),
                Outcome::Buffered => buffered.push(place),
                Outcome::Retry(cause) => {
                    retry.push(place);
                    retry_cause.get_or_insert(cause);
                }
                Outcome::Reject(rejection) => {
                    self.reject(lease, entry(&put.chunk[place]), &rejection, &mut effects);
                }
            }
        }
        delivered.sort_unstable();
        self.deliver(&put, &delivered, &mut effects);
        self.buffer(&put, buffered);
        if let Some(cause) = retry_cause {
            // Together, so that they come back as one put.
            self.retry(&put, &retry, &cause, now, &mut effects);
        }
        effects
    }

    /// Takes the end of a put, and first what it has reported. `buffers` tells
    /// whether the sink's answer only buffered.
    pub fn put_ended(&mut self, lease: u32, end: PutEnd, buffers: bool, now: Instant) -> Effects {
        self.now = now;
        let Some(put) = self.puts.refer(lease) else {
            return Effects::default();
        };
        let Closed { fresh, missing } = self.puts.end(lease);
        let mut effects = self.outcomes(lease, fresh, now);
        let rest = missing;
        let kills = put.kills;
        match end {
            PutEnd::Answered(Ok(())) if buffers => self.buffer(&put, rest),
            PutEnd::Answered(Ok(())) => self.deliver(&put, &rest, &mut effects),
            PutEnd::Answered(Err(SinkError::Retry(cause))) => {
                self.retry(&put, &rest, &cause, now, &mut effects);
            }
            PutEnd::Answered(Err(
                SinkError::Unavailable(_) | SinkError::UnavailableFor(..) | SinkError::Fatal(_),
            ))
            | PutEnd::Abandoned => {
                let work = self.take_back(&put, &rest, kills);
                self.put_again(work, &mut effects);
            }
            PutEnd::TimedOut if kills == 0 => {
                // Another task first, under the same locks.
                let work = self.take_back(&put, &rest, 1);
                self.put_again(work, &mut effects);
            }
            PutEnd::TimedOut => self.release_or_put_again(&put, &rest, &mut effects),
            PutEnd::Answered(Err(SinkError::RejectedOne(cause))) => {
                self.split(&put, &rest, kills, cause, &mut effects);
            }
            PutEnd::Panicked(cause) if kills == 0 => {
                // Once more as it is: the task may have been to blame.
                let work = self.take_back(&put, &rest, 1);
                let records = rest.len();
                effects.notices.push(Notice::DiedOver { records, cause });
                self.put_again(work, &mut effects);
            }
            PutEnd::Panicked(cause) => {
                self.split(&put, &rest, kills + 1, cause, &mut effects);
            }
        }
        if self
            .puts
            .get(lease)
            .is_some_and(|put| put.buffered.is_empty())
        {
            self.puts.take(lease);
        }
        effects
    }

    /// Takes what became of a flush that covered these puts.
    pub fn flushed(
        &mut self,
        leases: &[u32],
        result: &Result<(), SinkError>,
        now: Instant,
    ) -> Effects {
        self.now = now;
        let mut effects = Effects::default();
        for lease in leases {
            let Some(put) = self.puts.refer(*lease) else {
                continue;
            };
            let places = self.puts.take_buffered(*lease);
            match result {
                Ok(()) => self.deliver(&put, &places, &mut effects),
                // Who of all that was buffered is to blame, no split can tell.
                Err(SinkError::Retry(cause) | SinkError::RejectedOne(cause)) => {
                    self.retry(&put, &places, cause, now, &mut effects);
                }
                Err(
                    SinkError::Unavailable(_) | SinkError::UnavailableFor(..) | SinkError::Fatal(_),
                ) => {
                    let work = self.take_back(&put, &places, put.kills);
                    self.put_again(work, &mut effects);
                }
            }
            if self.puts.get(*lease).is_some_and(|put| put.ended) {
                self.puts.take(*lease);
            }
        }
        effects
    }

    /// Takes back all that a task had (or all tasks), but for what it has
    /// reported: it is gone.
    pub fn task_gone(&mut self, task: Option<u32>, now: Instant) -> Effects {
        let mut effects = Effects::default();
        for lease in self.puts.leases(task) {
            let Some(put) = self.puts.refer(lease) else {
                continue;
            };
            let Closed { fresh, missing } = self.puts.end(lease);
            effects.add(self.outcomes(lease, fresh, now));
            let mut places = self.puts.take_buffered(lease);
            places.extend(missing);
            places.sort_unstable();
            let work = self.take_back(&put, &places, put.kills);
            self.put_again(work, &mut effects);
            self.puts.take(lease);
        }
        effects
    }

    pub fn answered(&mut self, answered: &[AnsweredRange], now: Instant) {
        for range in answered {
            self.ledger.answered(range, now);
        }
    }

    pub fn lost(&mut self, lost: &[LostRange], now: Instant) {
        for range in lost {
            self.ledger.lost(range, now);
        }
    }

    /// Moves what is due from those that wait for their time to those that
    /// wait for a task.
    pub fn wake(&mut self, now: Instant) {
        self.queue.wake(now);
    }

    /// Looks after the locks: asks for renewals well ahead of their end, and
    /// forgets what has expired all the same.
    pub fn watch_locks(&mut self, now: Instant) -> Effects {
        self.watched_at = Some(now);
        self.ledger.expire(now);
        self.forget_failing();
        let margin = self.lock_duration.mul_f64(RENEWAL_MARGIN);
        Effects {
            settle: self.ledger.renewals(now, margin),
            ..Effects::default()
        }
    }

    /// Whether somebody has looked after the locks lately.
    #[must_use]
    pub fn are_locks_watched(&self, now: Instant) -> bool {
        let limit = self.longest_unwatched();
        self.watched_at.is_some_and(|watched| now < watched + limit)
    }

    /// For how long the locks, and what the source tells of them, may lie
    /// before somebody else has to look.
    #[must_use]
    pub fn longest_unwatched(&self) -> Duration {
        match self.lock_duration {
            Duration::ZERO => LONGEST_UNWATCHED,
            lock => LONGEST_UNWATCHED.min(lock / UNWATCHED_PART),
        }
    }

    /// Records that were lost while they failed come under another acquisition,
    /// if at all.
    fn forget_failing(&mut self) {
        if self.failing.len() > self.ledger.open() {
            let ledger = &self.ledger;
            self.failing
                .retain(|(topic, partition, offset, acquisition), _| {
                    ledger.is_open((*topic, *partition), *offset, *acquisition)
                });
        }
    }

    /// Gives back what nobody has settled, as far as the gate lets it, and
    /// empties the queue. The rest stays locked until its session ends; the
    /// broker archives it then, so each one is named.
    pub fn release_rest(&mut self) -> (Effects, Vec<RecordId>) {
        let gate = self.policy.gate;
        self.intake.clear();
        self.queue.clear();
        let mut shut_out = Vec::new();
        let settle = self.ledger.settle_rest(Settlement::Release, |record| {
            let may = gate.may_release(record.delivery_count);
            if !may {
                shut_out.push(RecordId {
                    partition: Arc::clone(record.partition),
                    offset: record.offset,
                });
            }
            may
        });
        let effects = Effects {
            settle,
            ..Effects::default()
        };
        (effects, shut_out)
    }

    /// Gives back what no intake, queue or put knows any more, since the actor
    /// that had it died.
    pub fn release_forgotten(&mut self, now: Instant) -> Effects {
        let mut effects = self.task_gone(None, now);
        let known = self.queue.records().map(entry);
        let known: AHashSet<DeliveryKey> = known.chain(self.intake.entries()).map(key).collect();
        let gate = self.policy.gate;
        let mut shut_out = 0_u64;
        let released = self.ledger.settle_rest(Settlement::Release, |record| {
            let delivery = (
                record.partition.topic_id,
                record.partition.partition,
                record.offset,
                record.acquisition,
            );
            let forgotten = !record.held && !known.contains(&delivery);
            let may = gate.may_release(record.delivery_count);
            shut_out += u64::from(forgotten && !may);
            forgotten && may
        });
        effects.settle.extend(released);
        if shut_out > 0 {
            // Nobody has their payload any more, and a release would archive them.
            let notice = Notice::WentDown { records: shut_out };
            effects.notices.push(notice);
        }
        effects
    }
}

pub(crate) fn entry(record: &SinkRecord) -> Entry<'_> {
    Entry {
        partition: &record.partition,
        offset: record.offset,
        acquisition: record.acquisition,
    }
}

fn entries(records: &[SinkRecord]) -> impl Iterator<Item = Entry<'_>> {
    records.iter().map(entry)
}
