//! What threads and actors show of their progress. They write it, the
//! supervisor reads it now and then.
//!
//! A thread runs one thing at a time, so each number has one writer: a plain
//! load and store, which costs next to nothing, is enough.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a thread shows: that what waits on it is run (beats), and that what
/// runs on it moves on (steps).
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    beats: AtomicU64,
    steps: AtomicU64,
}

/// A pulse at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PulseSign {
    pub(crate) beats: u64,
    pub(crate) steps: u64,
}

impl Pulse {
    /// By the thread itself, at an interval.
    pub(crate) fn beat(&self) {
        count_up(&self.beats);
    }

    #[must_use]
    pub(crate) fn sign(&self) -> PulseSign {
        PulseSign {
            beats: self.beats.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
        }
    }
}

/// Outside of all calls to plugins.
const NOTHING: u64 = 0;
/// Inside a call that is about no record.
pub(crate) const NO_RECORD: u64 = u64::MAX;

/// What one actor shows. Clones are the same mark.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    thread: Arc<Pulse>,
    shown: Arc<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    doing: AtomicU64,
    taken: AtomicU64,
}

impl Mark {
    /// The mark of an actor on that thread.
    #[must_use]
    pub(crate) fn on(thread: &Arc<Pulse>) -> Self {
        Self {
            thread: Arc::clone(thread),
            shown: Arc::default(),
        }
    }

    /// Begins a step that may never end; `doing` says, in the actor's own
    /// terms, what it is about.
    pub(crate) fn begin(&self, doing: u64) -> Running<'_> {
        let step = Running { mark: self };
        step.moved(doing);
        step
    }

    /// A future each of whose polls is a step: while it waits for something
    /// nobody is inside it.
    pub(crate) async fn in_steps<F: Future>(&self, doing: u64, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|waker| {
            let _step = self.begin(doing);
            future.as_mut().poll(waker)
        })
        .await
    }

    /// What it is inside of, or what it died of.
    #[must_use]
    pub(crate) fn doing(&self) -> Option<u64> {
        let doing = self.shown.doing.load(Ordering::Relaxed);
        (doing != NOTHING).then_some(doing)
    }

    /// It took up a piece of the work that waited for it.
    pub(crate) fn took(&self) {
        count_up(&self.shown.taken);
    }

    #[must_use]
    pub(crate) fn taken(&self) -> u64 {
        self.shown.taken.load(Ordering::Relaxed)
    }
}

/// A step under way.
pub(crate) struct Running<'a> {
    mark: &'a Mark,
}

impl Running<'_> {
    /// The same step is about something else from here on.
    pub(crate) fn moved(&self, doing: u64) {
        self.mark.shown.doing.store(doing, Ordering::Relaxed);
        count_up(&self.mark.thread.steps);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // What an actor died of stays to be seen.
        if !std::thread::panicking() {
            self.moved(NOTHING);
        }
    }
}

fn count_up(count: &AtomicU64) {
    let next = count.load(Ordering::Relaxed).wrapping_add(1);
    count.store(next, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures::FutureExt;

    use super::*;

    fn mark() -> (Arc<Pulse>, Mark) {
        let pulse = Arc::new(Pulse::default());
        let mark = Mark::on(&pulse);
        (pulse, mark)
    }

    #[test]
    fn each_move_within_a_step_shows_on_the_thread() {
        let (pulse, mark) = mark();
        let step = mark.begin(1);
        let before = pulse.sign();
        step.moved(2);
        assert_ne!(pulse.sign(), before);
        assert_eq!(mark.doing(), Some(2));
        drop(step);
        assert_eq!(mark.doing(), None);
        assert_eq!(pulse.sign().beats, 0, "only the thread beats");
    }

    #[test]
    fn what_an_actor_died_of_stays() {
        let (_pulse, mark) = mark();
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _step = mark.begin(7);
            panic!("by plan");
        }));
        assert!(died.is_err());
        assert_eq!(mark.doing(), Some(7));
    }

    #[test]
    fn a_future_that_waits_is_not_inside_a_step() {
        let (_pulse, mark) = mark();
        let inside = || assert_eq!(mark.doing(), Some(3));
        let waiting = async {
            inside();
            std::future::pending::<()>().await;
        };
        assert!(mark.in_steps(3, waiting).now_or_never().is_none());
        assert_eq!(mark.doing(), None);
    }
}
