//! What a metric is: name, kind, meaning, and where the value is.

use sluice_actors::ledger::Pin;
use sluice_actors::live_view::Position;
use tokio::time::Instant;

use crate::telemetry::make::Make;
use crate::telemetry::sight::{ConnectorSight, TaskSight, WorkerSight};

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
    Transform,
    Predicate,
    Worker,
    Sluice,
    Process,
}

impl Group {
    pub const ALL: [Self; 9] = [
        Self::SinkTask,
        Self::TaskError,
        Self::ConnectorTask,
        Self::Connector,
        Self::Transform,
        Self::Predicate,
        Self::Worker,
        Self::Sluice,
        Self::Process,
    ];

    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::SinkTask => "sink-task-metrics",
            Self::TaskError => "task-error-metrics",
            Self::ConnectorTask => "connector-task-metrics",
            Self::Connector => "connector-metrics",
            Self::Transform => "connector-transform-metrics",
            Self::Predicate => "connector-predicate-metrics",
            Self::Worker => "connect-worker-metrics",
            Self::Sluice => "Sluice",
            Self::Process => "The process",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::SinkTask => "kafka_connect_sink_task_",
            Self::TaskError => "kafka_connect_task_error_",
            Self::ConnectorTask => "kafka_connect_connector_task_",
            Self::Connector => "kafka_connect_connector_",
            Self::Transform => "kafka_connect_connector_transform_",
            Self::Predicate => "kafka_connect_connector_predicate_",
            Self::Worker => "kafka_connect_worker_",
            Self::Sluice => "sluice_",
            Self::Process => "process_",
        }
    }
}

/// Where a metric's value is, and with it its labels.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// No labels.
    Worker(fn(&WorkerSight) -> Option<f64>),
    /// `version`; always 1.
    Version,
    /// `connector`.
    Connector(fn(&ConnectorSight) -> Option<f64>),
    /// `connector`, `task`.
    Task(fn(&TaskSight, Instant) -> Option<f64>),
    /// `connector`, `topic`, `partition`; of partitions with open records.
    Pinned(fn(&Pin, Instant) -> f64),
    /// `connector`, `topic`, `partition`; of partitions that the group reads.
    Position(fn(&Position) -> Option<f64>),
    /// `connector`, `status`; always 1.
    ConnectorStatus,
    /// `connector`, `task`, `status`; always 1.
    TaskStatus,
    /// `connector`, and more labels, with all that they are; always 1.
    Make(&'static [&'static str], fn(&Make) -> Vec<Vec<String>>),
    /// `connector`; a histogram.
    Settlement,
}

impl Value {
    #[must_use]
    pub const fn labels(&self) -> &'static [&'static str] {
        match self {
            Self::Worker(_) => &[],
            Self::Version => &["version"],
            Self::Connector(_) | Self::Settlement => &["connector"],
            Self::Task(_) => &["connector", "task"],
            Self::Pinned(_) | Self::Position(_) => &["connector", "topic", "partition"],
            Self::ConnectorStatus => &["connector", "status"],
            Self::TaskStatus => &["connector", "task", "status"],
            Self::Make(labels, _) => labels,
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

pub(super) const fn metric(
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
