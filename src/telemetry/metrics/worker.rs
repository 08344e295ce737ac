//! Connect's `connect-worker-metrics`.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::telemetry::sight::Status;
use sluice_actors::starts::StartFigures;

pub(super) const WORKER: &[Metric] = &[
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-count",
        "Connectors of this worker",
        Value::Worker(|worker| Some(worker.connectors.len() as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "task-count",
        "Tasks of this worker",
        Value::Worker(|worker| {
            let tasks = worker.connectors.iter().map(|it| it.tasks.len());
            Some(tasks.sum::<usize>() as f64)
        }),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-attempts-total",
        "Starts of connectors, each try counted, restarts among them",
        Value::Worker(|worker| Some(worker.connector_starts.attempts as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-success-total",
        "Starts of connectors that succeeded: their group is being joined",
        Value::Worker(|worker| Some(worker.connector_starts.successes as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-failure-total",
        "Starts of connectors that failed, to be tried again or not",
        Value::Worker(|worker| Some(worker.connector_starts.failures as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-startup-success-percentage",
        "The part of starts of connectors that succeeded, of those that have ended; Connect's own is a part of 1 too",
        Value::Worker(|worker| part(worker.connector_starts, |it| it.successes)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-startup-failure-percentage",
        "The part of starts of connectors that failed, of those that have ended",
        Value::Worker(|worker| part(worker.connector_starts, |it| it.failures)),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-attempts-total",
        "Starts of tasks, replacements and restarts among them",
        Value::Worker(|worker| Some(worker.task_starts.attempts as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-success-total",
        "Starts of tasks whose sink was opened, be it after many tries",
        Value::Worker(|worker| Some(worker.task_starts.successes as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-failure-total",
        "Starts of tasks whose sink can never be opened",
        Value::Worker(|worker| Some(worker.task_starts.failures as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "task-startup-success-percentage",
        "The part of starts of tasks that succeeded, of those that have ended; Connect's own is a part of 1 too",
        Value::Worker(|worker| part(worker.task_starts, |it| it.successes)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "task-startup-failure-percentage",
        "The part of starts of tasks that failed, of those that have ended",
        Value::Worker(|worker| part(worker.task_starts, |it| it.failures)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-total-task-count",
        "Tasks of the connector",
        Value::Connector(|it| Some(it.tasks.len() as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-running-task-count",
        "Tasks of the connector that run",
        Value::Connector(|it| Some(it.tasks_in(Status::Running) as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-failed-task-count",
        "Tasks of the connector that have failed",
        Value::Connector(|it| Some(it.tasks_in(Status::Failed) as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-unassigned-task-count",
        "Tasks of the connector that open their sink, or have stopped",
        Value::Connector(|it| Some(it.tasks_in(Status::Unassigned) as f64)),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-restarting-task-count",
        "Tasks of the connector that are being restarted",
        Value::Connector(|it| Some(it.tasks_in(Status::Restarting) as f64)),
    ),
];

/// Nothing as long as no start has ended.
fn part(starts: StartFigures, of: fn(StartFigures) -> u64) -> Option<f64> {
    let ended = starts.successes + starts.failures;
    (ended > 0).then(|| of(starts) as f64 / ended as f64)
}
