//! One task: hands chunks to its own sink instance and tells what became of
//! each record.

mod opening;
mod put;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::acknowledger::Acknowledger;
use crate::books::Put;
use crate::converter::{Converter, EnlistTask};
use crate::kill_switch::KillSwitch;
use crate::live_view::{LiveView, TaskState};
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{
    CloseTask, DeliverChunk, EndedPut, FlushedPuts, TaskEnd, TaskGone, TaskReady,
};
use crate::meters::TaskMeter;
use crate::outcome::Cause;
use crate::ports::sink::{SinkError, SinkFactory, TaskContext};
use crate::progress::{Mark, NO_RECORD};
use crate::retry::RetryPolicy;
use crate::sink_host::{Called, SinkHost};
use crate::stuck_threads::StuckThreads;
use opening::open_sink;
use put::{PutTold, run_put, tell_end};

/// A buffering sink is flushed when no work has come for so long.
const IDLE_FLUSH: Duration = Duration::from_millis(5);

/// What all tasks of a connector share.
#[derive(Clone)]
pub(crate) struct DeliverySettings {
    pub(crate) sink: Arc<dyn SinkFactory>,
    /// `share.delivery.timeout.ms`.
    pub(crate) delivery_timeout: Duration,
    /// The longest that a record waits for a flush while work keeps coming.
    pub(crate) flush_interval: Duration,
    /// For opening a sink, and while it is unavailable.
    pub(crate) backoff: RetryPolicy,
    /// Threads of blocking sinks.
    pub(crate) stuck_threads: Arc<StuckThreads>,
}

/// Who a delivery actor talks to.
#[derive(Clone)]
pub(crate) struct DeliveryLinks {
    pub(crate) converter: Mailbox<Converter>,
    pub(crate) acknowledger: Mailbox<Acknowledger>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) generation: u32,
    /// This task's own; its generation's is the parent.
    pub(crate) kill: KillSwitch,
    pub(crate) meter: Arc<TaskMeter>,
    /// Shows the lease while the sink is inside a put.
    pub(crate) mark: Mark,
}

impl DeliveryLinks {
    /// Tells the acknowledger, which may hang: then nobody waits for it beyond
    /// the kill, and what was to be told is taken back with the task.
    async fn tell<M>(&self, message: M)
    where
        M: Send + 'static,
        Acknowledger: Handler<Letter<M>, Result = ()>,
    {
        tokio::select! {
            biased;
            _ = self.acknowledger.send(message) => {}
            () = self.kill.dead() => {}
        }
    }
}

/// 1. enlists with the converter, 2. opens its sink, 3. asks for work, 4. puts
///    a chunk and passes its outcomes on while it runs, 5. flushes a buffering
///    sink, 6. asks again.
pub struct Delivery {
    context: TaskContext,
    name: Arc<str>,
    incarnation: u32,
    settings: DeliverySettings,
    links: DeliveryLinks,
    /// Absent while a call to it is under way.
    host: Option<SinkHost>,
    /// The converter knows that this task waits for a chunk.
    asked: bool,
    /// A chunk that came while the sink was being flushed.
    next: Option<Put>,
    buffered: Vec<u32>,
    buffered_since: Option<Instant>,
    idle_flush: Option<SpawnHandle>,
    /// How often in a row the sink was unavailable.
    unavailable: u32,
    /// The sink is left alone for a while.
    resting: bool,
    closing: Option<oneshot::Sender<()>>,
    shown: TaskState,
}

impl Delivery {
    pub(crate) fn new(
        context: TaskContext,
        incarnation: u32,
        settings: DeliverySettings,
        links: DeliveryLinks,
    ) -> Self {
        Self {
            name: context.connector.as_str().into(),
            context,
            incarnation,
            settings,
            links,
            host: None,
            asked: false,
            next: None,
            buffered: Vec::new(),
            buffered_since: None,
            idle_flush: None,
            unavailable: 0,
            resting: false,
            closing: None,
            shown: TaskState::Opening,
        }
    }

    /// Done by the task itself: enlisted by who started it, it might ask for
    /// work before the converter knows of it, and would not be heard.
    fn enlist(&self, ctx: &mut Context<Self>) {
        let _ = self.links.converter.signal(EnlistTask {
            task: self.context.task,
            incarnation: self.incarnation,
            mailbox: Mailbox::new(ctx.address(), 1),
        });
    }

    fn show(&mut self, state: TaskState) {
        self.shown = state.clone();
        self.links
            .view
            .set_task_by(&self.links.kill, &self.name, self.context.task, state);
    }

