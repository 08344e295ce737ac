//! The locks of open records: kept, and what the source tells of them.

use std::time::Duration;

use tokio::time::Instant;

use super::{Books, Effects};
use crate::ports::source::{AnsweredRange, LostRange};

/// A lock is renewed when this part of its time is left: enough for a fetch
/// that waits, a round trip, and another try.
const RENEWAL_MARGIN: f64 = 0.4;
/// Locks that nobody has looked after for so long, or for a small part of their
/// time, need another to do it.
const LONGEST_UNWATCHED: Duration = Duration::from_secs(1);
const UNWATCHED_PART: u32 = 8;

impl Books {
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

    /// Looks after the locks: asks for renewals well ahead of their end, and
    /// forgets what has expired all the same. Parks what pins a partition.
    pub fn watch_locks(&mut self, now: Instant) -> Effects {
        self.watched_at = Some(now);
        self.ledger.expire(now);
        self.forget_failing();
        let margin = self.lock_duration.mul_f64(RENEWAL_MARGIN);
        let mut effects = Effects {
            settle: self.ledger.renewals(now, margin),
            ..Effects::default()
        };
        self.forget_letters(&mut effects);
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
}
