//! Spawns a connector's pipeline, watches it, replaces what dies and drains it.
//!
//! A delivery actor that dies is replaced alone. The death of poller,
//! converter or acknowledger makes a new generation: all actors are started
//! anew, the books, the source and its sessions live on. Who hangs is as good
//! as dead, and its thread is left alone.

mod drain;
mod generation;
mod health;
mod quiesce;
mod replacement;
mod restart;
mod stand_in;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, AsyncContext, Context, Handler};
use tokio::time::Instant;

use crate::books::{Books, Effects, Policy, SharedBooks};
use crate::conversion::Conversion;
use crate::credit::Credit;
use crate::delivery::DeliverySettings;
use crate::error_log::ErrorLog;
use crate::flush::FlushPolicy;
use crate::inbox::Inbox;
use crate::live_view::{ConnectorState, LiveView};
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{
    Drain, Quiesce, RecordFailed, RestartTask, SourceNews, SourceState, TaskEnd, TaskGone,
};
use crate::outcome::Cause;
use crate::outlet::Outlet;
use crate::ports::dead_letter::DeadLetterQueue;
use crate::ports::parking::ParkingLot;
use crate::ports::sink::SinkFactory;
use crate::ports::source::{Source, SourceEvents};
use crate::ports::tracer::Tracer;
use crate::record::RecordId;
use crate::retry::RetryPolicy;
use crate::stuck_threads::StuckThreads;
use crate::terms::Terms;
use crate::threads::Threads;
use crate::trace_context::{TraceContext, log_ids};
use drain::Draining;
use generation::Generation;
use stand_in::InboxWatch;

/// How often it is looked whether all actors live and move on.
const HEALTH_TICK: Duration = Duration::from_millis(100);

/// What one connector's pipeline is made of.
#[derive(Clone)]
pub struct PipelineSpec {
    pub connector: String,
    pub worker: String,
    pub policy: Policy,
    pub conversion: Conversion,
    pub sink: Arc<dyn SinkFactory>,
    /// `share.delivery.timeout.ms`.
    pub delivery_timeout: Duration,
    /// When a sink that buffers is flushed.
    pub flush: FlushPolicy,
    /// `share.acknowledge.after=put`: a sink that buffers is taken at its word
    /// before the flush, and what it loses then is lost.
    pub accepts_after_put: bool,
    pub error_log: ErrorLog,
    /// Where records go that are put aside; `None`: the broker is told.
    pub dead_letters: Option<Arc<dyn DeadLetterQueue>>,
    /// Where records go that keep failing, if the policy parks any.
    pub parking: Option<Parking>,
    /// Where the lives of records are told; `None`: none is traced.
    pub tracer: Option<Arc<dyn Tracer>>,
}

/// The parking topic of a connector. Its records come by the connector's
/// source, as [`RawRecord::parked`](crate::record::RawRecord::parked) ones.
#[derive(Clone)]
pub struct Parking {
    pub topic: Arc<str>,
    pub lot: Arc<dyn ParkingLot>,
    /// What the source keeps to when it fetches parked records.
    pub credit: Arc<Credit>,
}

impl PipelineSpec {
    fn accepts_after_flush(&self) -> bool {
        self.sink.traits().buffers && !self.accepts_after_put
    }
}

/// A running connector.
#[derive(Clone)]
pub struct Pipeline {
    supervisor: Mailbox<Supervisor>,
    outlet: Outlet,
}

