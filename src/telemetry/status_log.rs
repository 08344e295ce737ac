//! A line for each connector, now and then.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::live_view::{ConnectorView, LiveView, TaskState};
use tokio::time::{Instant, MissedTickBehavior};

/// Logs the live view every `interval`, for ever.
pub async fn run(view: Arc<LiveView>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for (name, connector) in view.connectors() {
            let tasks = view.tasks(&name);
            let running = tasks
                .iter()
                .filter(|(_, state)| *state == TaskState::Running);
            log(&name, &connector, running.count());
        }
    }
}

fn log(name: &str, connector: &ConnectorView, tasks_running: usize) {
    let totals = connector.totals;
    let (pinned_by, pinned_ms, span) = connector.pins.first().map_or_else(
        || (String::new(), 0, 0),
        |pin| {
            let since = Instant::now().saturating_duration_since(pin.since);
            let offset = format!("{}@{}", pin.partition, pin.offset);
            // JSON has 128-bit numbers as text.
            (offset, since.as_millis() as u64, pin.span)
        },
    );
    let (outage, outage_ms) = connector.outage.as_ref().map_or(("", 0), |outage| {
        (&*outage.cause, outage.since.elapsed().as_millis() as u64)
    });
    tracing::info!(
        connector = name,
        state = connector.state.name(),
        tasks_running,
        accepted = totals.accepted,
        delivered = connector.delivered,
        redelivered = totals.redelivered,
        rejected = totals.rejected,
        parked = totals.parked,
        released = totals.released,
        unknown = totals.unknown,
        lost = totals.lost,
        fenced = totals.fenced,
        renewed = totals.renewed,
        retries = connector.retries,
        delivery_limit = connector.delivery_limit,
        in_flight = connector.in_flight,
        queued = connector.queued,
        waiting = connector.waiting,
        held = connector.held,
        letters_waiting = connector.letters_waiting,
        held_bytes = connector.held_bytes,
        window = connector.window,
        mailbox_waits = connector.mailbox_waits,
        pinned_by,
        pinned_ms,
        span,
        outage,
        outage_ms,
        trouble = connector.trouble().map_or("", |cause| &**cause),
        "status"
    );
}
