//! One task: hands chunks to its own sink instance and tells what became of
//! each record.

mod flush;
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
use crate::books::{Put, PutEnd};
use crate::chunk::Chunk;
use crate::circuit::{Refusal, SharedCircuit};
use crate::converter::{Converter, EnlistTask};
use crate::error_log::ErrorLog;
use crate::flush::{Buffered, BufferedPut, FlushCall, FlushPolicy};
use crate::kill_switch::KillSwitch;
use crate::live_view::{LiveView, TaskState};
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{CloseTask, DeliverChunk, EndedPut, TaskEnd, TaskGone, TaskReady};
use crate::meters::TaskMeter;
use crate::outcome::Cause;
use crate::ports::sink::{SinkError, SinkFactory, TaskContext};
use crate::progress::{Mark, NO_RECORD};
use crate::retry::RetryPolicy;
use crate::sink_host::SinkHost;
use crate::stuck_threads::StuckThreads;
use flush::flush;
use opening::open_sink;
use put::{Told, deliver};

/// What all tasks of a connector share.
#[derive(Clone)]
pub(crate) struct DeliverySettings {
    pub(crate) sink: Arc<dyn SinkFactory>,
    /// `share.delivery.timeout.ms`.
    pub(crate) delivery_timeout: Duration,
    /// When a sink that buffers is flushed.
    pub(crate) flush: FlushPolicy,
    /// For opening a sink.
    pub(crate) backoff: RetryPolicy,
    /// Threads of blocking sinks.
    pub(crate) stuck_threads: Arc<StuckThreads>,
}

/// Who a delivery actor talks to.
#[derive(Clone)]
pub(crate) struct DeliveryLinks {
    pub(crate) connector: Arc<str>,
    pub(crate) task: u32,
    pub(crate) error_log: ErrorLog,
    pub(crate) converter: Mailbox<Converter>,
    pub(crate) acknowledger: Mailbox<Acknowledger>,
    pub(crate) view: Arc<LiveView>,
    pub(crate) circuit: Arc<SharedCircuit>,
    pub(crate) flush_call: Arc<FlushCall>,
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

    /// Tells the circuit what the sink said of these puts. Returns why it is
    /// unavailable, if it is, and how long this task rests.
    fn note(&self, leases: &[u32], answer: &Result<(), SinkError>) -> Option<(Cause, Duration)> {
        let (cause, lasts) = match answer {
            Ok(()) | Err(SinkError::RejectedOne(_)) => {
                self.circuit.answered(&self.connector, self.task);
                return None;
            }
            Err(SinkError::Retry(cause)) => {
                self.circuit.failed(leases, cause);
                return None;
            }
            Err(SinkError::Fatal(_)) => {
                self.circuit.undecided(leases);
                return None;
            }
            Err(SinkError::Unavailable(cause)) => (cause, None),
            Err(SinkError::UnavailableFor(cause, lasts)) => (cause, Some(*lasts)),
        };
        let refusal = Refusal {
            task: self.task,
            leases,
            cause,
            lasts,
        };
        let refused = self.circuit.refused(&self.connector, &refusal);
        Some((cause.clone(), refused.rest))
    }

    /// Hands a chunk back that was not begun; nobody is to blame.
    async fn give_back(&self, put: Put) {
        self.tell(EndedPut {
            lease: put.lease,
            end: PutEnd::Abandoned,
        })
        .await;
    }
}

