//! Decides, from what threads and actors show of themselves, which of them
//! hang. Pure; the time is passed in.
//!
//! A thread hangs when for too long neither anything waiting on it was run nor
//! what runs on it has moved on. An actor hangs when for too long it has taken
//! nothing though work waited, while its thread ran others; as long as its
//! thread runs nothing else, the thread is judged.
//!
//! A put that waits for something is neither: its thread beats, and its task
//! has nothing else to take.

use std::time::Duration;

use tokio::time::Instant;

use crate::progress::PulseSign;

/// A look counts for no longer. A worker that was frozen finds, when it wakes,
/// that all stood still for as long as it slept, and nobody is to blame.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// How long it is since the last look.
#[derive(Debug)]
pub(crate) struct Looks {
    last: Instant,
}

impl Looks {
    #[must_use]
    pub(crate) const fn from(now: Instant) -> Self {
        Self { last: now }
    }

    /// The time that this look counts for.
    pub(crate) fn look(&mut self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.last);
        self.last = now;
        elapsed.min(LONGEST_LOOK)
    }
}

/// What is known of one thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadWatch {
    seen: PulseSign,
    still: Duration,
    beats: bool,
}

impl ThreadWatch {
    /// Looks at the thread; `elapsed` since the last look.
    pub(crate) fn look(&mut self, sign: PulseSign, elapsed: Duration) {
        self.beats = sign.beats != self.seen.beats;
        self.still = if sign == self.seen {
            self.still + elapsed
        } else {
            Duration::ZERO
        };
        self.seen = sign;
    }

    #[must_use]
    pub(crate) fn hangs(&self, limit: Duration) -> bool {
        self.still >= limit
    }

    /// Whether it ran what waits on it since the look before the last.
    #[must_use]
    pub(crate) const fn beats(&self) -> bool {
        self.beats
    }
}

/// The work of an actor at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkSign {
    /// Pieces that wait for it.
    pub(crate) waiting: usize,
    /// Pieces that it has taken, ever.
    pub(crate) taken: u64,
}

/// What is known of one actor.
#[derive(Debug, Default)]
pub(crate) struct WorkWatch {
    taken: u64,
    still: Duration,
}

impl WorkWatch {
    /// Looks at the actor; `thread_beats` since the last look.
    pub(crate) fn look(&mut self, sign: WorkSign, thread_beats: bool, elapsed: Duration) {
        if sign.waiting == 0 || sign.taken != self.taken {
            self.still = Duration::ZERO;
        } else if thread_beats {
            self.still += elapsed;
        }
        self.taken = sign.taken;
    }

    #[must_use]
    pub(crate) fn hangs(&self, limit: Duration) -> bool {
        self.still >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);
    const LIMIT: Duration = Duration::from_secs(1);

    const fn pulse(beats: u64, steps: u64) -> PulseSign {
        PulseSign { beats, steps }
    }

    const fn work(waiting: usize, taken: u64) -> WorkSign {
        WorkSign { waiting, taken }
    }

    #[test]
    fn a_thread_that_shows_nothing_for_the_limit_hangs() {
        let mut watch = ThreadWatch::default();
        watch.look(pulse(1, 1), TICK);
        for _ in 0..9 {
            watch.look(pulse(1, 1), TICK);
            assert!(!watch.hangs(LIMIT));
        }
        watch.look(pulse(1, 1), TICK);
        assert!(watch.hangs(LIMIT));
        watch.look(pulse(1, 2), TICK);
        assert!(!watch.hangs(LIMIT), "it came back");
    }

    #[test]
    fn a_thread_that_is_busy_for_long_but_moves_on_does_not_hang() {
        let mut watch = ThreadWatch::default();
        for steps in 0..100 {
            watch.look(pulse(1, steps), TICK);
            assert!(!watch.hangs(LIMIT));
        }
        assert!(!watch.beats(), "nobody else was run");
    }

    #[test]
    fn an_actor_that_leaves_its_work_lying_hangs() {
        let mut watch = WorkWatch::default();
        for _ in 0..10 {
            assert!(!watch.hangs(LIMIT));
            watch.look(work(1, 0), true, TICK);
        }
        assert!(watch.hangs(LIMIT));
    }

    #[test]
    fn an_actor_without_work_may_rest() {
        let mut watch = WorkWatch::default();
        for _ in 0..100 {
            watch.look(work(0, 5), true, TICK);
        }
        watch.look(work(3, 5), true, TICK);
        assert!(!watch.hangs(LIMIT), "its time starts with the work");
    }

    #[test]
    fn an_actor_that_takes_some_of_much_does_not_hang() {
        let mut watch = WorkWatch::default();
        for look in 0..100 {
            watch.look(work(50, look / 5), true, TICK);
            assert!(!watch.hangs(LIMIT));
        }
    }

    #[test]
    fn nobody_is_blamed_for_a_thread_that_others_keep_busy() {
        let mut watch = WorkWatch::default();
        for _ in 0..100 {
            watch.look(work(1, 0), false, TICK);
        }
        assert!(!watch.hangs(LIMIT));
        for _ in 0..10 {
            watch.look(work(1, 0), true, TICK);
        }
        assert!(watch.hangs(LIMIT));
    }

    #[test]
    fn a_worker_that_was_frozen_finds_nobody_hanging() {
        let start = Instant::now();
        let mut looks = Looks::from(start);
        let mut watch = ThreadWatch::default();
        watch.look(pulse(1, 1), looks.look(start + TICK));
        watch.look(pulse(1, 1), looks.look(start + Duration::from_secs(600)));
        assert!(!watch.hangs(LIMIT));
    }
}
