//! Writes dead letters, and records to park, many at once, each for itself: a slow or a failing one
//! holds up nobody else.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, future};
use tokio::time::Instant;

use crate::books::{Effects, Letter};
use crate::kill_switch::KillSwitch;
use crate::outcome::Cause;
use crate::outlet::Outlet;
use crate::ports::dead_letter::DeadLetterQueue;
use crate::ports::parking::ParkingLot;
use crate::sink_host::panic_message;

/// How many letters are on their way at once. A producer sends those of some
/// milliseconds together.
const AT_ONCE: usize = 100;

/// What the writer works with.
pub(crate) struct LetterWriterLinks {
    pub(crate) outlet: Outlet,
    pub(crate) boxes: LetterBoxes,
    pub(crate) kill: KillSwitch,
    /// A letter that takes longer is written again.
    pub(crate) timeout: Duration,
}

/// Where letters go; `None` for a kind of which there are none.
#[derive(Clone)]
pub(crate) struct LetterBoxes {
    pub(crate) dead: Option<Arc<dyn DeadLetterQueue>>,
    pub(crate) parked: Option<Arc<dyn ParkingLot>>,
}

impl LetterBoxes {
    pub(crate) const fn are_there(&self) -> bool {
        self.dead.is_some() || self.parked.is_some()
    }

    async fn write(&self, letter: &Letter) -> Result<(), Cause> {
        match (letter, &self.dead, &self.parked) {
            (Letter::Dead(letter), Some(queue), _) => queue.write(letter).await,
            (Letter::Parked(record), _, Some(lot)) => lot.park(record).await,
            (Letter::Dead(_) | Letter::Parked(_), ..) => Err("there is nowhere to write it".into()),
        }
    }
}

type Ended = (u64, Result<(), Cause>);

/// 1. takes letters from the books, 2. writes them, 3. enters what became of
///    each: accepted when it is there for good, tried again otherwise.
pub struct LetterWriter {
    links: Arc<LetterWriterLinks>,
}

impl LetterWriter {
    pub(crate) fn new(links: LetterWriterLinks) -> Self {
        Self {
            links: Arc::new(links),
        }
    }
}

impl Actor for LetterWriter {
    type Context = Context<Self>;

    /// Letters come by the books, not by the mailbox: this actor's death
    /// takes none along.
    fn started(&mut self, ctx: &mut Self::Context) {
        let writing = write_all(Arc::clone(&self.links));
        ctx.spawn(writing.into_actor(self).map(|(), _, ctx| ctx.stop()));
    }
}

/// Until the kill.
async fn write_all(links: Arc<LetterWriterLinks>) {
    let books = Arc::clone(&links.outlet.books);
    let mut writing = FuturesUnordered::new();
    while !links.kill.is_dead() {
        let news = books.letters.notified();
        tokio::pin!(news);
        // Registered before the look, so that no word falls in between.
        news.as_mut().enable();
        let due = links.take(&mut writing);
        tokio::select! {
            Some(ended) = writing.next(), if !writing.is_empty() => {
                links.enter(ended, &mut writing);
            }
            () = news => {}
            () = sleep_until_due(due) => {}
            () = links.kill.dead() => {}
        }
    }
}

async fn sleep_until_due(due: Option<Instant>) {
    match due {
        Some(at) => tokio::time::sleep_until(at).await,
        None => future::pending().await,
    }
}

impl LetterWriterLinks {
    /// Begins with as many letters as there may be on their way. Returns when
    /// it can go on with one that failed.
    fn take(
        self: &Arc<Self>,
        writing: &mut FuturesUnordered<BoxFuture<'static, Ended>>,
    ) -> Option<Instant> {
        let now = Instant::now();
        let mut books = self.outlet.books.lock();
        // Under the lock: a dead generation must take nothing of the living.
        if self.kill.is_dead() {
            return None;
        }
        while writing.len() < AT_ONCE {
            let Some((ticket, letter)) = books.next_letter(now) else {
                return books.letters().next_due();
            };
            let links = Arc::clone(self);
            let written = async move { (ticket, links.write(&letter).await) };
            writing.push(written.boxed());
        }
        None
    }

    async fn write(&self, letter: &Letter) -> Result<(), Cause> {
        let written = std::panic::AssertUnwindSafe(self.boxes.write(letter)).catch_unwind();
        match tokio::time::timeout(self.timeout, written).await {
            Ok(Ok(written)) => written,
            Ok(Err(panic)) => Err(panic_message(&*panic)),
            Err(_) => {
                Err(format!("putting a record aside took longer than {:?}", self.timeout).into())
            }
        }
    }

    /// Enters what has ended, all of it at once.
    fn enter(&self, first: Ended, writing: &mut FuturesUnordered<BoxFuture<'static, Ended>>) {
        let mut ended = vec![first];
        while let Some(Some(one)) = writing.next().now_or_never() {
            ended.push(one);
        }
        self.outlet.enter(|books| {
            // Under the lock: the letters are the next generation's by then.
            if self.kill.is_dead() {
                return Effects::default();
            }
            books.letters_ended(ended, Instant::now())
        });
    }
}
