//! Connect's `sink-task-metrics`, and what KIP-1302 adds to them.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::telemetry::rates::{Count, TaskCount};

/// A total and its rate over the last half minute.
macro_rules! counted {
    ($name:literal, $total:literal, $rate:literal, $doc:literal, $count:expr, $of:expr) => {
        [
            metric(
                Group::SinkTask,
                Kind::Counter,
                $total,
                $doc,
                Value::Connector($of),
            ),
            metric(
                Group::SinkTask,
                Kind::Gauge,
                $rate,
                concat!("The same a second, over 30 s: ", $name),
                Value::Connector(|it| Some(it.rates.rate($count))),
            ),
        ]
    };
}

const READ: [Metric; 2] = counted!(
    "records read",
    "sink-record-read-total",
    "sink-record-read-rate",
    "Records read, before transforms, redelivered ones included",
    Count::Acquired,
    |it| Some(it.view.totals.acquired as f64)
);
const ACQUIRE: [Metric; 2] = counted!(
    "records acquired",
    "sink-record-acquire-total",
    "sink-record-acquire-rate",
    "Records acquired from the share group",
    Count::Acquired,
    |it| Some(it.view.totals.acquired as f64)
);
const ACKNOWLEDGE: [Metric; 2] = counted!(
    "records accepted",
    "sink-record-acknowledge-total",
    "sink-record-acknowledge-rate",
    "Records whose ACCEPT the broker has confirmed",
    Count::Accepted,
    |it| Some(it.view.totals.accepted as f64)
);
const RELEASE: [Metric; 2] = counted!(
    "records released",
    "sink-record-release-total",
    "sink-record-release-rate",
    "Records whose RELEASE the broker has confirmed",
    Count::Released,
    |it| Some(it.view.totals.released as f64)
);
const REJECT: [Metric; 2] = counted!(
    "records rejected",
    "sink-record-reject-total",
    "sink-record-reject-rate",
    "Records put aside: whose REJECT the broker has confirmed, or the ACCEPT behind their dead letter",
    Count::Rejected,
    |it| Some(it.view.totals.rejected as f64)
);

/// Those that come with a rate.
pub(super) const COUNTED: [&[Metric; 2]; 5] = [&READ, &ACQUIRE, &ACKNOWLEDGE, &RELEASE, &REJECT];

pub(super) const SINK_TASK: &[Metric] = &[
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "sink-record-lag-max",
        "The lag of the partition that lags most, asked every 10 s; the broker's word trails",
        Value::Connector(|it| {
            let positions = it.view.positions.as_deref()?.iter();
            let lag = positions.filter_map(|at| at.lag).max()?;
            Some(lag as f64)
        }),
    ),
    metric(
        Group::SinkTask,
        Kind::Counter,
        "sink-record-redelivery-total",
        "Records acquired that had been delivered before",
        Value::Connector(|it| Some(it.view.totals.redelivered as f64)),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "acknowledge-time-avg",
        "Milliseconds from acquisition to the confirmed ACCEPT, mean over 30 s",
        Value::Connector(|it| it.rates.accept_mean().map(|seconds| seconds * 1e3)),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "acknowledge-time-max",
        "Milliseconds from acquisition to the confirmed ACCEPT, the longest of the last 30 to 60 s",
        Value::Connector(|it| Some(it.view.times.accept.longest.value(it.at).as_secs_f64() * 1e3)),
    ),
    metric(
        Group::SinkTask,
        Kind::Counter,
        "sink-record-send-total",
        "Records put to the sink, retried ones again",
        Value::Task(|it, _| Some(it.figures.sent as f64)),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "sink-record-send-rate",
        "The same a second, over 30 s: records put",
        Value::Task(|it, _| Some(it.rates.rate(TaskCount::Sent))),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "sink-record-active-count",
        "Records in the put that is under way",
        Value::Task(|it, _| Some(it.figures.active as f64)),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "sink-record-active-count-avg",
        "The same, mean of the time over 30 s",
        Value::Task(|it, _| Some(it.rates.rate(TaskCount::ActiveSeconds))),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "sink-record-active-count-max",
        "The same, the most of the last 30 to 60 s",
        Value::Task(|it, at| Some(it.figures.most_active.value(at) as f64)),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "put-batch-avg-time-seconds",
        "How long a put took, mean over 30 s; Connect's put-batch-avg-time-ms in Prometheus' unit",
        Value::Task(|it, _| it.rates.put_mean()),
    ),
    metric(
        Group::SinkTask,
        Kind::Gauge,
        "put-batch-max-time-seconds",
        "How long a put took, the longest of the last 30 to 60 s; Connect's put-batch-max-time-ms in Prometheus' unit",
        Value::Task(|it, at| Some(it.figures.puts.longest.value(at).as_secs_f64())),
    ),
];
