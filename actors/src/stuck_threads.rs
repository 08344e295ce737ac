//! Threads that nobody waits for any more, since a call on them never came
//! back: counted, and bounded, since each keeps its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::outcome::Cause;

/// When so many are stuck, no more threads are started.
const MAX_STUCK_THREADS: usize = 64;

/// How many threads are abandoned and have not ended.
#[derive(Debug)]
pub(crate) struct StuckThreads {
    count: AtomicUsize,
    max: usize,
}

impl StuckThreads {
    #[must_use]
    pub(crate) fn new() -> Arc<Self> {
        Self::at_most(MAX_STUCK_THREADS)
    }

    pub(crate) fn at_most(max: usize) -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            max,
        })
    }

    /// Whether another thread may be started in the place of a stuck one.
    pub(crate) fn allow_another(&self) -> Result<(), Cause> {
        let stuck = self.count.load(Ordering::Acquire);
        if stuck < self.max {
            return Ok(());
        }
        let cause =
            format!("{stuck} threads are stuck in calls that never came back, no more are started");
        Err(cause.into())
    }
}

const RUNNING: u8 = 0;
const ABANDONED: u8 = 1;
const ENDED: u8 = 2;

/// One thread's life: one atomic state, which its owner and the thread itself
/// both move on. However close an end and an abandoning come, the thread is
/// counted from its abandoning to its end.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLife {
    state: Arc<AtomicU8>,
    stuck: Arc<StuckThreads>,
}

impl ThreadLife {
    #[must_use]
    pub(crate) fn new(stuck: &Arc<StuckThreads>) -> Self {
        Self {
            state: Arc::new(AtomicU8::new(RUNNING)),
            stuck: Arc::clone(stuck),
        }
    }

    /// Nobody waits for it any more. Changes nothing when it has ended.
    pub(crate) fn abandon(&self) {
        // Counted first: the end may come before the next line.
        self.stuck.count.fetch_add(1, Ordering::AcqRel);
        if !self.goes_from_running_to(ABANDONED) {
            self.stuck.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    #[must_use]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.load(Ordering::Acquire) == ABANDONED
    }

    /// For the thread to keep until its end.
    #[must_use]
    pub(crate) fn until_end(&self) -> UntilEnd {
        UntilEnd(self.clone())
    }

    fn goes_from_running_to(&self, next: u8) -> bool {
        self.state
            .compare_exchange(RUNNING, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Dropped at the end of a thread, whichever way it ends.
#[derive(Debug)]
pub(crate) struct UntilEnd(ThreadLife);

impl Drop for UntilEnd {
    fn drop(&mut self) {
        if self.0.state.swap(ENDED, Ordering::AcqRel) == ABANDONED {
            self.0.stuck.count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
impl StuckThreads {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn an_abandoned_thread_counts_until_it_ends() {
        let stuck = StuckThreads::new();
        let life = ThreadLife::new(&stuck);
        let until_end = life.until_end();
        life.abandon();
        life.abandon();
        assert_eq!((stuck.count(), life.is_abandoned()), (1, true));
        drop(until_end);
        assert_eq!((stuck.count(), life.is_abandoned()), (0, false));
    }

    #[test]
    fn a_thread_that_has_ended_cannot_be_abandoned() {
        let stuck = StuckThreads::new();
        let life = ThreadLife::new(&stuck);
        drop(life.until_end());
        life.abandon();
        assert_eq!(stuck.count(), 0);
    }

    /// Whichever comes first, and between all their steps.
    #[test]
    fn an_end_at_the_moment_of_abandoning_leaves_no_count() {
        let stuck = StuckThreads::new();
        for _ in 0..2000 {
            let life = ThreadLife::new(&stuck);
            let until_end = life.until_end();
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    drop(until_end);
                });
                start.wait();
                life.abandon();
            });
            assert_eq!(stuck.count(), 0);
        }
    }

    #[test]
    fn too_many_stuck_threads_allow_no_other() {
        let stuck = StuckThreads::at_most(1);
        assert_eq!(stuck.allow_another(), Ok(()));
        let life = ThreadLife::new(&stuck);
        life.abandon();
        let refused = stuck.allow_another().unwrap_err();
        assert!(refused.contains("1 threads are stuck"), "{refused}");
    }
}
