//! The circuit as the actors of one connector share it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Circuit, Fetch, InHand, Outage, Permit, Refusal, Refused, Vain};
use crate::outcome::Cause;
use crate::retry::RetryPolicy;
use crate::until::until;

/// A circuit, and who waits for it to change. Its lock is held for moments
/// only, also by who has the books.
#[derive(Debug)]
pub struct SharedCircuit {
    circuit: Mutex<Circuit>,
    changed: Notify,
}

impl SharedCircuit {
    pub(crate) fn new(tasks: usize, policy: RetryPolicy) -> Self {
        Self {
            circuit: Mutex::new(Circuit::new(tasks, policy)),
            changed: Notify::new(),
        }
    }

    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        self.circuit.lock().outage().cloned()
    }

    #[must_use]
    pub fn outages(&self) -> u64 {
        self.circuit.lock().outages()
    }

    /// Whether the sink takes no records.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.circuit.lock().outage().is_some()
    }

    pub(crate) fn bound(&self, fetch: Fetch, hand: InHand) -> Option<usize> {
        self.circuit.lock().bound(fetch, hand, Instant::now())
    }

    /// Whether all tasks may put.
    pub(crate) fn is_closed(&self) -> bool {
        self.circuit.lock().is_closed()
    }

    pub(crate) fn next_probe(&self) -> Option<Instant> {
        self.circuit.lock().next_probe()
    }

    pub(crate) fn permit(
        &self,
        now: Instant,
        is_open: impl FnOnce(u32) -> bool,
        others: impl FnOnce() -> usize,
    ) -> Option<Permit> {
        self.circuit.lock().permit(now, is_open, others)
    }

    pub(crate) fn probe(&self, lease: u32) {
        self.circuit.lock().probe(lease);
    }

    pub(crate) fn admits(&self, lease: u32) -> bool {
        self.circuit.lock().admits(lease)
    }

    pub(crate) fn refused(&self, connector: &str, refusal: &Refusal<'_>) -> Refused {
        let (now, jitter) = (Instant::now(), fastrand::f64());
        let refused = self.circuit.lock().refused(refusal, now, jitter);
        self.changed.notify_waiters();
        if refused.has_opened {
            log_begin(connector, Some(refusal.task), refusal.cause);
        }
        refused
    }

    pub(crate) fn in_vain(&self, vain: Vain, cause: &Cause) -> Option<Cause> {
        let (now, jitter) = (Instant::now(), fastrand::f64());
        let news = self.circuit.lock().in_vain(vain, cause, now, jitter);
        self.changed.notify_waiters();
        news
    }

    pub(crate) fn failed(&self, leases: &[u32], cause: &Cause) {
        let (now, jitter) = (Instant::now(), fastrand::f64());
        self.circuit.lock().failed(leases, cause, now, jitter);
        self.changed.notify_waiters();
    }

    pub(crate) fn answered(&self, connector: &str, task: u32) {
        let outage = {
            let mut circuit = self.circuit.lock();
            let is_closed = circuit.is_closed();
            let outage = circuit.answered(task, Instant::now());
            if is_closed {
                return;
            }
            outage
        };
        self.changed.notify_waiters();
        if let Some(lasted) = outage {
            log_end(connector, Some(task), lasted);
        }
    }

    pub(crate) fn not_in_vain(&self) -> Option<Duration> {
        let outage = self.circuit.lock().not_in_vain(Instant::now())?;
        self.changed.notify_waiters();
        Some(outage)
    }

    pub(crate) fn undecided(&self, leases: &[u32]) {
        let (now, jitter) = (Instant::now(), fastrand::f64());
        self.circuit.lock().undecided(leases, now, jitter);
        self.changed.notify_waiters();
    }

    /// Told to all who wait: something may have become possible.
    pub(crate) const fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Waits until tasks may put.
    pub(crate) async fn closed(&self) {
        until(&self.changed, || !self.is_open()).await;
    }
}

/// The task is the one that tells, if it is one.
pub(crate) fn log_begin(connector: &str, task: Option<u32>, cause: &Cause) {
    tracing::warn!(connector, task, error = %cause, "sink unavailable, backing off");
}

pub(crate) fn log_end(connector: &str, task: Option<u32>, lasted: Duration) {
    let outage_ms = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(connector, task, outage_ms, "the sink takes records again");
}
