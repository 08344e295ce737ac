//! `GET /metrics`: the table's metrics of one look, as Prometheus reads them.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sluice_actors::meters::{SETTLEMENT_BOUNDS, Spread};

use super::metrics::{Kind, Metric, all};
use super::sight::WorkerSight;

pub use prometheus_text::CONTENT_TYPE;

type Labels = [(&'static str, String)];
/// Of exemplars, which there are none of.
type NoLabels = Vec<(String, String)>;

/// The text for this worker.
pub fn render(worker: WorkerSight) -> Result<String, Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(worker)));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape(WorkerSight);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        all().try_for_each(|metric| self.encode_metric(metric, &mut encoder))
    }
}

impl Scrape {
    fn encode_metric(
        &self,
        metric: &Metric,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), Error> {
        let (name, kind) = described(metric);
        let help = format!("{}.", metric.doc);
        let mut family = encoder.encode_descriptor(&name, &help, None, kind)?;
        for sample in metric.samples(&self.0) {
            let labels: &Labels = &sample.labels;
            put(&mut family, kind, labels, sample.value)?;
        }
        for (labels, spread) in metric.spreads(&self.0) {
            put_spread(&mut family, &labels, spread)?;
        }
        Ok(())
    }
}

/// The name without what the encoder adds, and the type. Gauges named `-count`
/// and counters not named `-total` are Connect's; like JMX exporters, this
/// gives them no type, for Prometheus expects others of it.
fn described(metric: &Metric) -> (String, MetricType) {
    let name = metric.exported();
    match metric.kind {
        Kind::Counter => match name.strip_suffix("_total") {
            Some(plain) => (plain.to_owned(), MetricType::Counter),
            None => (name, MetricType::Unknown),
        },
        Kind::Gauge if name.ends_with("_count") => (name, MetricType::Unknown),
        Kind::Gauge => (name, MetricType::Gauge),
        Kind::Histogram => (name, MetricType::Histogram),
    }
}

fn put(
    family: &mut MetricEncoder<'_>,
    kind: MetricType,
    labels: &Labels,
    value: f64,
) -> Result<(), Error> {
    let put_one = |encoder: &mut MetricEncoder<'_>| match kind {
        MetricType::Counter => encoder.encode_counter::<NoLabels, f64, f64>(&value, None),
        _ => encoder.encode_gauge(&value),
    };
    // Braces around no labels are not what a reader expects.
    match labels.is_empty() {
        true => put_one(family),
        false => put_one(&mut family.encode_family(&labels)?),
    }
}

