//! How a pipeline ends. The numbers are those of `docs/architecture.md`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Supervisor;
use crate::credit::Credit;
use crate::delivery::Delivery;
use crate::inbox::Inbox;
use crate::kill_switch::KillSwitch;
use crate::live_view::{ConnectorState, LiveView};
use crate::mailbox::Mailbox;
use crate::messages::{CloseTask, Drained};
use crate::outlet::Outlet;

/// How often it is looked whether all is settled.
const LOOK: Duration = Duration::from_millis(5);

pub(super) struct Draining {
    until: Instant,
    outlet: Outlet,
    inbox: Arc<Inbox>,
    credit: Arc<Credit>,
    view: Arc<LiveView>,
    tasks: Vec<Mailbox<Delivery>>,
    work_kill: Option<KillSwitch>,
}

impl Draining {
    pub(super) fn of(parts: &Supervisor, until: Instant) -> Self {
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
            work_kill: generation.map(|generation| generation.work_kill.clone()),
        }
    }

    pub(super) async fn run(self) -> Drained {
        // 1. Stop polling.
        self.outlet.books.stop_polling();
        self.credit.set_window_records(0);
        self.warn_of_last_attempts();
        self.view.update(&self.outlet.connector, |view| {
            if !matches!(view.state, ConnectorState::Failed(_)) {
                view.state = ConnectorState::Draining;
            }
        });
        // 2. Finish what is open; keep a part of the time for the rest.
        let left = self.until.saturating_duration_since(Instant::now());
        let finish_until = self.until - left / 4;
        let finished = self.finish(finish_until).await;
        // 3. Flush and close the sinks.
        self.close_tasks(finish_until).await;
        // 4. Abandon what still runs.
        if let Some(kill) = &self.work_kill {
            kill.throw();
        }
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

    /// While there is still time to mend the sink.
    fn warn_of_last_attempts(&self) {
        let last = self.outlet.books.lock().on_last_attempt();
        let Some(record) = last.first() else {
            return;
        };
        tracing::warn!(
            connector = %self.outlet.connector, records = last.len(), %record,
            left = ?self.until.saturating_duration_since(Instant::now()),
            "draining with records on their last delivery attempt; the broker archives those that \
             are not delivered in time"
        );
    }

    /// Waits until every record that is not held has its answer, also those
    /// that the source had asked for: given back undelivered, they would have
    /// lost an attempt. The source may be asking by the window that it knew, so
    /// the first look is not at once.
    async fn finish(&self, until: Instant) -> bool {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.is_finished() {
                return true;
            }
            if Instant::now() >= until || !self.tasks.iter().any(Mailbox::is_connected) {
                return false;
            }
        }
    }

    /// Looks in the order in which records come: at the source, at its events,
    /// in the books.
    fn is_finished(&self) -> bool {
        if self.credit.is_awaiting() || self.inbox.len() > 0 {
            return false;
        }
        let books = self.outlet.books.lock();
        books.ledger().open() == books.ledger().held()
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
            let (effects, kept) = books.release_rest();
            let ranges = effects.settle.iter();
            released = ranges
                .map(|range| (range.last_offset - range.first_offset + 1) as u64)
                .sum();
            shut_out = kept;
            effects
        });
        for record in &shut_out {
            tracing::error!(
                connector = %self.outlet.connector, %record,
                "record on its last delivery attempt is undelivered; the broker archives it now, \
                 unless share.delivery.count.limit of the group was raised"
            );
        }
        (released, shut_out.len())
    }
}
