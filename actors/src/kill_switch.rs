//! Tells everything of one generation to stop, also what waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A switch that is thrown once. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    dead: AtomicBool,
    thrown: Notify,
}

impl KillSwitch {
    pub fn throw(&self) {
        self.shared.dead.store(true, Ordering::Release);
        self.shared.thrown.notify_waiters();
    }

    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.shared.dead.load(Ordering::Acquire)
    }

    /// Waits until it is thrown; at once when it was.
    pub async fn dead(&self) {
        let thrown = self.shared.thrown.notified();
        tokio::pin!(thrown);
        // Registered before the look, so that no throw falls in between.
        thrown.as_mut().enable();
        if !self.is_dead() {
            thrown.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wakes_what_waits_and_what_comes_later() {
        let switch = KillSwitch::default();
        let waiter = tokio::spawn({
            let switch = switch.clone();
            async move { switch.dead().await }
        });
        tokio::task::yield_now().await;
        switch.throw();
        waiter.await.unwrap();
        switch.dead().await;
        assert!(switch.is_dead());
    }
}