fn put_spread(
    family: &mut MetricEncoder<'_>,
    labels: &Labels,
    spread: &Spread,
) -> Result<(), Error> {
    let bounds = SETTLEMENT_BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(spread.counts).collect();
    let mut family = family.encode_family(&labels)?;
    family.encode_histogram::<NoLabels>(spread.seconds, spread.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sluice_actors::ledger::Pin;
    use sluice_actors::live_view::{ConnectorView, Position, TaskState};
    use sluice_actors::meters::TaskFigures;
    use sluice_actors::record::{SourcePartition, TopicId};
    use sluice_actors::starts::StartFigures;
    use tokio::time::Instant;

    use super::*;
    use crate::telemetry::make::{Chained, Make};
    use crate::telemetry::process::ProcessFigures;
    use crate::telemetry::rates::{ConnectorRates, TaskRates};
    use crate::telemetry::sight::{ConnectorSight, Status, TaskSight};

    fn sight() -> ConnectorSight {
        let mut view = ConnectorView::default();
        view.totals.acquired = 12;
        view.totals.accepted = 9;
        view.errors.rejected = 2;
        view.times.settlement.add(Duration::from_millis(3), 9);
        view.pins.push(Pin {
            partition: Arc::new(SourcePartition {
                topic: "or\"ders".into(),
                topic_id: TopicId::default(),
                partition: 3,
            }),
            offset: 77,
            span: 5,
            since: Instant::now(),
            is_buffered: false,
        });
        let position = |partition, lag| Position {
            topic: "orders".into(),
            partition,
            start_offset: 77,
            lag,
        };
        view.positions = Some([position(0, Some(30)), position(1, None)].into());
        let task = TaskSight {
            id: 0,
            state: TaskState::Running,
            status: Status::Running,
            trace: None,
            figures: TaskFigures {
                active: 4,
                ..TaskFigures::default()
            },
            rates: TaskRates::default(),
        };
        ConnectorSight {
            name: "orders".into(),
            at: Instant::now(),
            view,
            status: Status::Failed,
            rates: ConnectorRates::default(),
            tasks: vec![task],
            make: Some(Arc::new(Make {
                sink: "http".into(),
                transforms: vec![Chained {
                    alias: "Route".into(),
                    class: "RegexRouter".into(),
                }],
                ..Make::default()
            })),
        }
    }

    fn worker() -> WorkerSight {
        WorkerSight {
            connectors: vec![sight()],
            task_starts: StartFigures {
                attempts: 6,
                successes: 4,
                failures: 1,
            },
            process: Some(ProcessFigures {
                cpu_seconds: 1.5,
                ..ProcessFigures::default()
            }),
            ..WorkerSight::default()
        }
    }

    #[test]
    fn values_come_out_under_the_names_that_dashboards_know() {
        let text = render(worker()).unwrap();
        for line in [
            "# TYPE kafka_connect_sink_task_sink_record_acquire_total counter",
            "kafka_connect_sink_task_sink_record_acquire_total{connector=\"orders\"} 12.0",
            "kafka_connect_sink_task_sink_record_acknowledge_total{connector=\"orders\"} 9.0",
            "# TYPE kafka_connect_sink_task_sink_record_active_count untyped",
            "kafka_connect_sink_task_sink_record_active_count{connector=\"orders\",task=\"0\"} 4.0",
            "kafka_connect_task_error_total_record_failures{connector=\"orders\"} 2.0",
            "kafka_connect_connector_task_status{connector=\"orders\",task=\"0\",status=\"running\"} 1.0",
            "kafka_connect_connector_status{connector=\"orders\",status=\"failed\"} 1.0",
            "kafka_connect_worker_connector_count 1.0",
            "kafka_connect_worker_connector_startup_attempts_total 0.0",
            "kafka_connect_worker_task_startup_attempts_total 6.0",
            "kafka_connect_worker_task_startup_success_total 4.0",
            "kafka_connect_worker_task_startup_failure_total 1.0",
            "kafka_connect_worker_task_startup_failure_percentage 0.2",
            "kafka_connect_connector_connector_class{connector=\"orders\",connector_class=\"http\"} 1.0",
            "kafka_connect_connector_transform_transform_class{connector=\"orders\",transform=\"Route\",transform_class=\"RegexRouter\"} 1.0",
            "kafka_connect_sink_task_sink_record_lag_max{connector=\"orders\"} 30.0",
            "sluice_partition_lag_records{connector=\"orders\",topic=\"orders\",partition=\"0\"} 30.0",
            "sluice_partition_start_offset{connector=\"orders\",topic=\"orders\",partition=\"1\"} 77.0",
            "process_cpu_seconds_total 1.5",
            "sluice_settlement_seconds_bucket{connector=\"orders\",le=\"0.005\"} 9",
            "sluice_settlement_seconds_count{connector=\"orders\"} 9",
        ] {
            assert!(text.lines().any(|it| it == line), "no {line} in\n{text}");
        }
        let pinned = "sluice_partition_pinned_offset{connector=\"orders\",topic=\"or\\\"ders\",partition=\"3\"} 77.0";
        assert!(text.contains(pinned), "{text}");
    }

    #[test]
    fn what_is_not_known_has_no_line() {
        let text = render(worker()).unwrap();
        for name in [
            "sluice_group_lag_records{",
            "sluice_partition_lag_records{connector=\"orders\",topic=\"orders\",partition=\"1\"",
            "\nkafka_connect_worker_connector_startup_failure_percentage ",
            "sluice_attempts_left{",
            "_avg_time_seconds{",
        ] {
            assert!(!text.contains(name), "{name}");
        }
    }

    #[test]
    fn every_metric_of_the_table_is_described_once() {
        let text = render(WorkerSight::default()).unwrap();
        for metric in all() {
            let help = format!("# HELP {} {}.", metric.exported(), metric.doc);
            assert_eq!(text.matches(&help).count(), 1, "{help}\n{text}");
        }
    }
}
