//! Turns outcomes into settlements, and looks after the locks.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use ahash::AHashMap;
use tokio::time::Instant;

use crate::books::{Books, Effects};
use crate::credit::Credit;
use crate::kill_switch::KillSwitch;
use crate::live_view::LiveView;
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{EndedPut, EnteredAll, FlushedPuts, ReportedOutcomes, TaskGone};
use crate::near_limit::LimitAlarm;
use crate::outlet::Outlet;
use crate::supervisor::Supervisor;

/// How often locks are looked at.
const LOCK_TICK: Duration = Duration::from_millis(50);
/// How old the live view may be: whoever reads a time from it goes wrong by
/// that much.
const SHOW_TICK: Duration = Duration::from_millis(10);
/// The same for what takes a look at every open record.
const DEPTHS_TICK: Duration = Duration::from_millis(500);

/// Who the acknowledger talks to and what it shares.
pub(crate) struct AcknowledgerLinks {
    pub(crate) credit: Arc<Credit>,
    pub(crate) outlet: Outlet,
    pub(crate) supervisor: Mailbox<Supervisor>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) kill: KillSwitch,
    /// Whether the sink's answer to a put only means that it buffered.
    pub(crate) accepts_after_flush: bool,
}

/// 1. enters outcomes in the books, 2. tells the source, 3. renews locks ahead
///    of their end, 4. shows it all in the live view.
pub struct Acknowledger {
    links: AcknowledgerLinks,
    gone: Gone,
    alarm: LimitAlarm,
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
            alarm: LimitAlarm::default(),
        }
    }

    fn enter(&self, change: impl FnOnce(&mut Books) -> Effects) {
        if let Some(failed) = self.links.outlet.enter(change) {
            let _ = self.links.supervisor.signal(failed);
        }
    }

    fn show(&self) {
        let books = self.links.outlet.books.lock();
        let held_bytes = self.links.credit.held_bytes();
        let errors_logged = self.links.outlet.books.errors_logged();
        self.links
            .view
            .update_by(&self.links.kill, &self.links.outlet.connector, |view| {
                view.show(&books, held_bytes, errors_logged);
            });
    }

    /// Tells what the log sums up, and shows what takes a look at every open record.
    fn show_depths(&mut self) {
        self.links.outlet.log_late(false);
        let books = self.links.outlet.books.lock();
        let (attempts_left, topics) = (books.attempts_left(), books.topics());
        let near_limit = books.near_limit();
        drop(books);
        let connector = &self.links.outlet.connector;
        self.alarm
            .look(connector, near_limit.as_ref(), Instant::now());
        let near_limit = near_limit.map_or(0, |near| near.records);
        self.links
            .view
            .update_by(&self.links.kill, &self.links.outlet.connector, |view| {
                view.attempts_left = attempts_left;
                view.near_limit = near_limit;
                if !topics.is_empty() {
                    view.topics = topics;
                }
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
            acknowledger.enter(|books| books.watch_locks(Instant::now()));
        });
        ctx.run_interval(SHOW_TICK, |acknowledger, _ctx| acknowledger.show());
        ctx.run_interval(DEPTHS_TICK, |acknowledger, _ctx| acknowledger.show_depths());
    }

    fn stopped(&mut self, _ctx: &mut Self::Context) {
        self.links.outlet.log_late(true);
    }
}

impl Handler<Letter<ReportedOutcomes>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<ReportedOutcomes>, _ctx: &mut Self::Context) {
        let ReportedOutcomes { lease } = letter.message;
        self.enter(|books| books.reported(lease, Instant::now()));
    }
}

impl Handler<Letter<EndedPut>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<EndedPut>, _ctx: &mut Self::Context) {
        let EndedPut { lease, end } = letter.message;
        let (buffers, now) = (self.links.accepts_after_flush, Instant::now());
        self.enter(|books| books.put_ended(lease, end, buffers, now));
    }
}

impl Handler<Letter<FlushedPuts>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, letter: Letter<FlushedPuts>, _ctx: &mut Self::Context) {
        let FlushedPuts { leases, end } = letter.message;
        self.enter(|books| books.flushed(&leases, &end, Instant::now()));
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
        self.enter(|books| {
            // Looked at under the lock: of a dead generation all is taken back
            // already, and the task's number is another one's.
            if self.links.kill.is_dead() {
                return Effects::default();
            }
            books.task_gone(Some(gone.task), Instant::now())
        });
        let _ = self.links.supervisor.signal(gone);
    }
}

impl Handler<Letter<EnteredAll>> for Acknowledger {
    type Result = ();

    fn handle(&mut self, _letter: Letter<EnteredAll>, _ctx: &mut Self::Context) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::TaskEnd;

    #[test]
    fn a_death_that_is_told_twice_is_news_once() {
        let gone = |task, incarnation| TaskGone {
            generation: 1,
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