impl Pipeline {
    /// Starts the actors on `threads`; records flow as soon as a sink is open.
    pub fn start(
        spec: PipelineSpec,
        source: Arc<dyn Source>,
        events: SourceEvents,
        credit: Arc<Credit>,
        threads: Threads,
        view: Arc<LiveView>,
    ) -> Self {
        let books = match spec.dead_letters {
            Some(_) => SharedBooks::with_dead_letters(spec.policy, Arc::clone(&credit)),
            None => SharedBooks::new(spec.policy, Arc::clone(&credit)),
        };
        if let Some(tracer) = &spec.tracer {
            books.lock().trace_by(Arc::clone(tracer));
        }
        if let Some(parking) = &spec.parking {
            books.lock().park_in(Arc::clone(&parking.topic));
        }
        let supervision = threads.supervision().clone();
        let connector: Arc<str> = spec.connector.as_str().into();
        let outlet = Outlet {
            connector: Arc::clone(&connector),
            books: Arc::clone(&books),
            source,
            error_log: spec.error_log,
            tracer: spec.tracer.clone(),
        };
        let own = outlet.clone();
        let addr = Supervisor::start_in_arbiter(&supervision, move |_| Supervisor {
            connector,
            delivery: DeliverySettings {
                sink: Arc::clone(&spec.sink),
                delivery_timeout: spec.delivery_timeout,
                flush: spec.flush,
                backoff: RetryPolicy {
                    timeout: None,
                    ..spec.policy.retry
                },
                stuck_threads: StuckThreads::new(),
            },
            spec,
            inbox: Inbox::new(events, outlet.clone()),
            inbox_watch: InboxWatch::from(Instant::now()),
            outlet,
            credit,
            books,
            threads,
            view,
            generation: None,
            number: 0,
            last_state: 0,
            generation_deaths: 0,
            out_of_tasks: false,
            task_deaths: 0,
            last_task_death: None,
            is_pausing: false,
            drain: None,
        });
        Self {
            supervisor: Mailbox::new(addr, 16),
            outlet: own,
        }
    }

    /// Takes what the group's settings allow from now on; records that are open
    /// included.
    pub fn set_terms(&self, terms: Terms) {
        self.outlet.enter(|books| books.set_terms(terms));
    }

    /// Stops polling, finishes what is open, closes sinks and source; see
    /// `docs/architecture.md` for the numbered list. Takes at most `deadline`.
    pub async fn drain(&self, deadline: Duration) -> crate::messages::Drained {
        let (reply, drained) = tokio::sync::oneshot::channel();
        let _ = self.supervisor.send(Drain { deadline, reply }).await;
        drained.await.unwrap_or_default()
    }

    /// To be called before a drain that can be done without: stops polling, and
    /// waits until what was asked for has come. A record on its last delivery
    /// attempt would be archived if the drain ran out; if there is one, polling
    /// goes on, and they are returned.
    pub async fn quiesce(&self, patience: Duration) -> Vec<RecordId> {
        let (reply, on_last_attempt) = tokio::sync::oneshot::channel();
        let _ = self.supervisor.send(Quiesce { patience, reply }).await;
        on_last_attempt.await.unwrap_or_default()
    }

    /// Closes a task's sink and opens another, also if the task has failed.
    /// Its records stay locked, and none is lost.
    pub async fn restart_task(&self, task: u32) {
        let _ = self.supervisor.send(RestartTask(task)).await;
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Pipeline");
        shown
            .field("supervisor", &self.supervisor)
            .finish_non_exhaustive()
    }
}

/// See the module.
pub struct Supervisor {
    connector: Arc<str>,
    spec: PipelineSpec,
    delivery: DeliverySettings,
    outlet: Outlet,
    inbox: Arc<Inbox>,
    inbox_watch: InboxWatch,
    credit: Arc<Credit>,
    books: Arc<SharedBooks>,
    threads: Threads,
    view: Arc<LiveView>,
    generation: Option<Generation>,
    number: u32,
    /// The newest state of the source that was heard of.
    last_state: u64,
    /// Generations that died one soon after the other.
    generation_deaths: u32,
    /// The connector has failed since all its tasks have.
    out_of_tasks: bool,
    /// Deaths of tasks that came soon after one another.
    task_deaths: u32,
    last_task_death: Option<Instant>,
    /// The next generation is to be started after a pause.
    is_pausing: bool,
    drain: Option<Draining>,
}

impl Supervisor {
    fn start_generation(&mut self, ctx: &mut Context<Self>) {
        self.number += 1;
        self.is_pausing = false;
        self.out_of_tasks = false;
        let myself = Mailbox::new(ctx.address(), 16);
        self.generation = Some(Generation::start(self, myself));
        let number = self.number;
        self.view
            .update(&self.connector, |view| view.generation = number);
    }