    /// Tells that this task is gone, and stops.
    fn end(&mut self, end: TaskEnd, ctx: &mut Context<Self>) {
        match &end {
            TaskEnd::Died(cause) => tracing::warn!(
                connector = %self.name, task = self.context.task, error = %cause, "task died"
            ),
            TaskEnd::Failed(cause) => {
                tracing::error!(
                    connector = %self.name, task = self.context.task, error = %cause, "task failed"
                );
                self.show(TaskState::Failed(Arc::clone(cause)));
            }
        }
        let _ = self.links.acknowledger.signal(TaskGone {
            generation: self.links.generation,
            task: self.context.task,
            incarnation: self.incarnation,
            end,
        });
        ctx.stop();
    }

    /// Asks for a chunk, once.
    fn ask(&mut self) {
        if std::mem::replace(&mut self.asked, true) {
            return;
        }
        if self.shown != TaskState::Running {
            self.show(TaskState::Running);
        }
        let _ = self.links.converter.signal(TaskReady {
            task: self.context.task,
            incarnation: self.incarnation,
        });
    }

    fn begin(&mut self, put: Put, ctx: &mut Context<Self>) {
        let Some(mut host) = self.host.take_if(|_| !self.resting) else {
            self.next = Some(put);
            return;
        };
        self.stop_idle_flush(ctx);
        let lease = put.lease;
        let deadline = Instant::now() + self.settings.delivery_timeout;
        let links = self.links.clone();
        let running = async move {
            let end = run_put(&mut host, put, &links, deadline).await;
            let told = tell_end(&end);
            links.tell(EndedPut { lease, end }).await;
            (host, told)
        };
        ctx.spawn(
            running
                .into_actor(self)
                .map(move |(host, told), delivery, ctx| delivery.put_ended(lease, host, told, ctx)),
        );
    }

    fn put_ended(&mut self, lease: u32, host: SinkHost, told: PutTold, ctx: &mut Context<Self>) {
        match told {
            PutTold::Fine => {
                self.host = Some(host);
                if self.settings.sink.traits().buffers {
                    self.buffered.push(lease);
                    self.buffered_since.get_or_insert_with(Instant::now);
                } else {
                    self.unavailable = 0;
                }
                self.next_step(ctx);
            }
            PutTold::Failed => {
                self.host = Some(host);
                self.next_step(ctx);
            }
            PutTold::Unavailable(cause, lasts) => {
                self.host = Some(host);
                self.back_off(cause, lasts, ctx);
            }
            PutTold::Gone(end) => self.end(end, ctx),
            PutTold::Killed => ctx.stop(),
        }
    }

    /// Flushes what is due, closes if asked to, goes on with a waiting chunk,
    /// or asks for one.
    fn next_step(&mut self, ctx: &mut Context<Self>) {
        let closing = self.closing.is_some();
        if self.host.is_none() || (self.resting && !closing) {
            return;
        }
        let waits = self.buffered_since.map(|since| since.elapsed());
        if waits.is_some_and(|waits| closing || waits >= self.settings.flush_interval) {
            self.flush(ctx);
        } else if closing {
            self.close(ctx);
        } else if let Some(put) = self.next.take() {
            self.begin(put, ctx);
        } else {
            if waits.is_some() {
                self.flush_when_idle(ctx);
            }
            self.ask();
        }
    }

    fn back_off(&mut self, cause: Cause, lasts: Option<Duration>, ctx: &mut Context<Self>) {
        if self.closing.is_some() {
            return self.next_step(ctx);
        }
        self.unavailable += 1;
        self.resting = true;
        let delay = self
            .settings
            .backoff
            .rest(lasts, self.unavailable, fastrand::f64());
        if self.unavailable == 1 {
            tracing::warn!(
                connector = %self.name, task = self.context.task, error = %cause,
                "sink unavailable, backing off"
            );
        }
        self.show(TaskState::BackingOff(cause));
        ctx.run_later(delay, |delivery, ctx| {
            delivery.resting = false;
            delivery.next_step(ctx);
        });
    }

    fn flush_when_idle(&mut self, ctx: &mut Context<Self>) {
        let idle = ctx.run_later(IDLE_FLUSH, |delivery, ctx| {
            delivery.idle_flush = None;
            delivery.flush(ctx);
        });
        self.idle_flush = Some(idle);
    }

    fn stop_idle_flush(&mut self, ctx: &mut Context<Self>) {
        if let Some(idle) = self.idle_flush.take() {
            ctx.cancel_future(idle);
        }
    }

