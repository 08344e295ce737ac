//! The locks of open records: kept, and what the source tells of them.

use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

use super::{Books, Effects};
use crate::ports::source::{AnsweredRange, LostRange};
use crate::record::{SourcePartition, TopicId};

/// A lock is renewed when this part of its time is left: enough for a fetch
/// that waits, a round trip, and another try.
const RENEWAL_MARGIN: f64 = 0.4;
/// Locks that nobody has looked after for so long, or for a small part of their
/// time, need another to do it.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(1);
const UNWATCHED_PART: u32 = 8;

/// How long a fresh lock lasts, as the broker told it last, by topic: parked
/// records are locked for another group than the others.
#[derive(Debug, Default)]
pub(super) struct LockTimes(AHashMap<TopicId, Duration>);

impl LockTimes {
    pub(super) fn note(&mut self, partition: &SourcePartition, lock: Duration) {
        self.0.insert(partition.topic_id, lock);
    }

    fn margin(&self, partition: &SourcePartition) -> Duration {
        let lock = self.0.get(&partition.topic_id);
        lock.copied().unwrap_or_default().mul_f64(RENEWAL_MARGIN)
    }

    fn shortest(&self) -> Option<Duration> {
        self.0.values().copied().filter(|it| !it.is_zero()).min()
    }
}

impl Books {
    pub fn answered(&mut self, answered: &[AnsweredRange], now: Instant) {
        for range in answered {
            self.journal.judge(range, &self.ledger, now);
            self.ledger.answered(range, now);
            self.journal.answered(range, &self.ledger, now);
        }
    }

    pub fn lost(&mut self, lost: &[LostRange], now: Instant) {
        for range in lost {
            self.ledger.lost(range, now);
            self.journal.lost(range, &self.ledger, now);
        }
    }

    /// Looks after the locks: asks for renewals well ahead of their end, and
    /// forgets what has expired all the same. Parks what pins a partition.
    pub fn watch_locks(&mut self, now: Instant) -> Effects {
        (self.now, self.watched_at) = (now, Some(now));
        self.ledger.expire(now);
        self.journal.expire(&self.ledger, now);
        self.forget_failing();
        let locks = &self.locks;
        let mut effects = Effects {
            settle: match self.policy.terms.may_renew {
                true => self.ledger.renewals(now, |it| locks.margin(it)),
                // Refused, it would be taken for a lock that is gone.
                false => Vec::new(),
            },
            ..Effects::default()
        };
        self.forget_letters(&mut effects);
        self.forget_withheld();
        self.park_pins(now, &mut effects);
        effects
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
        let shortest = self.locks.shortest();
        shortest.map_or(LONGEST_UNWATCHED, |lock| {
            LONGEST_UNWATCHED.min(lock / UNWATCHED_PART)
        })
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
}

#[cfg(test)]
mod tests {
    use super::super::Tolerance;
    use super::super::tests::{batch, books};
    use super::*;
    use crate::record::AcquiredBatch;
    use crate::testing::partition;

    const SECOND: Duration = Duration::from_secs(1);

    /// One record of a topic with locks of its own.
    fn come(books: &mut Books, topic: &str, lock: Duration) -> Instant {
        let one = batch(0..1, 1);
        let now = one.acquired_at;
        let one = AcquiredBatch {
            partition: partition(topic, 0),
            lock,
            lock_deadline: now + lock,
            ..one
        };
        books.acquire(&one, &mut Effects::default());
        now
    }

    #[test]
    fn a_lock_is_renewed_by_the_time_that_those_of_its_own_topic_last() {
        let mut books = books(None, Tolerance::None);
        come(&mut books, "orders", 30 * SECOND);
        let now = come(&mut books, "parked", SECOND);
        assert_eq!(books.longest_unwatched(), SECOND / 8);
        let mut renewed = |after: Duration| {
            let settle = books.watch_locks(now + after).settle.into_iter();
            let topics = settle.map(|it| it.partition.topic.to_string());
            topics.collect::<Vec<_>>()
        };
        assert!(renewed(SECOND / 2).is_empty());
        assert_eq!(renewed(SECOND * 3 / 4), ["parked"]);
        // A margin of one second's locks would leave it no time.
        assert_eq!(renewed(20 * SECOND), ["orders"]);
    }

    #[test]
    fn the_locks_that_came_last_say_nothing_of_others() {
        let mut books = books(None, Tolerance::None);
        come(&mut books, "parked", SECOND);
        let now = come(&mut books, "orders", 30 * SECOND);
        assert_eq!(books.longest_unwatched(), SECOND / 8);
        assert!(books.watch_locks(now).settle.is_empty());
    }
}
