//! The one table of metrics: name, kind, meaning, and where the value is. The
//! exposition and the reference are both made of it.

use sluice_actors::ledger::Pin;
use tokio::time::Instant;

use super::rates::{Count, TaskCount};
use super::sight::{ConnectorSight, Standing, Status, TaskSight};

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Whose metric it is. Connect's groups have the prefix that JMX exporters
/// give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    SinkTask,
    TaskError,
    ConnectorTask,
    Connector,
    Worker,
    Sluice,
}

impl Group {
    pub const ALL: [Self; 6] = [
        Self::SinkTask,
        Self::TaskError,
        Self::ConnectorTask,
        Self::Connector,
        Self::Worker,
        Self::Sluice,
    ];

    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::SinkTask => "sink-task-metrics",
            Self::TaskError => "task-error-metrics",
            Self::ConnectorTask => "connector-task-metrics",
            Self::Connector => "connector-metrics",
            Self::Worker => "connect-worker-metrics",
            Self::Sluice => "Sluice",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::SinkTask => "kafka_connect_sink_task_",
            Self::TaskError => "kafka_connect_task_error_",
            Self::ConnectorTask => "kafka_connect_connector_task_",
            Self::Connector => "kafka_connect_connector_",
            Self::Worker => "kafka_connect_worker_",
            Self::Sluice => "sluice_",
        }
    }
}

/// Where a metric's value is, and with it its labels.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// No labels.
    Worker(fn(&[ConnectorSight]) -> f64),
    /// `connector`.
    Connector(fn(&ConnectorSight) -> Option<f64>),
    /// `connector`, `task`.
    Task(fn(&TaskSight, Instant) -> Option<f64>),
    /// `connector`, `topic`, `partition`; of partitions with open records.
    Partition(fn(&Pin, Instant) -> f64),
    /// `connector`, `status`; always 1.
    ConnectorStatus,
    /// `connector`, `task`, `status`; always 1.
    TaskStatus,
    /// `connector`; a histogram.
    Settlement,
}

impl Value {
    #[must_use]
    pub const fn labels(&self) -> &'static [&'static str] {
        match self {
            Self::Worker(_) => &[],
            Self::Connector(_) | Self::Settlement => &["connector"],
            Self::Task(_) => &["connector", "task"],
            Self::Partition(_) => &["connector", "topic", "partition"],
            Self::ConnectorStatus => &["connector", "status"],
            Self::TaskStatus => &["connector", "task", "status"],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub group: Group,
    /// Connect's name where it has one; counters of ours end in `-total`.
    pub name: &'static str,
    pub kind: Kind,
    pub doc: &'static str,
    pub value: Value,
}

impl Metric {
    /// The name that Prometheus sees.
    #[must_use]
    pub fn exported(&self) -> String {
        format!("{}{}", self.group.prefix(), self.name.replace('-', "_"))
    }
}

const fn metric(
    group: Group,
    kind: Kind,
    name: &'static str,
    doc: &'static str,
    value: Value,
) -> Metric {
    Metric {
        group,
        name,
        kind,
        doc,
        value,
    }
}

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
    "Records whose REJECT the broker has confirmed",
    Count::Rejected,
    |it| Some(it.view.totals.rejected as f64)
);

const SINK_TASK: &[Metric] = &[
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

const TASK_ERROR: &[Metric] = &[
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
        Kind::Gauge,
        "last-error-timestamp",
        "When a record failed last, in milliseconds since 1970",
        Value::Connector(|it| {
            let since = it.view.last_error?.duration_since(std::time::UNIX_EPOCH);
            since.ok().map(|since| since.as_millis() as f64)
        }),
    ),
];

const CONNECTOR_TASK: &[Metric] = &[
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
    metric(
        Group::Connector,
        Kind::Gauge,
        "status",
        "The connector's state, in lower case in the label status",
        Value::ConnectorStatus,
    ),
];