    /// Flushes; a chunk that comes meanwhile waits.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        let Some(mut host) = self.host.take() else {
            return;
        };
        self.stop_idle_flush(ctx);
        self.buffered_since = None;
        let leases = std::mem::take(&mut self.buffered);
        let links = self.links.clone();
        let timeout = self.settings.delivery_timeout;
        let running = async move {
            let flush = links.mark.in_steps(NO_RECORD, host.flush());
            let flushed = tokio::select! {
                flushed = tokio::time::timeout(timeout, flush) => flushed,
                () = links.kill.dead() => return None,
            };
            let flushed = flushed.unwrap_or_else(|_| Err("the flush took too long".into()));
            match flushed {
                Ok(result) => {
                    links
                        .tell(FlushedPuts {
                            leases,
                            result: result.clone(),
                        })
                        .await;
                    Some(Ok((host, result)))
                }
                Err(cause) => Some(Err(cause)),
            }
        };
        ctx.spawn(
            running
                .into_actor(self)
                .map(|flushed, delivery, ctx| delivery.flush_ended(flushed, ctx)),
        );
    }

    fn flush_ended(
        &mut self,
        flushed: Option<Called<(SinkHost, Result<(), SinkError>)>>,
        ctx: &mut Context<Self>,
    ) {
        match flushed {
            None => ctx.stop(),
            Some(Err(cause)) => self.end(TaskEnd::Died(cause), ctx),
            Some(Ok((_, Err(SinkError::Fatal(cause))))) => self.end(TaskEnd::Failed(cause), ctx),
            Some(Ok((host, Ok(())))) => {
                self.host = Some(host);
                self.unavailable = 0;
                self.next_step(ctx);
            }
            Some(Ok((host, Err(SinkError::Unavailable(cause))))) => {
                self.host = Some(host);
                self.back_off(cause, None, ctx);
            }
            Some(Ok((host, Err(SinkError::UnavailableFor(cause, lasts))))) => {
                self.host = Some(host);
                self.back_off(cause, Some(lasts), ctx);
            }
            Some(Ok((host, Err(error)))) => {
                self.host = Some(host);
                tracing::warn!(
                    connector = %self.name, task = self.context.task, %error, "flush failed"
                );
                self.next_step(ctx);
            }
        }
    }

    fn close(&mut self, ctx: &mut Context<Self>) {
        let Some(mut host) = self.host.take() else {
            return;
        };
        let done = self.closing.take();
        let mark = self.links.mark.clone();
        ctx.spawn(
            async move { mark.in_steps(NO_RECORD, host.close()).await }
                .into_actor(self)
                .map(|(), delivery, ctx| {
                    delivery.show(TaskState::Stopped);
                    drop(done);
                    ctx.stop();
                }),
        );
    }
}

impl Actor for Delivery {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.links.kill.is_dead() {
            // Given up before its thread came to it.
            return ctx.stop();
        }
        self.enlist(ctx);
        self.links.view.task_starts().begun();
        self.show(TaskState::Opening);
        let (kill, mark) = (self.links.kill.clone(), self.links.mark.clone());
        let view = Arc::clone(&self.links.view);
        let opening = open_sink(
            self.context.clone(),
            self.settings.clone(),
            self.links.clone(),
        );
        let opening = async move {
            tokio::select! {
                opened = mark.in_steps(NO_RECORD, opening) => {
                    view.task_starts().ended(&opened);
                    Some(opened)
                }
                () = kill.dead() => None,
            }
        };
        ctx.spawn(
            opening
                .into_actor(self)
                .map(|opened, delivery, ctx| match opened {
                    _ if delivery.links.kill.is_dead() => ctx.stop(),
                    Some(Ok(host)) => {
                        delivery.links.meter.set_opened(true);
                        delivery.host = Some(host);
                        delivery.next_step(ctx);
                    }
                    Some(Err(end)) => delivery.end(end, ctx),
                    None => ctx.stop(),
                }),
        );
        // What waits must not outlive its generation.
        let kill = self.links.kill.clone();
        ctx.spawn(
            async move { kill.dead().await }
                .into_actor(self)
                .map(|(), delivery, ctx| {
                    if delivery.host.is_some() {
                        ctx.stop();
                    }
                }),
        );
    }
}

impl Handler<Letter<DeliverChunk>> for Delivery {
    type Result = ();

    fn handle(&mut self, letter: Letter<DeliverChunk>, ctx: &mut Self::Context) {
        self.asked = false;
        if self.links.kill.is_dead() {
            // Given up before it came here; the chunk is another task's now.
            return ctx.stop();
        }
        self.begin(letter.message.0, ctx);
    }
}

impl Handler<Letter<CloseTask>> for Delivery {
    type Result = ();

    fn handle(&mut self, letter: Letter<CloseTask>, ctx: &mut Self::Context) {
        self.closing = Some(letter.message.0);
        self.next_step(ctx);
    }
}
