//! What a share session sends next.
//!
//! One request is in flight at a time, since the session's epoch is serial;
//! it cannot be interrupted, so a fetch waits briefly while anything is open
//! here that might have to be settled or renewed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::broker::{Broker, InFlight, Sent};
use super::config::AcquireMode;
use super::request::{Acknowledgements, Body, Fetch, Request};
use super::session::{CLOSING_EPOCH, PartitionKey};
use super::settlements::Book;

/// How long settlements wait for company when no fetch carries them.
const LINGER: Duration = Duration::from_millis(1);
/// How long settlements of a partition wait for the rest of its records. The
/// broker keeps one state for records that are settled together as they were
/// acquired, and one for each of them otherwise, which costs it twice as much.
const PATIENCE: Duration = Duration::from_millis(3);
/// How long a fetch waits for records while something is open here: what
/// comes due meanwhile is held up by that. It grows while nothing happens.
const BUSY_WAIT: Duration = Duration::from_millis(2);
const BUSY_WAIT_MAX: Duration = Duration::from_millis(32);
/// From this many records on it is throughput that counts. Below, whole
/// producer batches would overshoot by too much, so the broker is held to the
/// number.
const BULK: usize = 500;

/// What a session may do in this turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) now: Instant,
    pub(super) phase: Phase,
    /// Records that the window leaves free over all sessions; below zero when
    /// it was exceeded.
    pub(super) free_records: i64,
    /// Bytes that may be fetched; zero for no fetch.
    pub(super) free_bytes: usize,
    /// How many sessions share what is free.
    pub(super) sharers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Fetching,
    /// Settling only: not joined yet, or never to fetch again.
    Settling,
    /// Settling until then, and closing the session.
    Closing {
        settle_until: Instant,
    },
}

impl Broker {
    /// What to send now, if anything.
    pub(super) fn plan(&mut self, turn: &Turn) -> Option<Request> {
        let now = turn.now;
        if self.in_flight.is_some() || self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        if let Some(fresh) = self.credentials.take_fresh() {
            return Some(self.request(Sent::Reauthenticate, 0, Body::Reauthenticate(fresh)));
        }
        if self.credentials.is_late(now) {
            return None;
        }
        if !self.session.is_open() {
            return self.plan_opening(turn);
        }
        if self.books.values().any(|book| book.is_renewal_due(now)) {
            return Some(self.acknowledge(now, Sent::Acknowledge));
        }
        if self.is_to_close(turn) {
            return self.plan_closing(turn);
        }
        let fetchable = self.fetchable(now);
        if !self.may_fetch(turn, &fetchable) || self.has_strays(now, &fetchable) {
            return self.plan_settling(now);
        }
        Some(self.fetch(turn, &fetchable))
    }

    /// A session opens without settlements. Without credit it opens empty, so
    /// that settlements have a way.
    fn plan_opening(&mut self, turn: &Turn) -> Option<Request> {
        let owes = self.books.values().any(Book::has_work);
        let opens = match turn.phase {
            Phase::Fetching => owes || self.wants_records(),
            Phase::Settling => owes,
            Phase::Closing { settle_until } => owes && turn.now < settle_until,
        };
        if !opens {
            return None;
        }
        let mut fetchable = self.fetchable(turn.now);
        let mut asked = self.share(turn.free_records, turn);
        if asked == 0 || !self.may_fetch(turn, &fetchable) {
            fetchable = Arc::default();
            asked = 0;
        }
        Some(self.send_fetch(turn, &fetchable, Vec::new(), asked))
    }

    fn is_to_close(&self, turn: &Turn) -> bool {
        match turn.phase {
            Phase::Closing { .. } => true,
            Phase::Fetching | Phase::Settling => {
                let unused = self.wanted.is_empty() && self.holds_nothing();
                let failed = self.credentials.has_failed() && self.is_draining(turn.now);
                let drained = failed && self.holds_nothing();
                unused || drained || self.credentials.is_over(turn.now)
            }
        }
    }

    /// The connection will probably not outlast its credentials: no more
    /// fetches on it.
    fn is_draining(&self, now: Instant) -> bool {
        self.credentials.is_draining(now, self.lock / 2)
    }

