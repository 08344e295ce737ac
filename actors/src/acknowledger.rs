//! Turns outcomes into settlements, and looks after the locks.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use ahash::AHashMap;
use tokio::time::Instant;

use crate::books::{Effects, SharedBooks};
use crate::credit::Credit;
use crate::kill_switch::KillSwitch;
use crate::ledger::Entry;
use crate::live_view::LiveView;
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{CarryOut, EndedPut, FlushedPuts, ReportedOutcomes, SortedOut, TaskGone};
use crate::outlet::Outlet;
use crate::supervisor::Supervisor;

/// How often locks are looked at.
const LOCK_TICK: Duration = Duration::from_millis(50);
/// How old the live view may be: whoever reads a time from it goes wrong by
/// that much.
const SHOW_TICK: Duration = Duration::from_millis(10);

/// Who the acknowledger talks to and what it shares.
pub(crate) struct AcknowledgerLinks {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) credit: Arc<Credit>,
    pub(crate) outlet: Outlet,
    pub(crate) supervisor: Mailbox<Supervisor>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) kill: KillSwitch,
    /// Whether the sink's answer to a put only means that it buffered.
    pub(crate) buffers: bool,
}

/// 1. enters outcomes in the books, 2. tells the source, 3. renews locks ahead
///    of their end, 4. shows it all in the live view.
pub struct Acknowledger {
    links: AcknowledgerLinks,
    gone: Gone,
}

/// The newest incarnation of each task that is known to be gone.
#[derive(Debug, Default)]
struct Gone(AHashMap<u32, u32>);

impl Gone {
    /// Whether that is news. A task tells its end, and the supervisor may find
    /// it dead as well: by the second word the next incarnation may be at work.
    fn is_news(&mut self, gone: &TaskGone) -> bool {
        let known = self.0.insert(gone.task, gone.incarnation);
        known.is_none_or(|known| known < gone.incarnation)
    }
}

impl Acknowledger {
    pub(crate) fn new(links: AcknowledgerLinks) -> Self {
        Self {
            links,
            gone: Gone::default(),
        }
    }

    fn carry_out(&self, effects: Effects) {
        if let Some(failed) = self.links.outlet.carry_out(effects) {
            let _ = self.links.supervisor.signal(failed);
        }
    }

    fn show(&self) {
        let books = self.links.books.lock();
        let (ledger, queue) = (books.ledger(), books.queue());
        self.links.view.update(&self.links.connector, |view| {
            view.totals = ledger.totals();
            view.delivered = books.delivered();
            view.retries = books.retries();
            view.in_flight = ledger.open();
            view.held = ledger.held();
            view.queued = queue.ready();
            view.waiting = queue.waiting();
            view.held_bytes = self.links.credit.held_bytes();
            view.pin = ledger.pins().into_iter().next();
        });
    }
}

impl Actor for Acknowledger {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(LOCK_TICK, |acknowledger, ctx| {
            if acknowledger.links.kill.is_dead() {
                ctx.stop();
                return;
            }
            let effects = acknowledger.links.books.lock().watch_locks(Instant::now());
            acknowledger.carry_out(effects);
        });
        ctx.run_interval(SHOW_TICK, |acknowledger, _ctx| acknowledger.show());
    }
}

impl Handler<Letter<ReportedOutcomes>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<ReportedOutcomes>, _ctx: &mut Self::Context) {
        let ReportedOutcomes { lease } = letter.message;
        let effects = self.links.books.lock().reported(lease, Instant::now());
        self.carry_out(effects);
    }
}

impl Handler<Letter<EndedPut>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<EndedPut>, _ctx: &mut Self::Context) {
        let EndedPut { lease, end } = letter.message;
        let (buffers, now) = (self.links.buffers, Instant::now());
        let effects = self.links.books.lock().put_ended(lease, end, buffers, now);
        self.carry_out(effects);
    }
}

impl Handler<Letter<FlushedPuts>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<FlushedPuts>, _ctx: &mut Self::Context) {
        let FlushedPuts { leases, result } = letter.message;
        let now = Instant::now();
        let effects = self.links.books.lock().flushed(&leases, &result, now);
        self.carry_out(effects);
    }
}

impl Handler<Letter<TaskGone>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<TaskGone>, _ctx: &mut Self::Context) {
        let gone = letter.message;
        if !self.gone.is_news(&gone) {
            return;
        }
        // The put's end, if it had one, came before this and was entered first.
        let mut books = self.links.books.lock();
        let effects = books.task_gone(Some(gone.task), Instant::now());
        drop(books);
        self.carry_out(effects);
        let _ = self.links.supervisor.signal(gone);
    }
}

impl Handler<Letter<SortedOut>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<SortedOut>, _ctx: &mut Self::Context) {
        let sorted_out = letter.message;
        let entry = |offset: i64| Entry {
            partition: &sorted_out.partition,
            offset,
            acquisition: sorted_out.acquisition,
        };
        let mut effects = Effects::default();
        {
            let mut books = self.links.books.lock();
            let filtered = sorted_out.filtered.iter().copied().map(entry);
            books.filtered(filtered, &mut effects);
            for (offset, rejection) in &sorted_out.rejected {
                books.unconverted(entry(*offset), rejection, &mut effects);
            }
        }
        self.carry_out(effects);
    }
}

impl Handler<Letter<CarryOut>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<CarryOut>, _ctx: &mut Self::Context) {
        self.carry_out(letter.message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::TaskEnd;

    #[test]
    fn a_death_that_is_told_twice_is_news_once() {
        let gone = |task, incarnation| TaskGone {
            task,
            incarnation,
            end: TaskEnd::Died("by plan".into()),
        };
        let mut known = Gone::default();
        assert!(known.is_news(&gone(3, 1)));
        assert!(!known.is_news(&gone(3, 1)));
        assert!(known.is_news(&gone(3, 2)));
        assert!(known.is_news(&gone(4, 1)), "another task");
    }
}
