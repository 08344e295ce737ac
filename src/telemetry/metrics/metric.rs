//! What a metric is: name, kind, meaning, and where the value is.

use sluice_actors::ledger::Pin;
use tokio::time::Instant;

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
    Worker(fn(&WorkerSight) -> f64),
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
