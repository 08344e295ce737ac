//! The one way to send to an actor: bounded, waiting, counted.
//!
//! actix's own `do_send` ignores a mailbox's bound and every clone of an
//! address adds a slot, so the bound is kept here: a message travels with a
//! slot of the mailbox and gives it back when it has been handled.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::hang::WorkSign;

/// A message with the slot that it takes up.
pub struct Letter<M> {
    pub message: M,
    _slot: Option<OwnedSemaphorePermit>,
    _until_taken: UntilTaken,
}

impl<M> Message for Letter<M> {
    type Result = ();
}

/// The actor is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the actor is gone")]
pub struct Gone;

/// Where to send to one actor. Clones share the bound.
pub struct Mailbox<A: Actor> {
    addr: Addr<A>,
    slots: Arc<Semaphore>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    waits: AtomicU64,
    sent: AtomicU64,
    taken: AtomicU64,
}

/// Dropped with its letter, which was handled then, or never will be.
struct UntilTaken(Arc<Counts>);

impl Drop for UntilTaken {
    fn drop(&mut self) {
        self.0.taken.fetch_add(1, Ordering::AcqRel);
    }
}

impl<A: Actor> Clone for Mailbox<A> {
    fn clone(&self) -> Self {
        Self {
            addr: self.addr.clone(),
            slots: Arc::clone(&self.slots),
            counts: Arc::clone(&self.counts),
        }
    }
}

impl<A: Actor> fmt::Debug for Mailbox<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("free", &self.slots.available_permits())
            .finish_non_exhaustive()
    }
}

impl<A: Actor> Mailbox<A> {
    #[must_use]
    pub fn new(addr: Addr<A>, capacity: usize) -> Self {
        Self {
            addr,
            slots: Arc::new(Semaphore::new(capacity)),
            counts: Arc::default(),
        }
    }

    /// Sends, and waits while the mailbox is full.
    pub async fn send<M>(&self, message: M) -> Result<(), Gone>
    where
        M: Send + 'static,
        A: Handler<Letter<M>>,
        A::Context: ToEnvelope<A, Letter<M>>,
    {
        let slot = match Arc::clone(&self.slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                self.counts.waits.fetch_add(1, Ordering::Relaxed);
                Arc::clone(&self.slots)
                    .acquire_owned()
                    .await
                    .map_err(|_| Gone)?
            }
        };
        self.deliver(message, Some(slot))
    }

    /// Sends a message that is bounded by its kind (one a task, one a tick)
    /// and therefore needs no slot.
    pub fn signal<M>(&self, message: M) -> Result<(), Gone>
    where
        M: Send + 'static,
        A: Handler<Letter<M>>,
        A::Context: ToEnvelope<A, Letter<M>>,
    {
        self.deliver(message, None)
    }

    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.addr.connected()
    }

    /// How often a sender had to wait, since the mailbox was full.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.counts.waits.load(Ordering::Relaxed)
    }

    /// What lies in it, and what was taken from it.
    #[must_use]
    pub(crate) fn work(&self) -> WorkSign {
        // In this order, or one that is sent and taken in between would be missing.
        let taken = self.counts.taken.load(Ordering::Acquire);
        let sent = self.counts.sent.load(Ordering::Acquire);
        WorkSign {
            waiting: sent.saturating_sub(taken) as usize,
            taken,
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the bound is kept by the slot that the letter carries"
    )]
    fn deliver<M>(&self, message: M, slot: Option<OwnedSemaphorePermit>) -> Result<(), Gone>
    where
        M: Send + 'static,
        A: Handler<Letter<M>>,
        A::Context: ToEnvelope<A, Letter<M>>,
    {
        if !self.addr.connected() {
            return Err(Gone);
        }
        self.counts.sent.fetch_add(1, Ordering::AcqRel);
        self.addr.do_send(Letter {
            message,
            _slot: slot,
            _until_taken: UntilTaken(Arc::clone(&self.counts)),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use actix::{ActorContext, AsyncContext, Context};
    use std::time::Duration;

    use super::*;

    struct Slow {
        seen: Arc<AtomicU64>,
    }

    impl Actor for Slow {
        type Context = Context<Self>;
    }

    impl Handler<Letter<u64>> for Slow {
        type Result = ();

        fn handle(&mut self, letter: Letter<u64>, ctx: &mut Self::Context) {
            let seen = Arc::clone(&self.seen);
            let work = async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                seen.fetch_add(letter.message, Ordering::SeqCst);
            };
            ctx.wait(actix::fut::wrap_future(work));
        }
    }

    #[actix::test]
    async fn a_full_mailbox_makes_the_sender_wait_and_counts_it() {
        tokio::time::pause();
        let seen = Arc::new(AtomicU64::new(0));
        let addr = Slow {
            seen: Arc::clone(&seen),
        }
        .start();
        let mailbox = Mailbox::new(addr, 2);
        for _ in 0..10 {
            mailbox.clone().send(1_u64).await.unwrap();
        }
        assert!(
            seen.load(Ordering::SeqCst) >= 7,
            "at most the bound is left"
        );
        assert_eq!(mailbox.waits(), 8);
        let left = mailbox.work();
        assert_eq!(left.waiting as u64 + left.taken, 10);
        assert!((1..=3).contains(&left.waiting), "{left:?}");
        while mailbox.work().waiting > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(mailbox.work().taken, 10);
    }

    struct Stop;

    impl Handler<Letter<Stop>> for Slow {
        type Result = ();

        fn handle(&mut self, _letter: Letter<Stop>, ctx: &mut Self::Context) {
            ctx.stop();
        }
    }

    #[actix::test]
    async fn an_actor_that_is_gone_is_an_error() {
        let addr = Slow {
            seen: Arc::default(),
        }
        .start();
        let mailbox = Mailbox::new(addr, 2);
        mailbox.send(Stop).await.unwrap();
        while mailbox.is_connected() {
            tokio::task::yield_now().await;
        }
        assert_eq!(mailbox.send(1_u64).await, Err(Gone));
        assert_eq!(mailbox.signal(1_u64), Err(Gone));
    }
}