    /// Settles what is due, then closes the session, which gives back the
    /// rest: except for partitions that are not in it any more.
    fn plan_closing(&mut self, turn: &Turn) -> Option<Request> {
        let now = turn.now;
        let closing = matches!(turn.phase, Phase::Closing { .. });
        for (key, book) in &mut self.books {
            if closing && !self.session.contains(key) {
                book.release_held();
            }
        }
        let patient = match turn.phase {
            Phase::Closing { settle_until } => now < settle_until,
            Phase::Fetching | Phase::Settling => !self.credentials.is_over(now),
        };
        if patient && self.books.values().any(|book| book.is_due(now)) {
            return Some(self.acknowledge(now, Sent::Acknowledge));
        }
        if patient && self.books.values().any(Book::has_work) {
            return None;
        }
        Some(self.acknowledge(now, Sent::Close))
    }

    fn plan_settling(&mut self, now: Instant) -> Option<Request> {
        let rested = self.waiting_since.is_none_or(|since| since + LINGER <= now);
        let mut books = self.books.values();
        let due = books.any(|book| book.is_due(now) && self.is_ripe(book, now));
        (due && rested).then(|| self.acknowledge(now, Sent::Acknowledge))
    }

    /// Whether a partition's settlements go with the next request, although
    /// some of its records are not settled yet.
    fn is_ripe(&self, book: &Book, now: Instant) -> bool {
        let waited = self
            .waiting_since
            .is_none_or(|since| since + PATIENCE <= now);
        book.is_whole() || waited || self.open_records() < BULK as u64
    }

    fn may_fetch(&self, turn: &Turn, fetchable: &BTreeSet<PartitionKey>) -> bool {
        let ripe = self
            .books
            .values()
            .filter(|book| self.is_ripe(book, turn.now));
        let pending: u64 = ripe.map(Book::pending).sum();
        turn.phase == Phase::Fetching
            && !fetchable.is_empty()
            && !self.is_draining(turn.now)
            && turn.free_bytes > 0
            && self.pace.may_fetch(turn.now)
            && turn.free_records + clamp(pending) > 0
    }

    fn fetchable(&self, now: Instant) -> Arc<BTreeSet<PartitionKey>> {
        if self.pauses.is_empty() {
            return Arc::clone(&self.wanted);
        }
        let paused =
            |key: &PartitionKey| self.pauses.get(key).is_some_and(|pause| now < pause.until);
        self.wanted
            .iter()
            .filter(|key| !paused(key))
            .copied()
            .collect::<BTreeSet<_>>()
            .into()
    }

    /// Something is to be settled in a partition that is not fetched: on a
    /// fetch it would bring the partition back into the session.
    fn has_strays(&self, now: Instant, fetchable: &BTreeSet<PartitionKey>) -> bool {
        self.books
            .iter()
            .any(|(key, book)| book.is_due(now) && !fetchable.contains(key))
    }

    fn fetch(&mut self, turn: &Turn, fetchable: &BTreeSet<PartitionKey>) -> Request {
        let before = self.open_records();
        let acknowledgements = self.take_ripe(turn.now);
        let freed = clamp(before - self.open_records());
        let asked = self.share(turn.free_records + freed, turn);
        if asked == 0 {
            return self.send_acknowledge(acknowledgements, Sent::Acknowledge);
        }
        self.send_fetch(turn, fetchable, acknowledgements, asked)
    }

    /// This session's part of what is free: one that finds nothing asks for
    /// little, so that a long poll does not keep credit from the others.
    fn share(&self, free: i64, turn: &Turn) -> usize {
        let free = usize::try_from(free).unwrap_or(0);
        let mut parts = turn.sharers.max(1);
        if parts > 1 && self.quiet > 0 {
            parts *= 8;
        }
        free.div_ceil(parts)
    }

    fn send_fetch(
        &mut self,
        turn: &Turn,
        partitions: &BTreeSet<PartitionKey>,
        acknowledgements: Acknowledgements,
        asked: usize,
    ) -> Request {
        let delta = self.session.delta(partitions);
        let acquire_mode = if asked < BULK {
            AcquireMode::RecordLimit
        } else {
            self.config.acquire_mode
        };
        let max_bytes = self.pace.ask(self.max_bytes(turn));
        let fetch = Fetch {
            // The answer to settlements comes with the records': with few open,
            // nothing else is likely to come soon, and they must not wait for it.
            max_wait: if partitions.is_empty() || self.only_settles(&acknowledgements) {
                Duration::ZERO
            } else {
                self.max_wait(turn.now)
            },
            max_bytes,
            max_records: asked.max(1),
            acquire_mode,
            acknowledgements: with_added(acknowledgements, &delta.added),
            delta: delta.clone(),
        };
        self.request(Sent::Fetch(delta), asked, Body::Fetch(fetch))
    }

