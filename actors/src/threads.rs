//! The threads that actors live on.
//!
//! Arbiters are single-threaded: poller and acknowledger share one, so that no
//! decoding and no sink holds them up; converter and deliveries share a pool;
//! supervisors have one of their own, from which they see all others hang. A
//! thread that hangs is left alone, and another one takes its place.

use std::sync::Arc;
use std::time::Duration;

use actix::{Arbiter, ArbiterHandle};
use parking_lot::Mutex;

use crate::outcome::Cause;
use crate::progress::Pulse;
use crate::stuck_threads::{StuckThreads, ThreadLife, UntilEnd};

/// Whoever shows no progress for so long hangs.
const HANG_LIMIT: Duration = Duration::from_secs(60);
/// How often a thread shows that it runs what waits on it: at least once
/// between two looks of a supervisor.
const BEAT: Duration = Duration::from_millis(40);

/// Where a pipeline's actors are started. Clones are the same threads.
#[derive(Clone, Debug)]
pub struct Threads {
    supervision: ArbiterHandle,
    seats: Arc<Mutex<Seats>>,
    stuck: Arc<StuckThreads>,
    hang_limit: Duration,
}

#[derive(Debug)]
struct Seats {
    control: Arc<Thread>,
    pool: Vec<Arc<Thread>>,
}

impl Threads {
    /// Threads of their own; needs a running actix `System`.
    #[must_use]
    pub fn start(pool: usize) -> Self {
        let stuck = StuckThreads::new();
        let start = || Thread::on(Arbiter::new().handle(), &stuck);
        let seats = Seats {
            control: start(),
            pool: (0..pool.max(1)).map(|_| start()).collect(),
        };
        Self::seated(Arbiter::new().handle(), seats, stuck)
    }

    /// Everything on the current thread, for tests that pause the clock.
    #[must_use]
    pub fn current() -> Self {
        let stuck = StuckThreads::new();
        let thread = Thread::on(Arbiter::current(), &stuck);
        let seats = Seats {
            control: Arc::clone(&thread),
            pool: vec![thread],
        };
        Self::seated(Arbiter::current(), seats, stuck)
    }

    fn seated(supervision: ArbiterHandle, seats: Seats, stuck: Arc<StuckThreads>) -> Self {
        Self {
            supervision,
            seats: Arc::new(Mutex::new(seats)),
            stuck,
            hang_limit: HANG_LIMIT,
        }
    }

    /// Another time without progress (60 s) after which someone hangs. A call
    /// to a converter, a transform, or a sink that does not say that it blocks
    /// must come back within it.
    #[must_use]
    pub const fn with_hang_limit(mut self, limit: Duration) -> Self {
        self.hang_limit = limit;
        self
    }

    /// As if too many were stuck already.
    #[cfg(test)]
    pub(crate) fn that_replace_none(mut self) -> Self {
        self.stuck = StuckThreads::at_most(0);
        self
    }

    #[must_use]
    pub(crate) const fn hang_limit(&self) -> Duration {
        self.hang_limit
    }

    #[must_use]
    pub(crate) const fn supervision(&self) -> &ArbiterHandle {
        &self.supervision
    }

    #[must_use]
    pub(crate) fn control(&self) -> Arc<Thread> {
        Arc::clone(&self.seats.lock().control)
    }

    /// The pool's thread for the `number`-th actor.
    #[must_use]
    pub(crate) fn pool(&self, number: usize) -> Arc<Thread> {
        let pool = &self.seats.lock().pool;
        Arc::clone(&pool[number % pool.len()])
    }

