//! Takes what the source has to tell, and sets how much it may fetch.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, StreamHandler};
use futures::stream::poll_fn;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::acknowledger::Acknowledger;
use crate::books::{Effects, SharedBooks};
use crate::credit::Credit;
use crate::intake::RawBatch;
use crate::kill_switch::KillSwitch;
use crate::live_view::LiveView;
use crate::mailbox::Mailbox;
use crate::messages::{CarryOut, SourceState};
use crate::ports::source::{SourceEvent, SourceEvents};
use crate::progress::Mark;
use crate::record::AcquiredBatch;
use crate::supervisor::Supervisor;
use crate::window::{Observation, Window};

/// How often the window is looked at.
const WINDOW_TICK: Duration = Duration::from_millis(10);

/// The source's events, handed from one generation's poller to the next.
pub(crate) type SharedEvents = Arc<Mutex<SourceEvents>>;

/// Who the poller talks to and what it shares.
pub(crate) struct PollerLinks {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) credit: Arc<Credit>,
    pub(crate) events: SharedEvents,
    pub(crate) acknowledger: Mailbox<Acknowledger>,
    pub(crate) supervisor: Mailbox<Supervisor>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) kill: KillSwitch,
    pub(crate) mark: Mark,
    /// How far the open records of one partition may reach.
    pub(crate) span: usize,
}

/// 1. enters acquired records, answers and lost locks in the books, in the
///    order in which they came, 2. leaves records to the converter, 3. keeps
///    the window right.
pub struct Poller {
    links: PollerLinks,
    window: Window,
    looked_at: Instant,
    finished: u64,
}

impl Poller {
    pub(crate) fn new(links: PollerLinks, window: Window) -> Self {
        let finished = links.books.lock().finished();
        Self {
            links,
            window,
            looked_at: Instant::now(),
            finished,
        }
    }

    fn acquired(&mut self, batches: Vec<AcquiredBatch>, ctx: &mut Context<Self>) {
        let mut effects = Effects::default();
        for batch in batches {
            self.enter(batch, &mut effects);
        }
        self.links.books.work.notify_waiters();
        if effects.settle.is_empty() && effects.failure.is_none() {
            return;
        }
        let (acknowledger, kill) = (self.links.acknowledger.clone(), self.links.kill.clone());
        ctx.wait(actix::fut::wrap_future(async move {
            tokio::select! {
                // A mailbox that is gone shows to the supervisor, which starts anew.
                _ = acknowledger.send(CarryOut(effects)) => {}
                () = kill.dead() => {}
            }
        }));
    }

    /// Enters a batch in the books, for whichever converter is next.
    fn enter(&self, batch: AcquiredBatch, effects: &mut Effects) {
        let mut books = self.links.books.lock();
        if self.links.kill.is_dead() && batch.lock_deadline <= Instant::now() {
            // This actor hung with it in hand. The broker has given it to
            // others by now, perhaps to us under another acquisition.
            return;
        }
        let raw = RawBatch {
            acquisition: books.acquire(&batch, effects),
            partition: batch.partition,
            records: batch.records,
        };
        books.intake().push(raw, batch.held);
    }

    fn adapt(&mut self) {
        if self.links.kill.is_dead() {
            return;
        }
        let now = Instant::now();
        let (seen, finished, partitions) = {
            let books = self.links.books.lock();
            let queued = books.queue().ready();
            let seen = Observation {
                elapsed: now - self.looked_at,
                finished: books.finished() - self.finished,
                queued,
                open: books.ledger().open(),
                starved: self.links.books.idle_tasks() > 0 && queued == 0,
            };
            (seen, books.finished(), books.ledger().partitions())
        };
        self.looked_at = now;
        self.finished = finished;
        self.window.bound(self.links.span, partitions);
        let records = self.window.observe(seen);
        let closed = || !self.links.books.is_polling() || self.links.kill.is_dead();
        let records = if closed() { 0 } else { records };
        self.links.credit.set_window_records(records);
        if records > 0 && closed() {
            // The supervisor, on its own thread, has closed it in between.
            self.links.credit.set_window_records(0);
        }
        self.links
            .view
            .update(&self.links.connector, |view| view.window = records);
    }
}

/// The source's next event; none after the kill. What comes then is for the
/// next generation, since nobody of this one would hand it on.
fn next_event(
    events: &SharedEvents,
    kill: &KillSwitch,
    waker: &mut std::task::Context<'_>,
) -> Poll<Option<SourceEvent>> {
    if kill.is_dead() {
        return Poll::Ready(None);
    }
    events.lock().poll_recv(waker)
}

impl Actor for Poller {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (events, kill) = (Arc::clone(&self.links.events), self.links.kill.clone());
        ctx.add_stream(poll_fn(move |waker| next_event(&events, &kill, waker)));
        self.adapt();
        ctx.run_interval(WINDOW_TICK, |poller, ctx| {
            if poller.links.kill.is_dead() {
                ctx.stop();
            } else {
                poller.adapt();
            }
        });
    }
}

impl StreamHandler<SourceEvent> for Poller {
    fn handle(&mut self, event: SourceEvent, ctx: &mut Self::Context) {
        self.links.mark.took();
        let state = match event {
            SourceEvent::Acquired(batches) => return self.acquired(batches, ctx),
            // Entered here and now: what is acquired next must find them.
            SourceEvent::Answered(answers) => {
                return self.links.books.lock().answered(&answers, Instant::now());
            }
            SourceEvent::Lost(lost) => {
                return self.links.books.lock().lost(&lost, Instant::now());
            }
            SourceEvent::Ready => SourceState::Ready,
            SourceEvent::Troubled { cause } => SourceState::Troubled(cause),
            SourceEvent::Failed { cause } => SourceState::Failed(cause),
        };
        let _ = self.links.supervisor.signal(state);
    }

    fn finished(&mut self, _ctx: &mut Self::Context) {
        // The source is closed, or this generation is dead; in the end the
        // kill switch stops this actor.
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_dead_generation_leaves_events_to_the_next_one() {
        let (sender, receiver) = mpsc::channel(2);
        let events: SharedEvents = Arc::new(Mutex::new(receiver));
        let (old, new) = (KillSwitch::default(), KillSwitch::default());
        sender.send(SourceEvent::Ready).await.unwrap();
        old.throw();
        assert!(
            std::future::poll_fn(|waker| next_event(&events, &old, waker))
                .await
                .is_none()
        );
        let event = std::future::poll_fn(|waker| next_event(&events, &new, waker)).await;
        assert!(matches!(event, Some(SourceEvent::Ready)));
    }
}
