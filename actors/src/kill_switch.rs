//! Tells everything of one generation to stop, also what waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::until::until;

/// A switch that is thrown once. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    dead: AtomicBool,
    thrown: Notify,
    children: Mutex<Vec<Weak<Shared>>>,
}

impl KillSwitch {
    /// Throws it, and all that hang on it.
    pub fn throw(&self) {
        self.shared.throw();
    }

    /// A switch that is thrown alone, or with this one.
    #[must_use]
    pub fn child(&self) -> Self {
        let child = Self::default();
        let mut children = self.shared.children.lock();
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child.shared));
        drop(children);
        // Looked at after it was registered, so that no throw falls in between.
        if self.is_dead() {
            child.throw();
        }
        child
    }

    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.shared.dead.load(Ordering::Acquire)
    }

    /// Waits until it is thrown; at once when it was.
    pub async fn dead(&self) {
        until(&self.shared.thrown, || self.is_dead()).await;
    }
}

impl Shared {
    fn throw(&self) {
        self.dead.store(true, Ordering::Release);
        self.thrown.notify_waiters();
        let children = self.children.lock().clone();
        for child in children.iter().filter_map(Weak::upgrade) {
            child.throw();
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

    #[test]
    fn a_child_is_thrown_alone_or_with_its_parent() {
        let parent = KillSwitch::default();
        let (one, other) = (parent.child(), parent.child());
        one.throw();
        assert!(one.is_dead() && !other.is_dead() && !parent.is_dead());
        parent.throw();
        assert!(other.is_dead());
        assert!(parent.child().is_dead(), "born too late");
    }
}