    /// Puts another thread in the place of one that hangs, unless someone has
    /// done so already; refused when too many are stuck.
    pub(crate) fn replace(&self, hung: &Arc<Thread>) -> Result<(), Cause> {
        let seats = &mut *self.seats.lock();
        let seats = seats.pool.iter_mut().chain([&mut seats.control]);
        let mut seats = seats.filter(|seat| Arc::ptr_eq(seat, hung)).peekable();
        if seats.peek().is_none() {
            return Ok(());
        }
        self.stuck.allow_another()?;
        let arbiter = Arbiter::try_new()
            .map_err(|error| Cause::from(format!("no thread for an actor: {error}")))?;
        let fresh = Thread::on(arbiter.handle(), &self.stuck);
        seats.for_each(|seat| *seat = Arc::clone(&fresh));
        hung.abandon();
        Ok(())
    }

    /// Stops the threads; what runs on them is dropped.
    pub fn stop(&self) {
        let seats = self.seats.lock();
        for thread in seats.pool.iter().chain([&seats.control]) {
            thread.arbiter.stop();
        }
        self.supervision.stop();
    }
}

/// One thread, which beats while it runs what waits on it.
#[derive(Debug)]
pub(crate) struct Thread {
    arbiter: ArbiterHandle,
    pulse: Arc<Pulse>,
    life: ThreadLife,
}

impl Thread {
    fn on(arbiter: ArbiterHandle, stuck: &Arc<StuckThreads>) -> Arc<Self> {
        let (pulse, life) = (Arc::new(Pulse::default()), ThreadLife::new(stuck));
        // Dropped unrun by an arbiter that ends at once.
        arbiter.spawn(beat(Arc::clone(&pulse), life.until_end()));
        Arc::new(Self {
            arbiter,
            pulse,
            life,
        })
    }

    #[must_use]
    pub(crate) const fn arbiter(&self) -> &ArbiterHandle {
        &self.arbiter
    }

    #[must_use]
    pub(crate) const fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Whether someone else works in its place.
    #[must_use]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.life.is_abandoned()
    }

    /// It ends when it comes back, with all that is on it.
    fn abandon(&self) {
        self.life.abandon();
        self.arbiter.stop();
    }
}

async fn beat(pulse: Arc<Pulse>, _until_end: UntilEnd) {
    loop {
        tokio::time::sleep(BEAT).await;
        pulse.beat();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    async fn until(what: &str, done: impl Fn() -> bool) {
        let since = tokio::time::Instant::now();
        while !done() {
            assert!(since.elapsed() < Duration::from_secs(60), "never: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Blocks a thread until the sender is dropped.
    async fn block(thread: &Thread) -> mpsc::Sender<()> {
        let (go, let_go) = mpsc::channel::<()>();
        let (entered, has_entered) = tokio::sync::oneshot::channel();
        thread.arbiter().spawn(async move {
            entered.send(()).unwrap();
            assert!(let_go.recv().is_err());
        });
        has_entered.await.unwrap();
        go
    }

    #[actix::test]
    async fn a_thread_beats_until_it_is_blocked() {
        let threads = Threads::start(1);
        let thread = threads.pool(0);
        until("beats", || thread.pulse().sign().beats > 2).await;
        let go = block(&thread).await;
        let blocked_at = thread.pulse().sign();
        tokio::time::sleep(BEAT * 5).await;
        assert_eq!(thread.pulse().sign(), blocked_at);
        drop(go);
        until("beats on", || thread.pulse().sign() != blocked_at).await;
        threads.stop();
    }

    #[actix::test]
    async fn a_thread_that_hangs_is_replaced_once_and_counted_until_it_comes_back() {
        let threads = Threads::start(2);
        let hung = threads.pool(1);
        let go = block(&hung).await;
        threads.replace(&hung).unwrap();
        let fresh = threads.pool(1);
        assert!(!Arc::ptr_eq(&fresh, &hung) && hung.is_abandoned());
        threads.replace(&hung).unwrap();
        assert!(Arc::ptr_eq(&fresh, &threads.pool(1)), "found hung by two");
        assert_eq!(threads.stuck.count(), 1);
        until("the fresh one beats", || fresh.pulse().sign().beats > 0).await;
        drop(go);
        until("come back", || threads.stuck.count() == 0).await;
        threads.stop();
    }
}
