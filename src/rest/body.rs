//! What is told of a connector: Connect's fields, and ours below `sluice`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sluice_actors::live_view::Position;
use sluice_actors::outcome::Cause;

use super::state::Described;
use crate::plugins::VERSION;
use crate::telemetry::rates::{Count, TaskCount};
use crate::telemetry::sight::{ConnectorSight, Status, TaskSight};

/// `GET /connectors/{name}`
pub(super) fn info(name: &str, described: &Described) -> Value {
    json!({
        "name": name,
        "config": described.config,
        "tasks": ids(name, described).collect::<Vec<_>>(),
        "type": "sink",
    })
}

/// `GET /connectors/{name}/tasks`
pub(super) fn tasks(name: &str, described: &Described) -> Value {
    let tasks = ids(name, described);
    let tasks = tasks.map(|id| json!({"id": id, "config": described.config}));
    Value::Array(tasks.collect())
}

fn ids(name: &str, described: &Described) -> impl Iterator<Item = Value> {
    (0..described.tasks).map(move |task| json!({"connector": name, "task": task}))
}

/// `GET /connectors/{name}/status`
pub(super) fn status(sight: &ConnectorSight, worker_id: &str) -> Value {
    let tasks = sight.tasks.iter().map(|it| task_status(it, worker_id));
    json!({
        "name": &*sight.name,
        "connector": state(sight.status, worker_id, sight.failure()),
        "tasks": tasks.collect::<Vec<_>>(),
        "type": "sink",
        "sluice": details(sight),
    })
}

/// `GET /connectors/{name}/tasks/{id}/status`
pub(super) fn task_status(task: &TaskSight, worker_id: &str) -> Value {
    let mut body = Map::new();
    body.insert("id".into(), task.id.into());
    body.extend(state(task.status, worker_id, task.trace.as_ref()));
    let longest = task.figures.puts.longest;
    let details = json!({
        "state": task.state.name(),
        "cause": task.state.cause().map(|cause| &**cause),
        "puts": task.figures.puts.count,
        "records_sent": task.figures.sent,
        "records_active": task.figures.active,
        "records_sent_per_second": rounded(task.rates.rate(TaskCount::Sent)),
        "put_mean_ms": task.rates.put_mean().map(|seconds| rounded(seconds * 1e3)),
        "put_max_ms": rounded(ms(longest.value(tokio::time::Instant::now()))),
    });
    body.insert("sluice".into(), details);
    Value::Object(body)
}

/// `GET /connectors/{name}/offsets`
pub(super) fn offsets(positions: &[Position]) -> Value {
    let offsets = positions.iter().map(|at| {
        json!({
            "partition": {"kafka_topic": &*at.topic, "kafka_partition": at.partition},
            "offset": {"kafka_offset": at.start_offset},
        })
    });
    json!({"offsets": offsets.collect::<Vec<_>>()})
}

fn state(status: Status, worker_id: &str, trace: Option<&Cause>) -> Map<String, Value> {
    let mut state = Map::new();
    state.insert("state".into(), status.name().into());
    state.insert("worker_id".into(), worker_id.into());
    state.insert("version".into(), VERSION.into());
    if let Some(trace) = trace {
        state.insert("trace".into(), trace.to_string().into());
    }
    state
}

fn details(sight: &ConnectorSight) -> Value {
    let (view, rates) = (&sight.view, &sight.rates);
    let totals = view.totals;
    let pins = view.pins.iter().map(|pin| {
        json!({
            "topic": &*pin.partition.topic,
            "partition": pin.partition.partition,
            "offset": pin.offset,
            "span": pin.span,
            "pinned_ms": rounded(ms(sight.at.saturating_duration_since(pin.since))),
        })
    });
    json!({
        "state": view.state.name(),
        "trouble": view.trouble().map(|cause| &**cause),
        "outage": view.outage.as_ref().map(|outage| json!({
            "cause": &*outage.cause,
            "lasts_ms": sight.outage_lasts().map(|lasts| rounded(ms(lasts))),
        })),
        "outages": view.outages,
        "generation": view.generation,
        "tasks_replaced": view.tasks_replaced,
        "records_in_flight": view.in_flight,
        "records_queued": view.queued,
        "records_waiting": view.waiting,
        "records_held": view.held,
        "letters_waiting": view.letters_waiting,
        "bytes_held": view.held_bytes,
        "window_records": view.window,
        "delivery_limit": view.delivery_limit,
        "attempts_left": view.attempts_left,
        "records_near_limit": view.near_limit,
        "group_lag_records": view.lag,
        "parked_lag_records": view.parked_lag,
        "accepted_per_second": rounded(rates.rate(Count::Accepted)),
        "accept_mean_ms": rates.accept_mean().map(|seconds| rounded(seconds * 1e3)),
        "totals": {
            "acquired": totals.acquired,
            "redelivered": totals.redelivered,
            "accepted": totals.accepted,
            "released": totals.released,
            "rejected": totals.rejected,
            "parked": totals.parked,
            "renewed": totals.renewed,
            "unknown": totals.unknown,
            "lost": totals.lost,
            "fenced": totals.fenced,
            "delivered": view.delivered,
            "retries": view.retries,
        },
        "partitions": pins.collect::<Vec<_>>(),
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// To thousandths: more would only look exact.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
