//! The state of one broker's share session: what it holds, wants and has in
//! flight. What it sends next is in `planner`, what an answer does to it in
//! `answers`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::config::ShareSourceConfig;
use super::pace::Pace;
use super::reauthentication::Reauthentication;
use super::session::{Delta, PartitionKey, Session};
use super::settlements::{Book, Told};
use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::SettleRange;

/// What is in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) sent: Sent,
    pub(super) settled: Vec<PartitionKey>,
    /// Records that it asks for.
    pub(super) asked: usize,
}

#[derive(Debug)]
pub(super) enum Sent {
    Fetch(Delta),
    Acknowledge,
    Reauthenticate,
    Close,
}

/// A partition that the broker refused to serve, left out of fetches for now.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) until: Instant,
    pub(super) failures: u32,
}

/// The session with one broker.
#[derive(Debug)]
pub(super) struct Broker {
    pub(super) id: i32,
    pub(super) config: Arc<ShareSourceConfig>,
    pub(super) session: Session,
    pub(super) books: BTreeMap<PartitionKey, Book>,
    /// Partitions to fetch.
    pub(super) wanted: Arc<BTreeSet<PartitionKey>>,
    pub(super) pauses: BTreeMap<PartitionKey, Pause>,
    pub(super) in_flight: Option<InFlight>,
    /// No request before then.
    pub(super) paused_until: Option<Instant>,
    pub(super) failures: u32,
    /// Since when settlements wait.
    pub(super) waiting_since: Option<Instant>,
    /// Fetches in a row that brought nothing.
    pub(super) quiet: u32,
    pub(super) pace: Pace,
    /// How long a lock lasts, as last told.
    pub(super) lock: Duration,
    /// The broker gave out an offset twice in one answer, which was logged.
    pub(super) doubled: bool,
    /// The credentials of its connection.
    pub(super) credentials: Reauthentication,
}

impl Broker {
    pub(super) fn new(id: i32, config: Arc<ShareSourceConfig>) -> Self {
        Self {
            id,
            config,
            session: Session::default(),
            books: BTreeMap::new(),
            wanted: Arc::default(),
            pauses: BTreeMap::new(),
            in_flight: None,
            paused_until: None,
            failures: 0,
            waiting_since: None,
            quiet: 0,
            pace: Pace::default(),
            lock: Duration::from_secs(30),
            doubled: false,
            credentials: Reauthentication::default(),
        }
    }

    pub(super) fn open_records(&self) -> u64 {
        self.books.values().map(Book::open).sum()
    }

    pub(super) fn asked_records(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |flight| flight.asked)
    }

    pub(super) fn wants_records(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether its broker has answered for all partitions that are wanted of it,
    /// so that the group has a position in each; those that it refuses for now
    /// have their trouble. One that leads nothing any more, and is kept for its
    /// last answer, opens no session.
    pub(super) fn is_ready(&self) -> bool {
        let has_answered = |key| self.session.contains(key) || self.pauses.contains_key(key);
        let mut wanted = self.wanted.iter();
        wanted.all(|key| self.session.is_open() && has_answered(key))
    }

    /// Nothing is held, wanted, or on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_none() && !self.session.is_open() && self.holds_nothing()
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.books.values().all(Book::is_empty)
    }

    /// Whether a partition's records may still come or be settled here.
    pub(super) fn is_with(&self, key: &PartitionKey) -> bool {
        self.may_bring(key) || self.books.get(key).is_some_and(|book| !book.is_empty())
    }

    fn may_bring(&self, key: &PartitionKey) -> bool {
        match self.in_flight.as_ref().map(|flight| &flight.sent) {
            Some(Sent::Fetch(delta)) => {
                let stays = self.session.contains(key) && !delta.forgotten.contains(key);
                stays || delta.added.contains(key)
            }
            Some(Sent::Acknowledge | Sent::Reauthenticate | Sent::Close) | None => false,
        }
    }

    pub(super) fn want(&mut self, wanted: BTreeSet<PartitionKey>) {
        self.wanted = Arc::new(wanted);
        self.books
            .retain(|key, book| self.wanted.contains(key) || !book.is_empty());
        self.pauses.retain(|key, _| self.wanted.contains(key));
    }

    /// The partition is gone from this broker, with all locks.
    pub(super) fn part_with(&mut self, key: &PartitionKey, cause: &Cause, told: &mut Told) {
        if let Some(mut book) = self.books.remove(key) {
            book.lose(cause, told);
        }
    }

    /// Takes a settlement; whether the partition is here.
    pub(super) fn settle(&mut self, range: &SettleRange, now: Instant, told: &mut Told) -> bool {
        let key = PartitionKey {
            topic_id: range.partition.topic_id,
            partition: range.partition.partition,
        };
        let Some(book) = self.books.get_mut(&key) else {
            return false;
        };
        book.settle(range, told);
        self.quiet = 0;
        self.waiting_since.get_or_insert(now);
        true
    }

    pub(super) fn expire(&mut self, now: Instant, told: &mut Told) {
        for book in self.books.values_mut() {
            book.expire(now, told);
        }
    }
}
