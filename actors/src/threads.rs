//! The threads that actors live on.
//!
//! Arbiters are single-threaded: poller and acknowledger share one, so that no
//! decoding and no sink holds them up; converter and deliveries share a pool.

use actix::{Arbiter, ArbiterHandle};

/// Where a pipeline's actors are started. Clones are the same threads.
#[derive(Clone, Debug)]
pub struct Threads {
    control: ArbiterHandle,
    pool: Vec<ArbiterHandle>,
}

impl Threads {
    /// Threads of their own; needs a running actix `System`.
    #[must_use]
    pub fn start(pool: usize) -> Self {
        Self {
            control: Arbiter::new().handle(),
            pool: (0..pool.max(1)).map(|_| Arbiter::new().handle()).collect(),
        }
    }

    /// Everything on the current thread, for tests that pause the clock.
    #[must_use]
    pub fn current() -> Self {
        Self {
            control: Arbiter::current(),
            pool: vec![Arbiter::current()],
        }
    }

    #[must_use]
    pub(crate) const fn control(&self) -> &ArbiterHandle {
        &self.control
    }

    /// The pool's thread for the `number`-th actor.
    #[must_use]
    pub(crate) fn pool(&self, number: usize) -> &ArbiterHandle {
        &self.pool[number % self.pool.len()]
    }

    /// Stops the threads; what runs on them is dropped.
    pub fn stop(&self) {
        for arbiter in self.pool.iter().chain(Some(&self.control)) {
            arbiter.stop();
        }
    }
}
