//! What the table's metrics are worth at one look. All exporters read them
//! here.

use sluice_actors::meters::Spread;

use super::metric::{Metric, Value};
use crate::plugins::VERSION;
use crate::telemetry::sight::{ConnectorSight, WorkerSight};

pub type Labels = Vec<(&'static str, String)>;

/// One series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: Labels,
    pub value: f64,
}

impl Metric {
    /// All series of which something is known; none of a histogram.
    #[must_use]
    pub fn samples(&self, worker: &WorkerSight) -> Vec<Sample> {
        match self.value {
            Value::Worker(read) => self.one(&[], read(worker)).into_iter().collect(),
            Value::Version => vec![self.sample(&[VERSION], 1.0)],
            _ => {
                let connectors = worker.connectors.iter();
                connectors.flat_map(|it| self.of_connector(it)).collect()
            }
        }
    }

    /// Those of a histogram.
    pub fn spreads<'a>(
        &self,
        worker: &'a WorkerSight,
    ) -> impl Iterator<Item = (Labels, &'a Spread)> {
        let is_spread = matches!(self.value, Value::Settlement);
        let connectors = worker.connectors.iter().filter(move |_| is_spread);
        connectors.map(|it| {
            let labels = vec![("connector", it.name.to_string())];
            (labels, &it.view.times.settlement)
        })
    }

    fn of_connector(&self, connector: &ConnectorSight) -> Vec<Sample> {
        let (name, at) = (&*connector.name, connector.at);
        let tasks = || connector.tasks.iter().map(|it| (it, it.id.to_string()));
        match self.value {
            Value::Worker(_) | Value::Version | Value::Settlement => Vec::new(),
            Value::Connector(read) => self.one(&[name], read(connector)).into_iter().collect(),
            Value::ConnectorStatus => {
                let status = connector.status.name().to_lowercase();
                vec![self.sample(&[name, &status], 1.0)]
            }
            Value::Task(read) => tasks()
                .filter_map(|(task, id)| self.one(&[name, &id], read(task, at)))
                .collect(),
            Value::TaskStatus => tasks()
                .map(|(task, id)| {
                    let status = task.status.name().to_lowercase();
                    self.sample(&[name, &id, &status], 1.0)
                })
                .collect(),
            Value::Pinned(read) => {
                let pins = connector.view.pins.iter();
                pins.map(|pin| {
                    let partition = pin.partition.partition.to_string();
                    self.sample(&[name, &pin.partition.topic, &partition], read(pin, at))
                })
                .collect()
            }
            Value::Position(read) => {
                let positions = connector.view.positions.as_deref().unwrap_or_default();
                let known = positions.iter().filter_map(|at| {
                    let partition = at.partition.to_string();
                    self.one(&[name, &at.topic, &partition], read(at))
                });
                known.collect()
            }
            Value::Make(_, read) => {
                let told = connector.make.as_deref().map(read).unwrap_or_default();
                let told = told.iter().map(|values| {
                    let values = values.iter().map(String::as_str);
                    let values: Vec<&str> = std::iter::once(name).chain(values).collect();
                    self.sample(&values, 1.0)
                });
                told.collect()
            }
        }
    }

    fn one(&self, values: &[&str], value: Option<f64>) -> Option<Sample> {
        value.map(|value| self.sample(values, value))
    }

    fn sample(&self, values: &[&str], value: f64) -> Sample {
        let names = self.value.labels().iter().copied();
        let values = values.iter().map(|value| (*value).to_owned());
        Sample {
            labels: names.zip(values).collect(),
            value,
        }
    }
}
