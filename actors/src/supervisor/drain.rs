//! How a pipeline ends. The numbers are those of `docs/architecture.md`.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Supervisor;
use super::generation::Generation;
use crate::acknowledger::Acknowledger;
use crate::books::Books;
use crate::credit::Credit;
use crate::delivery::Delivery;
use crate::inbox::Inbox;
use crate::kill_switch::KillSwitch;
use crate::live_view::{ConnectorState, LiveView};
use crate::mailbox::Mailbox;
use crate::messages::{CloseTask, Drain, Drained, EnteredAll};
use crate::outlet::Outlet;
use crate::ports::source::Settlement;
use crate::trace_context::log_ids;

/// How often it is looked whether all has come, and is settled.
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Whether nothing that was asked for is still to come. Looks in the order in
/// which records come: at the source, at its events.
pub(super) fn is_quiet(credits: &[Arc<Credit>], inbox: &Inbox) -> bool {
    !credits.iter().any(|it| it.is_awaiting()) && inbox.len() == 0
}

/// A drain that has begun.
pub(super) struct Draining {
    until: Instant,
    /// Until then what is open is finished, and what dies is replaced.
    finish_until: Instant,
    /// Taken when that is over, and the sinks are closed.
    reply: Option<oneshot::Sender<Drained>>,
}

impl Draining {
    pub(super) fn is_closing(&self) -> bool {
        self.reply.is_none()
    }
}

impl Supervisor {
    /// Whether nothing is started or replaced any more.
    pub(super) fn is_closing(&self) -> bool {
        self.drain.as_ref().is_some_and(Draining::is_closing)
    }

    pub(super) fn drain(&mut self, order: Drain, ctx: &mut Context<Self>) {
        let Drain { deadline, reply } = order;
        // 1. Stop polling.
        self.fetch_no_more();
        self.view.update(&self.connector, |view| {
            if !matches!(view.state, ConnectorState::Failed(_)) {
                view.state = ConnectorState::Draining;
            }
        });
        self.warn_of_last_attempts(deadline);
        // 2. Finish what is open; keep a part of the time for the rest.
        let until = Instant::now() + deadline;
        self.drain = Some(Draining {
            until,
            finish_until: until - deadline / 4,
            reply: Some(reply),
        });
        self.enter(Books::hurry_parked);
        if self.is_pausing {
            self.start_generation(ctx);
        }
        self.look_later(ctx);
    }

    /// While there is still time to mend the sink.
    fn warn_of_last_attempts(&self, left: Duration) {
        let (last, trace) = {
            let books = self.books.lock();
            let last = books.on_last_attempt();
            let trace = last.first().and_then(|record| books.trace_at(record));
            (last, trace)
        };
        let Some(record) = last.first() else {
            return;
        };
        let (trace_id, span_id) = log_ids(trace);
        tracing::warn!(
            connector = %self.connector, records = last.len(), %record, ?left, trace_id, span_id,
            "draining with records on their last delivery attempt; the broker archives those that \
             are not delivered in time"
        );
    }

    /// The source may be asking by the window that it knew, so the first look
    /// is not at once.
    fn look_later(&self, ctx: &mut Context<Self>) {
        ctx.run_later(LOOK, |supervisor, ctx| {
            let finished = supervisor.is_finished();
            if finished || supervisor.is_time_to_close() {
                supervisor.close(finished, ctx);
            } else {
                supervisor.look_later(ctx);
            }
        });
    }

    /// Whether every record that is not held has its answer, also those that
    /// the source had asked for: given back undelivered, they would have lost
    /// an attempt. The books are looked at last, as records come to them last.
    fn is_finished(&self) -> bool {
        if !is_quiet(&self.credits(), &self.inbox) {
            return false;
        }
        let books = self.books.lock();
        books.ledger().open() == books.ledger().held()
    }

    fn is_time_to_close(&self) -> bool {
        let drain = self.drain.as_ref();
        let is_over = drain.is_none_or(|drain| Instant::now() >= drain.finish_until);
        is_over || !(self.is_pausing || self.generation.as_ref().is_some_and(|it| self.works(it)))
    }

    /// Whether there is somebody who works on what is open.
    fn works(&self, generation: &Generation) -> bool {
        let books = self.books.lock();
        !books.letters().is_empty() || generation.has_tasks()
    }

