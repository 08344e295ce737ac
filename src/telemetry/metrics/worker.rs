//! Connect's `connect-worker-metrics`.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::telemetry::sight::Status;

pub(super) const WORKER: &[Metric] = &[
    metric(
        Group::Worker,
        Kind::Gauge,
        "connector-count",
        "Connectors of this worker",
        Value::Worker(|all| all.len() as f64),
    ),
    metric(
        Group::Worker,
        Kind::Gauge,
        "task-count",
        "Tasks of this worker",
        Value::Worker(|all| all.iter().map(|it| it.tasks.len()).sum::<usize>() as f64),
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