    /// Whether a fetch is sent for its settlements more than for records.
    fn only_settles(&self, acknowledgements: &Acknowledgements) -> bool {
        !acknowledgements.is_empty() && self.open_records() < BULK as u64
    }

    fn max_bytes(&self, turn: &Turn) -> usize {
        let limit = usize::try_from(self.config.fetch_max_bytes).unwrap_or(usize::MAX);
        (turn.free_bytes / turn.sharers.max(1)).min(limit).max(1)
    }

    /// Over by the time that fresh credentials are due, which must not wait
    /// for its answer.
    fn max_wait(&self, now: Instant) -> Duration {
        let longest = self.config.fetch_max_wait;
        let longest = match self.credentials.until_due(now) {
            None => longest,
            Some(Duration::ZERO) => longest.min(BUSY_WAIT_MAX),
            Some(left) => longest.min(left),
        };
        if self.holds_nothing() {
            return longest;
        }
        let wait = BUSY_WAIT * 2_u32.saturating_pow(self.quiet.min(8));
        wait.min(BUSY_WAIT_MAX).min(longest)
    }

    fn acknowledge(&mut self, now: Instant, sent: Sent) -> Request {
        let acknowledgements = self.take(now, true, |_| true);
        self.send_acknowledge(acknowledgements, sent)
    }

    fn send_acknowledge(&mut self, acknowledgements: Acknowledgements, sent: Sent) -> Request {
        self.request(sent, 0, Body::Acknowledge(acknowledgements))
    }

    /// What a fetch carries.
    fn take_ripe(&mut self, now: Instant) -> Acknowledgements {
        let ripe: BTreeSet<PartitionKey> = self
            .books
            .iter()
            .filter(|(_, book)| self.is_ripe(book, now))
            .map(|(key, _)| *key)
            .collect();
        self.take(now, false, |key| ripe.contains(key))
    }

    fn take(
        &mut self,
        now: Instant,
        with_renewals: bool,
        wanted: impl Fn(&PartitionKey) -> bool,
    ) -> Acknowledgements {
        let mut taken = Vec::new();
        for (key, book) in &mut self.books {
            if book.has_work() && wanted(key) {
                let batches = book.take(with_renewals, now);
                if !batches.is_empty() {
                    taken.push((*key, batches.to_vec()));
                }
            }
        }
        if self.books.values().all(|book| book.pending() == 0) {
            self.waiting_since = None;
        }
        taken
    }

    fn request(&mut self, sent: Sent, asked: usize, body: Body) -> Request {
        let epoch = match sent {
            Sent::Close => CLOSING_EPOCH,
            Sent::Fetch(_) | Sent::Acknowledge | Sent::Reauthenticate => self.session.epoch(),
        };
        let acknowledgements = match &body {
            Body::Fetch(fetch) => fetch.acknowledgements.as_slice(),
            Body::Acknowledge(acknowledgements) => acknowledgements,
            Body::Reauthenticate(_) => &[],
        };
        let settled = acknowledgements
            .iter()
            .filter(|(_, batches)| !batches.is_empty())
            .map(|(key, _)| *key)
            .collect();
        self.in_flight = Some(InFlight {
            sent,
            settled,
            asked,
        });
        Request {
            broker: self.id,
            epoch,
            body,
        }
    }

    /// When to look again, if nothing else happens.
    pub(super) fn wake_at(&self, turn: &Turn) -> Option<Instant> {
        if self.in_flight.is_some() {
            return None;
        }
        let settle_until = match turn.phase {
            Phase::Closing { settle_until } => Some(settle_until),
            Phase::Fetching | Phase::Settling => None,
        };
        self.books
            .values()
            .map(Book::retry_at)
            .chain(self.pauses.values().map(|pause| Some(pause.until)))
            .chain(self.credentials.wake_at().map(Some))
            .chain([self.paused_until, settle_until, self.pace.next_at()])
            .chain([LINGER, PATIENCE].map(|time| Some(self.waiting_since? + time)))
            .flatten()
            .filter(|at| *at > turn.now)
            .min()
    }
}

fn clamp(offsets: u64) -> i64 {
    i64::try_from(offsets).unwrap_or(i64::MAX)
}

/// Names the partitions that join the session among the settlements.
fn with_added(acknowledgements: Acknowledgements, added: &[PartitionKey]) -> Acknowledgements {
    let mut by_key: BTreeMap<_, _> = added.iter().map(|key| (*key, Vec::new())).collect();
    by_key.extend(acknowledgements);
    by_key.into_iter().collect()
}