    fn close(&mut self, finished: bool, ctx: &mut Context<Self>) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        let reply = drain.reply.take();
        let (until, finish_until) = (drain.until, drain.finish_until);
        let closing = Closing::of(self, until);
        ctx.spawn(closing.run(finished, finish_until).into_actor(self).map(
            |drained, supervisor, ctx| {
                if let Some(generation) = supervisor.generation.take() {
                    generation.kill();
                }
                // Nobody may be waiting any more.
                let _ = reply.map(|reply| reply.send(drained));
                ctx.stop();
            },
        ));
    }
}

struct Closing {
    until: Instant,
    outlet: Outlet,
    inbox: Arc<Inbox>,
    credit: Arc<Credit>,
    view: Arc<LiveView>,
    tasks: Vec<Mailbox<Delivery>>,
    acknowledger: Option<Mailbox<Acknowledger>>,
    work_kill: Option<KillSwitch>,
}

impl Closing {
    fn of(parts: &Supervisor, until: Instant) -> Self {
        let generation = parts.generation.as_ref();
        Self {
            until,
            outlet: parts.outlet.clone(),
            inbox: Arc::clone(&parts.inbox),
            credit: Arc::clone(&parts.credit),
            view: Arc::clone(&parts.view),
            tasks: generation.map_or_else(Vec::new, |generation| {
                let tasks = generation.tasks.iter().flatten();
                tasks.map(|task| task.mailbox.clone()).collect()
            }),
            acknowledger: generation.map(|generation| generation.acknowledger.clone()),
            work_kill: generation.map(|generation| generation.work_kill.clone()),
        }
    }

    async fn run(self, finished: bool, finish_until: Instant) -> Drained {
        // 3. Flush and close the sinks.
        self.close_tasks(finish_until).await;
        // 4. Abandon what still runs, and enter what the tasks have told.
        if let Some(kill) = &self.work_kill {
            kill.throw();
        }
        self.enter_all().await;
        // 5. Give back the rest, through the gate.
        let (released, lost) = self.release_rest();
        // 6. Wait for the broker's answers, close the sessions, leave the group.
        let rest = self.until.saturating_duration_since(Instant::now());
        let closed = self.outlet.source.close(rest).await;
        // 7. Say how it ended.
        self.show_end();
        Drained {
            clean: finished && lost == 0 && closed.cause.is_none() && closed.unconfirmed == 0,
            released,
            lost,
            closed,
        }
    }

    async fn close_tasks(&self, until: Instant) {
        let mut closing = Vec::new();
        for task in &self.tasks {
            let (done, closed) = oneshot::channel();
            if task.signal(CloseTask(done)).is_ok() {
                closing.push(closed);
            }
        }
        // The sender is dropped when the task is gone, whichever way.
        let closed = futures::future::join_all(closing);
        let grace = Instant::now() + Duration::from_millis(500);
        let _ = tokio::time::timeout_at(until.max(grace), closed).await;
    }

    /// What was delivered at the last moment lies with the acknowledger still;
    /// if that hangs, the broker's answers need the rest of the time.
    async fn enter_all(&self) {
        let Some(acknowledger) = &self.acknowledger else {
            return;
        };
        let (done, entered) = oneshot::channel();
        if acknowledger.signal(EnteredAll(done)).is_ok() {
            let now = Instant::now();
            let left = self.until.saturating_duration_since(now);
            let _ = tokio::time::timeout_at(now + left / 2, entered).await;
        }
    }

    /// With the last answers, which nobody else may come to show any more. A
    /// source that is closed has no other news.
    fn show_end(&self) {
        self.inbox.enter_waiting();
        let books = self.outlet.books.lock();
        self.view.update(&self.outlet.connector, |view| {
            let errors_logged = self.outlet.books.errors_logged();
            view.show(&books, self.credit.held_bytes(), errors_logged);
            view.state = ConnectorState::Stopped;
        });
    }

    /// How many were given back, and how many the gate does not let go.
    fn release_rest(&self) -> (u64, usize) {
        let (mut released, mut shut_out) = (0, Vec::new());
        self.outlet.enter(|books| {
            let (effects, kept) = books.release_rest(Instant::now());
            let ranges = effects.settle.iter();
            released = ranges
                .filter(|range| range.settlement == Settlement::Release)
                .map(|range| (range.last_offset - range.first_offset + 1) as u64)
                .sum();
            let traced = kept.into_iter().map(|it| (books.trace_at(&it), it));
            shut_out = traced.collect();
            effects
        });
        for (trace, record) in &shut_out {
            let (trace_id, span_id) = log_ids(*trace);
            tracing::error!(
                connector = %self.outlet.connector, %record, trace_id, span_id,
                "record on its last delivery attempt is undelivered; the broker archives it now, \
                 unless share.delivery.count.limit of the group was raised"
            );
        }
        (released, shut_out.len())
    }
}
