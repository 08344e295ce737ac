//! Takes what the source has to tell, and sets how much it may fetch.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, StreamHandler};
use futures::stream::poll_fn;
use tokio::time::Instant;

use crate::books::SharedBooks;
use crate::circuit::{Fetch, InHand};
use crate::credit::Credit;
use crate::inbox::Inbox;
use crate::kill_switch::KillSwitch;
use crate::live_view::LiveView;
use crate::mailbox::Mailbox;
use crate::messages::SourceNews;
use crate::parking::{Reader, Returns, Seen};
use crate::supervisor::Supervisor;
use crate::window::{Observation, Window};

/// How often the window is looked at.
const WINDOW_TICK: Duration = Duration::from_millis(10);

/// Who the poller talks to and what it shares.
pub(crate) struct PollerLinks {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) credit: Arc<Credit>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) supervisor: Mailbox<Supervisor>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) kill: KillSwitch,
    /// The credit of the parking topic, if there is one.
    pub(crate) parked: Option<Arc<Credit>>,
}

/// One look at the books.
struct Look {
    /// Of the connector's own topics.
    seen: Observation,
    finished: u64,
    partitions: usize,
    /// How far the open records of one partition may reach.
    span: usize,
    open_parked: usize,
    /// Of whatever topic.
    untried: usize,
    returns: Returns,
    is_pinned: bool,
    is_clogged: bool,
}

/// 1. enters acquired records, answers and lost locks in the books, in the
///    order in which they came, 2. leaves records to the converter, 3. keeps
///    the window right.
pub struct Poller {
    links: PollerLinks,
    window: Window,
    looked_at: Instant,
    finished: u64,
    /// Of the parking topic.
    reader: Option<Reader>,
}

impl Poller {
    pub(crate) fn new(links: PollerLinks, window: Window) -> Self {
        let now = Instant::now();
        let (finished, parking) = {
            let books = links.books.lock();
            (books.finished(), books.parking())
        };
        Self {
            links,
            window,
            looked_at: now,
            finished,
            reader: parking.map(|policy| Reader::new(policy.backoff, now)),
        }
    }

    /// What the books show now.
    fn look(&self, now: Instant) -> Look {
        let books = self.links.books.lock();
        let (ledger, queued) = (books.ledger(), books.queue().ready());
        let open_parked = books.open_parked();
        let span = books.terms().span;
        Look {
            seen: Observation {
                elapsed: now - self.looked_at,
                finished: books.finished() - self.finished,
                queued,
                in_vain: books.is_in_vain(),
                open: ledger.open().saturating_sub(open_parked),
                starved: self.links.books.idle_tasks() > 0 && queued == 0,
                short_puts: books.short_puts(),
            },
            finished: books.finished(),
            partitions: ledger.partitions(),
            span,
            open_parked,
            untried: books.queue().fresh(),
            returns: books.returns(),
            is_pinned: ledger.waits_for_flush(span as u64),
            is_clogged: books.is_clogged(),
        }
    }

    fn adapt(&mut self) {
        if self.links.kill.is_dead() {
            return;
        }
        let now = Instant::now();
        let look = self.look(now);
        let (seen, is_clogged) = (look.seen, look.is_clogged);
        self.looked_at = now;
        self.finished = look.finished;
        self.window.bound(look.span, look.partitions);
        let records = self.window.observe(seen);
        let (books, kill) = (Arc::clone(&self.links.books), self.links.kill.clone());
        let closed = || is_clogged || !books.is_polling() || kill.is_dead();
        let untried = look.untried;
        let bound = |fetch, open| books.circuit().bound(fetch, InHand { open, untried });
        let of_topics = bound(Fetch::OfTopics, seen.open);
        let records = of_topics.map_or(records, |bound| self.window.at_least(bound).min(bound));
        let records = if closed() { 0 } else { records };
        if look.is_pinned || self.is_exhausted(&seen, records) {
            books.flush_call.call();
        }
        self.links.credit.set_window_records(records);
        if records > 0 && closed() {
            // The supervisor, on its own thread, has closed it in between.
            self.links.credit.set_window_records(0);
        }
        let parked = bound(Fetch::OfParked, look.open_parked);
        self.read_parked(now, &look, parked, closed);
        self.links
            .view
            .update_by(&self.links.kill, &self.links.connector, |view| {
                view.window = records;
            });
    }

    /// Opens the window of the parking topic when it is to be read.
    fn read_parked(
        &mut self,
        now: Instant,
        look: &Look,
        bound: Option<usize>,
        is_closed: impl Fn() -> bool,
    ) {
        let (Some(reader), Some(credit)) = (&mut self.reader, &self.links.parked) else {
            return;
        };
        let most = bound.unwrap_or(usize::MAX);
        let is_wanted = !is_closed() && look.open_parked < most;
        let window = reader.window(&Seen {
            now,
            returns: look.returns,
            open: look.open_parked,
            is_wanted,
            is_up: self.links.view.is_up(&self.links.connector),
        });
        credit.set_window_records(window.min(most));
        if window > 0 && is_closed() {
            credit.set_window_records(0);
        }
    }

    /// Whether tasks wait in vain until others let go of what they have: the
    /// source may give no more.
    fn is_exhausted(&self, seen: &Observation, window: usize) -> bool {
        seen.starved && (seen.open >= window || self.links.credit.free_bytes() == 0)
    }
}

impl Actor for Poller {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let (inbox, kill) = (Arc::clone(&self.links.inbox), self.links.kill.clone());
        ctx.add_stream(poll_fn(move |waker| inbox.poll_enter(&kill, waker)));
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

impl StreamHandler<Option<SourceNews>> for Poller {
    fn handle(&mut self, news: Option<SourceNews>, _ctx: &mut Self::Context) {
        if let Some(news) = news {
            let _ = self.links.supervisor.signal(news);
        }
    }

    fn finished(&mut self, _ctx: &mut Self::Context) {
        // The source is closed, or this generation is dead; in the end the
        // kill switch stops this actor.
    }
}
