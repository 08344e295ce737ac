//! Replaces actors that died or hang: a task alone, the others with all.

use std::time::Duration;

use actix::{AsyncContext, Context};
use tokio::time::Instant;

use super::Supervisor;
use super::generation::Generation;
use super::health::{Findings, blocked_cause};
use crate::books::PutEnd;
use crate::live_view::TaskState;
use crate::outcome::{Rejection, Stage};
use crate::retry::RetryPolicy;
use crate::trace_context::log_ids;

/// More deaths of tasks than this, one within [`CALM`] after the other, and
/// the next ones are replaced with a delay: something dies at once each time.
const QUICK_REPLACEMENTS: u32 = 32;
const CALM: Duration = Duration::from_secs(10);
const REPLACEMENT_DELAY: Duration = Duration::from_secs(1);
/// The longest time without actors after their deaths.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Looks after all actors, and replaces those that are lost.
    pub(super) fn check_health(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let Some(generation) = &mut self.generation else {
            return;
        };
        let to_poll = self.inbox.work();
        let to_convert = self.books.lock().intake().len();
        let found = generation.look(now, self.threads.hang_limit(), to_poll, to_convert);
        let waits = generation.mailbox_waits();
        self.view
            .update(&self.connector, |view| view.mailbox_waits = waits);
        let mut replaced = found.hung_threads.iter();
        if let Err(cause) = replaced.try_for_each(|hung| self.threads.replace(hung)) {
            self.end_generation(&found);
            return self.fail(&cause);
        }
        if let Some((actor, trouble)) = found.stage {
            tracing::error!(
                connector = %self.connector, actor, %trouble, "actor lost, starting anew"
            );
            return self.replace_generation(&found, ctx);
        }
        for (task, trouble) in found.tasks {
            tracing::warn!(connector = %self.connector, task, %trouble, "task lost");
            generation.give_up_task(task, trouble);
        }
    }

    fn replace_generation(&mut self, found: &Findings, ctx: &mut Context<Self>) {
        let Some(lived) = self.end_generation(found) else {
            return;
        };
        if lived > Duration::from_secs(60) {
            self.generation_deaths = 0;
        }
        self.generation_deaths += 1;
        let backoff = RetryPolicy {
            timeout: None,
            max_delay: LONGEST_PAUSE,
        };
        let delay = backoff.delay(self.generation_deaths, fastrand::f64());
        self.is_pausing = true;
        let number = self.number;
        ctx.run_later(delay, move |supervisor, ctx| {
            if supervisor.number == number && !supervisor.is_closing() {
                supervisor.start_generation(ctx);
            }
        });
    }

    /// Ends the generation, and takes back what it had; returns how long it
    /// lived. What it was stuck in is blamed before anyone else gets it.
    fn end_generation(&mut self, found: &Findings) -> Option<Duration> {
        let generation = self.generation.take()?;
        generation.kill();
        self.close_windows();
        for task in 0..self.spec.policy.tasks {
            self.view
                .set_task(&self.connector, task as u32, TaskState::Restarting);
        }
        if let Some((place, stage)) = generation.converters_record(found) {
            self.blame_record(place, stage);
        }
        let buffers = self.spec.accepts_after_flush();
        for lease in generation.blocking_puts(found) {
            let end = PutEnd::Panicked(blocked_cause());
            self.enter(|books| books.put_ended(lease, end, buffers, Instant::now()));
        }
        self.enter(|books| books.release_forgotten(Instant::now()));
        Some(generation.started_at.elapsed())
    }

    fn blame_record(&self, place: usize, stage: Stage) {
        let rejection = Rejection::new(stage, "the converter hung or died over it, twice");
        let blamed = {
            let mut books = self.books.lock();
            let record = books.intake().blame(place, rejection);
            record.map(|it| (books.trace_at(&it), it))
        };
        if let Some((trace, record)) = blamed {
            let (trace_id, span_id) = log_ids(trace);
            tracing::error!(
                connector = %self.connector, %record, %stage, trace_id, span_id,
                "the converter was lost over a record"
            );
        }
    }

    pub(super) fn replace_task(&mut self, task: u32, incarnation: u32, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let calm = self.last_task_death.is_none_or(|last| last + CALM < now);
        self.last_task_death = Some(now);
        self.task_deaths = if calm { 1 } else { self.task_deaths + 1 };
        self.view
            .update(&self.connector, |view| view.tasks_replaced += 1);
        self.view
            .set_task(&self.connector, task, TaskState::Restarting);
        if self.task_deaths <= QUICK_REPLACEMENTS {
            self.start_task(task, incarnation);
            return;
        }
        let number = self.number;
        ctx.run_later(REPLACEMENT_DELAY, move |supervisor, _| {
            let is_next =
                |generation: &Generation| generation.last_incarnation(task) + 1 == incarnation;
            if supervisor.number == number
                && !supervisor.is_closing()
                && supervisor.generation.as_ref().is_some_and(is_next)
            {
                supervisor.start_task(task, incarnation);
            }
        });
    }

    pub(super) fn start_task(&mut self, task: u32, incarnation: u32) {
        if let Some(mut generation) = self.generation.take() {
            generation.start_task(self, task, incarnation);
            self.generation = Some(generation);
        }
    }
}
