//! Connect's `connect-worker-metrics`.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::telemetry::sight::Status;

pub(super) const WORKER: &[Metric] = &[
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-count",
        "Connectors of this worker",
        Value::Worker(|worker| worker.connectors.len() as f64),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "task-count",
        "Tasks of this worker",
        Value::Worker(|worker| {
            let tasks = worker.connectors.iter().map(|it| it.tasks.len());
            tasks.sum::<usize>() as f64
        }),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-attempts-total",
        "Starts of connectors, each try counted, restarts among them",
        Value::Worker(|worker| worker.connector_starts.attempts as f64),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-success-total",
        "Starts of connectors that succeeded: their group is being joined",
        Value::Worker(|worker| worker.connector_starts.successes as f64),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "connector-startup-failure-total",
        "Starts of connectors that failed, to be tried again or not",
        Value::Worker(|worker| worker.connector_starts.failures as f64),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-attempts-total",
        "Starts of tasks, replacements and restarts among them",
        Value::Worker(|worker| worker.task_starts.attempts as f64),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-success-total",
        "Starts of tasks whose sink was opened, be it after many tries",
        Value::Worker(|worker| worker.task_starts.successes as f64),
    ),
    metric(
        Group::Worker,
        Kind::Counter,
        "task-startup-failure-total",
        "Starts of tasks whose sink can never be opened",
        Value::Worker(|worker| worker.task_starts.failures as f64),
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