/// 1. enlists with the converter, 2. opens its sink, 3. asks for work, 4. puts
///    a chunk and passes its outcomes on while it runs, 5. flushes a buffering
///    sink, 6. asks again.
pub struct Delivery {
    context: TaskContext,
    incarnation: u32,
    settings: DeliverySettings,
    links: DeliveryLinks,
    /// Absent while a call to it is under way.
    host: Option<SinkHost>,
    /// The converter knows that this task waits for a chunk.
    asked: bool,
    /// A chunk that came while the sink was being flushed.
    next: Option<Put>,
    buffered: Option<Buffered>,
    idle_flush: Option<SpawnHandle>,
    /// Waits for the sink to take records again.
    recovery: Option<SpawnHandle>,
    /// The sink is left alone for a while, by this task at least.
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
            context,
            incarnation,
            settings,
            links,
            host: None,
            asked: false,
            next: None,
            buffered: None,
            idle_flush: None,
            recovery: None,
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
        self.links.view.set_task_by(
            &self.links.kill,
            &self.links.connector,
            self.context.task,
            state,
        );
    }

    /// Tells that this task is gone, and stops.
    fn end(&mut self, end: TaskEnd, ctx: &mut Context<Self>) {
        match &end {
            TaskEnd::Died(cause) => tracing::warn!(
                connector = %self.links.connector, task = self.context.task, error = %cause, "task died"
            ),
            TaskEnd::Failed(cause) => {
                tracing::error!(
                    connector = %self.links.connector, task = self.context.task, error = %cause, "task failed"
                );
                self.show(TaskState::Failed(cause.clone()));
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
        if self.shown == TaskState::Opening {
            self.show(TaskState::Running);
        }
        let _ = self.links.converter.signal(TaskReady {
            task: self.context.task,
            incarnation: self.incarnation,
        });
    }

    fn begin(&mut self, put: Put, ctx: &mut Context<Self>) {
        if self.resting {
            return self.give_back(put, ctx);
        }
        if put.alone && self.host.is_some() && self.buffered.is_some() {
            self.next = Some(put);
            return self.flush(ctx);
        }
        let Some(mut host) = self.host.take() else {
            self.next = Some(put);
            return;
        };
        self.stop_idle_flush(ctx);
        let chunk = put.chunk.clone();
        let buffered = BufferedPut {
            lease: put.lease,
            report: put.report.clone(),
            alone: put.alone,
        };
        let deadline = Instant::now() + self.settings.delivery_timeout;
        let (links, buffers) = (self.links.clone(), self.settings.sink.traits().buffers);
        let running = async move {
            let told = deliver(&mut host, put, &links, buffers, deadline).await;
            (host, told)
        };
        ctx.spawn(
            running
                .into_actor(self)
                .map(move |(host, told), delivery, ctx| {
                    if buffers && matches!(told, Told::Fine) {
                        delivery.note_buffered(buffered, &chunk);
                    }
                    // Or it would hold its bytes while the task waits.
                    drop(chunk);
                    delivery.call_ended(host, told, ctx);
                }),
        );
    }

    /// For the others to put.
    fn give_back(&self, put: Put, ctx: &mut Context<Self>) {
        let links = self.links.clone();
        ctx.spawn(async move { links.give_back(put).await }.into_actor(self));
    }

    fn note_buffered(&mut self, put: BufferedPut, chunk: &Chunk) {
        let call = self.links.flush_call.last();
        let new = || Buffered::new(Instant::now(), call);
        let buffered = self.buffered.get_or_insert_with(new);
        buffered.add(put, chunk, &self.settings.flush);
    }

    fn call_ended(&mut self, host: SinkHost, told: Told, ctx: &mut Context<Self>) {
        match told {
            Told::Fine | Told::Failed => {
                self.host = Some(host);
                self.next_step(ctx);
            }
            Told::Unavailable(cause, rest) => {
                self.host = Some(host);
                self.back_off(cause, rest, ctx);
            }
            Told::Gone(end) => self.end(end, ctx),
            Told::Killed => ctx.stop(),
        }
    }

    /// Flushes what is due, closes if asked to, goes on with a waiting chunk,
    /// or asks for one.
    fn next_step(&mut self, ctx: &mut Context<Self>) {
        let closing = self.closing.is_some();
        if self.host.is_none() || (self.resting && !closing) {
            return;
        }
        let (policy, now) = (&self.settings.flush, Instant::now());
        let call = self.links.flush_call.last();
        let is_due = |it: &Buffered| closing || it.is_due(policy, now, call);
        if self.buffered.as_ref().is_some_and(is_due) {
            self.flush(ctx);
        } else if closing {
            self.close(ctx);
        } else if let Some(put) = self.next.take() {
            self.begin(put, ctx);
        } else {
            self.flush_when_idle(ctx);
            self.ask();
        }
    }

    /// Leaves the sink alone for so long, and asks for work again then: the
    /// circuit may want a probe. Shows it until the sink takes records.
    fn back_off(&mut self, cause: Cause, rest: Duration, ctx: &mut Context<Self>) {
        if self.closing.is_some() {
            return self.next_step(ctx);
        }
        self.resting = true;
        if let Some(put) = self.next.take() {
            self.give_back(put, ctx);
        }
        self.show(TaskState::BackingOff(cause));
        ctx.run_later(rest, |delivery, ctx| {
            delivery.resting = false;
            delivery.next_step(ctx);
        });
        let circuit = Arc::clone(&self.links.circuit);
        let recovered = async move {
            tokio::time::sleep(rest).await;
            circuit.closed().await;
        };
        let recovery = ctx.spawn(recovered.into_actor(self).map(|(), delivery, _ctx| {
            if matches!(delivery.shown, TaskState::BackingOff(_)) {
                delivery.show(TaskState::Running);
            }
        }));
        if let Some(before) = self.recovery.replace(recovery) {
            ctx.cancel_future(before);
        }
    }

    fn flush_when_idle(&mut self, ctx: &mut Context<Self>) {
        let Some(buffered) = &self.buffered else {
            return;
        };
        let due = buffered.due_without_work(&self.settings.flush, Instant::now());
        let (flush_call, call) = (Arc::clone(&self.links.flush_call), buffered.call);
        let wait = async move {
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = flush_call.after(call) => {}
            }
        };
        let idle = ctx.spawn(wait.into_actor(self).map(|(), delivery, ctx| {
            delivery.idle_flush = None;
            delivery.flush(ctx);
        }));
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
        let puts = self.buffered.take();
        let puts = puts.map_or_else(Vec::new, Buffered::into_puts);
        let links = self.links.clone();
        let timeout = self.settings.delivery_timeout;
        let running = async move {
            let told = flush(&mut host, puts, &links, timeout).await;
            (host, told)
        };
        ctx.spawn(
            running
                .into_actor(self)
                .map(|(host, told), delivery, ctx| delivery.call_ended(host, told, ctx)),
        );
    }

    fn close(&mut self, ctx: &mut Context<Self>) {
        let Some(mut host) = self.host.take() else {
            return;
        };
        let done = self.closing.take();
        let (mark, context) = (self.links.mark.clone(), self.context.clone());
        ctx.spawn(
            async move { mark.in_steps(NO_RECORD, host.close(&context)).await }
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