    fn enter(&mut self, change: impl FnOnce(&mut Books) -> Effects) {
        if let Some(failed) = self.outlet.enter(change) {
            self.fail_over(&failed);
        }
    }

    fn hear(&mut self, news: SourceNews) {
        match news {
            SourceNews::Failed(failed) => self.fail_over(&failed),
            // It does not pass.
            SourceNews::State(_, SourceState::Failed(cause)) => self.fail(&cause),
            // An older one comes late from a poller that was stood in for.
            SourceNews::State(number, state) if number > self.last_state => {
                self.last_state = number;
                self.show_source(state);
            }
            SourceNews::State(..) => {}
        }
    }

    fn show_source(&self, state: SourceState) {
        self.view.update(&self.connector, |view| {
            if let SourceState::Troubled(cause) = state {
                view.trouble = Some(cause);
                return;
            }
            view.trouble = None;
            view.is_restarting = false;
            if view.state == ConnectorState::Starting {
                view.state = ConnectorState::Running;
            }
        });
    }

    fn fail_over(&mut self, failed: &RecordFailed) {
        let RecordFailed {
            record,
            rejection,
            trace,
        } = failed;
        self.fail_by(&format!("record {record}: {rejection}").into(), *trace);
    }

    fn fetch_no_more(&self) {
        self.books.stop_polling();
        self.close_windows();
    }

    fn close_windows(&self) {
        for credit in self.credits() {
            credit.set_window_records(0);
        }
    }

    /// Of the connector's topics, and of the parking topic.
    fn credits(&self) -> Vec<Arc<Credit>> {
        let parked = self.spec.parking.iter().map(|it| &it.credit);
        std::iter::once(&self.credit)
            .chain(parked)
            .cloned()
            .collect()
    }

    /// Fetches no more; what is open is finished, what failed stays locked.
    fn fail(&mut self, cause: &Cause) {
        self.fail_by(cause, None);
    }

    /// By a record that may be traced.
    fn fail_by(&self, cause: &Cause, trace: Option<TraceContext>) {
        self.fetch_no_more();
        let mut is_news = false;
        self.view.update(&self.connector, |view| {
            is_news = !matches!(view.state, ConnectorState::Failed(_));
            if is_news {
                view.state = ConnectorState::Failed(cause.clone());
            }
            view.is_restarting = false;
        });
        if is_news {
            // Not while the view is locked: who looks at it must not wait for
            // who reads the log.
            let (trace_id, span_id) = log_ids(trace);
            tracing::error!(
                connector = %self.connector, error = %cause, trace_id, span_id, "connector failed"
            );
        }
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.start_generation(ctx);
        ctx.run_interval(HEALTH_TICK, |supervisor, ctx| {
            supervisor.stand_in();
            if !supervisor.is_closing() {
                supervisor.check_health(ctx);
                supervisor.view.note_come_up(&supervisor.connector);
            }
        });
    }
}

impl Handler<Letter<TaskGone>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<TaskGone>, ctx: &mut Self::Context) {
        let gone = letter.message;
        if self.is_closing() {
            return;
        }
        let Some(generation) = &mut self.generation else {
            return;
        };
        if !generation.is_current(&gone) {
            return;
        }
        let has_failed = matches!(gone.end, TaskEnd::Failed(_));
        generation.forget_task(gone.task, has_failed);
        let has_tasks = generation.has_tasks();
        match gone.end {
            TaskEnd::Died(_) => self.replace_task(gone.task, gone.incarnation + 1, ctx),
            TaskEnd::Failed(cause) if !has_tasks => {
                self.out_of_tasks = self.books.is_polling();
                self.fail(&format!("all tasks have failed, the last one: {cause}").into());
            }
            TaskEnd::Failed(_) => {}
        }
    }
}

impl Handler<Letter<RecordFailed>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<RecordFailed>, _ctx: &mut Self::Context) {
        self.fail_over(&letter.message);
    }
}

impl Handler<Letter<SourceNews>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<SourceNews>, _ctx: &mut Self::Context) {
        self.hear(letter.message);
    }
}

impl Handler<Letter<Drain>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<Drain>, ctx: &mut Self::Context) {
        if self.drain.is_none() {
            self.drain(letter.message, ctx);
        }
    }
}