const WORKER: &[Metric] = &[
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

const SLUICE: &[Metric] = &[
    metric(
        Group::Sluice,
        Kind::Histogram,
        "settlement-seconds",
        "From the sink's word that a record is delivered to the broker's confirmation",
        Value::Settlement,
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "connector-ready",
        "1 if the connector has joined, has a session on every leader, and an open sink",
        Value::Connector(|it| Some(f64::from(u8::from(it.standing() == Standing::Ready)))),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "records-in-flight",
        "Records acquired whose settlement is not confirmed",
        Value::Connector(|it| Some(it.view.in_flight as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "records-queued",
        "Records in flight that wait for a task",
        Value::Connector(|it| Some(it.view.queued as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "records-waiting",
        "Records in flight that wait for the time of their retry",
        Value::Connector(|it| Some(it.view.waiting as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "records-held",
        "Records in flight that failed, and wait for the operator",
        Value::Connector(|it| Some(it.view.held as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "bytes-held",
        "Bytes of records in flight",
        Value::Connector(|it| Some(it.view.held_bytes as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "window-records",
        "Records that may be in flight",
        Value::Connector(|it| Some(it.view.window as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "partition-span-offsets",
        "Offsets from the first open record to the last one acquired",
        Value::Partition(|pin, _| pin.span as f64),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "partition-pinned-offset",
        "The first open offset, which keeps the partition from moving on",
        Value::Partition(|pin, _| pin.offset as f64),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "partition-pinned-seconds",
        "For how long it has",
        Value::Partition(|pin, at| at.saturating_duration_since(pin.since).as_secs_f64()),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "attempts-left",
        "How often the open record that came most often may still be given back; at 0 it is held",
        Value::Connector(|it| it.view.attempts_left.map(f64::from)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "group-lag-records",
        "Records that the group has still to deliver, asked every 10 s; the broker's word trails",
        Value::Connector(|it| it.view.lag.map(|lag| lag as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "records-delivered-total",
        "Records that the sink has delivered, confirmed or not",
        Value::Connector(|it| Some(it.view.delivered as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "locks-renewed-total",
        "Locks renewed",
        Value::Connector(|it| Some(it.view.totals.renewed as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "locks-lost-total",
        "Locks that ended without our doing; the records come again",
        Value::Connector(|it| Some(it.view.totals.lost as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "settlements-unknown-total",
        "Records whose settlement nobody confirmed; done, or they come again",
        Value::Connector(|it| Some(it.view.totals.unknown as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "outcomes-fenced-total",
        "Outcomes that came too late to count",
        Value::Connector(|it| Some(it.view.totals.fenced as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "mailbox-waits-total",
        "How often an actor had to wait for another's mailbox",
        Value::Connector(|it| Some(it.view.mailbox_waits as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "tasks-replaced-total",
        "Tasks that died, hung or were restarted",
        Value::Connector(|it| Some(it.view.tasks_replaced as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Gauge,
        "generation",
        "How often the connector's actors were started; above 1, one of its stages has died",
        Value::Connector(|it| Some(f64::from(it.view.generation))),
    ),
];

/// All metrics, in the order of the reference.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let counted = [&READ, &ACQUIRE, &ACKNOWLEDGE, &RELEASE, &REJECT];
    let counted = counted.into_iter().flatten();
    let others = [SINK_TASK, TASK_ERROR, CONNECTOR_TASK, WORKER, SLUICE];
    counted.chain(others.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_of_their_kind() {
        let names: BTreeSet<String> = all().map(Metric::exported).collect();
        assert_eq!(names.len(), all().count());
        for metric in all() {
            let is_total =
                metric.name.contains("total") && metric.name != "connector-total-task-count";
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
            assert!(
                !metric.doc.ends_with('.'),
                "the exporter adds it: {}",
                metric.name
            );
        }
    }

    #[test]
    fn what_means_nothing_in_share_mode_is_not_there() {
        for metric in all() {
            for gone in ["partition-count", "offset-commit", "offset-seq"] {
                assert!(!metric.name.contains(gone), "{}", metric.name);
            }
        }
    }
}
