//! Connect's `task-error-metrics` and `connector-task-metrics`.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::telemetry::rates::TaskCount;

pub(super) const TASK_ERROR: &[Metric] = &[
    metric(
        Group::TaskError,
        Kind::Counter,
        "total-record-errors",
        "Failures of single records, to be tried again or not",
        Value::Connector(|it| Some((it.view.errors.transient + it.view.errors.rejected) as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "total-record-failures",
        "Records that can never be delivered",
        Value::Connector(|it| Some(it.view.errors.rejected as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "total-records-skipped",
        "Records put aside, since errors.tolerance is all",
        Value::Connector(|it| Some(it.view.errors.skipped as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "total-retries",
        "Records tried again",
        Value::Connector(|it| Some(it.view.retries as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "total-errors-logged",
        "Records put aside that the log has told of, as errors.log.enable wants it",
        Value::Connector(|it| Some(it.view.errors_logged as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "deadletterqueue-produce-requests",
        "Dead letters sent, those sent again too, with errors.deadletterqueue.mode=sluice",
        Value::Connector(|it| Some(it.view.letters.requests as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Counter,
        "deadletterqueue-produce-failures",
        "Dead letters sent in vain",
        Value::Connector(|it| Some(it.view.letters.failures as f64)),
    ),
    metric(
        Group::TaskError,
        Kind::Gauge,
        "last-error-timestamp",
        "When a record failed last, in milliseconds since 1970",
        Value::Connector(|it| {
            let since = it.view.last_error?.duration_since(std::time::UNIX_EPOCH);
            since.ok().map(|since| since.as_millis() as f64)
        }),
    ),
];

pub(super) const CONNECTOR_TASK: &[Metric] = &[
    metric(
        Group::ConnectorTask,
        Kind::Gauge,
        "status",
        "The task's state, in lower case in the label status",
        Value::TaskStatus,
    ),
    metric(
        Group::ConnectorTask,
        Kind::Gauge,
        "running-ratio",
        "The part of the time in which the task ran and its sink took records, over 30 s",
        Value::Task(|it, _| Some(it.rates.rate(TaskCount::RunningSeconds))),
    ),
    metric(
        Group::ConnectorTask,
        Kind::Gauge,
        "pause-ratio",
        "The part of the time in which the task paused since its sink could take no records, over 30 s",
        Value::Task(|it, _| Some(it.rates.rate(TaskCount::RestingSeconds))),
    ),
    metric(
        Group::ConnectorTask,
        Kind::Gauge,
        "batch-size-avg",
        "Records in a put, mean over 30 s",
        Value::Task(|it, _| it.rates.put_size_mean()),
    ),
    metric(
        Group::ConnectorTask,
        Kind::Gauge,
        "batch-size-max",
        "Records in the largest put so far",
        Value::Task(|it, _| Some(it.figures.largest_put as f64)),
    ),
];
