use std::sync::Arc;
use std::time::Duration;

use sluice_actors::live_view::ConnectorView;
use tokio::time::Instant;

use super::*;
use crate::telemetry::rates::ConnectorRates;
use crate::telemetry::sight::{ConnectorSight, Status};

const HISTOGRAM: &str = "sluice_settlement_seconds";
const COUNTER: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";
const GAUGE: &str = "kafka_connect_worker_connector_count";

/// So many records accepted, each 3 ms after its delivery.
fn worker(accepted: u64) -> WorkerSight {
    let mut view = ConnectorView::default();
    view.totals.accepted = accepted;
    view.times
        .settlement
        .add(Duration::from_millis(3), accepted);
    let connector = ConnectorSight {
        name: "orders".into(),
        at: Instant::now(),
        view,
        status: Status::Running,
        rates: ConnectorRates::default(),
        tasks: Vec::new(),
        make: Some(Arc::default()),
    };
    WorkerSight {
        connectors: vec![connector],
        ..WorkerSight::default()
    }
}

fn second(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

const SECOND: u64 = 1_000_000_000;

fn data(metrics: &[Pushed], name: &str) -> Data {
    let metric = metrics.iter().find(|it| it.name == name);
    metric.and_then(|it| it.data.clone()).unwrap()
}

fn counted(metrics: &[Pushed]) -> (Sum, NumberDataPoint) {
    let Data::Sum(sum) = data(metrics, COUNTER) else {
        panic!("it is no sum");
    };
    let point = sum.data_points[0].clone();
    (sum, point)
}

fn spread(metrics: &[Pushed]) -> (Histogram, HistogramDataPoint) {
    let Data::Histogram(histogram) = data(metrics, HISTOGRAM) else {
        panic!("it is no histogram");
    };
    let point = histogram.data_points[0].clone();
    (histogram, point)
}

/// Value, and the seconds that it was counted in.
fn of_counter(metrics: &[Pushed]) -> (f64, u64, u64) {
    let (_, point) = counted(metrics);
    let Some(Number::AsDouble(value)) = point.value else {
        panic!("{point:?}");
    };
    let [since, at] = [point.start_time_unix_nano, point.time_unix_nano];
    (value, since / SECOND, at / SECOND)
}

fn of_histogram(metrics: &[Pushed]) -> (u64, u64, u64) {
    let (_, point) = spread(metrics);
    let [since, at] = [point.start_time_unix_nano, point.time_unix_nano];
    (point.count, since / SECOND, at / SECOND)
}

#[test]
fn what_is_spread_goes_out_as_one_histogram_with_its_buckets() {
    let points = Points::new(Temporality::Cumulative, second(1));
    let mut worker = worker(4);
    let settlement = &mut worker.connectors[0].view.times.settlement;
    settlement.add(Duration::from_secs(60), 1);
    let (metrics, _) = points.collect(&worker, second(2));
    let (histogram, point) = spread(&metrics);
    let cumulative = AggregationTemporality::Cumulative as i32;
    assert_eq!(histogram.aggregation_temporality, cumulative);
    assert_eq!(point.explicit_bounds, SETTLEMENT_BOUNDS);
    assert_eq!(point.bucket_counts.len(), SETTLEMENT_BOUNDS.len() + 1);
    // Not added up, as Prometheus would have them.
    assert_eq!(point.bucket_counts[2], 4, "up to 5 ms");
    assert_eq!(point.bucket_counts[3..12], [0; 9]);
    assert_eq!(point.bucket_counts.last(), Some(&1));
    assert_eq!(point.count, point.bucket_counts.iter().sum::<u64>());
    assert!((point.sum.unwrap() - 60.012).abs() < 1e-9, "{point:?}");
    assert_eq!(
        point.attributes,
        attributes(vec![("connector", "orders".into())])
    );
    let parts = metrics.iter().filter(|it| it.name.starts_with(HISTOGRAM));
    assert_eq!(parts.count(), 1);
}

#[test]
fn every_metric_that_is_known_goes_out_as_its_kind() {
    let points = Points::new(Temporality::Cumulative, second(1));
    let worker = worker(4);
    let (metrics, _) = points.collect(&worker, second(2));
    for metric in all() {
        let pushed = metrics.iter().find(|it| it.name == metric.exported());
        let is_known = !metric.samples(&worker).is_empty() || metric.spreads(&worker).count() > 0;
        let kind = pushed.map(|it| match &it.data {
            Some(Data::Sum(sum)) if sum.is_monotonic => Kind::Counter,
            Some(Data::Gauge(_)) => Kind::Gauge,
            Some(Data::Histogram(_)) => Kind::Histogram,
            other => panic!("{}: {other:?}", metric.name),
        });
        assert_eq!(kind, is_known.then_some(metric.kind), "{}", metric.name);
    }
    let Data::Gauge(gauge) = data(&metrics, GAUGE) else {
        panic!("it is no gauge");
    };
    assert_eq!(gauge.data_points[0].value, Some(Number::AsDouble(1.0)));
    assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
}

#[test]
fn totals_tell_all_that_was_counted_since_they_began() {
    let points = Points::new(Temporality::Cumulative, second(1));
    let (metrics, points) = points.collect(&worker(4), second(2));
    assert_eq!(of_counter(&metrics), (4.0, 1, 2));
    let (metrics, points) = points.collect(&worker(7), second(3));
    assert_eq!(of_counter(&metrics), (7.0, 1, 3));
    assert_eq!(of_histogram(&metrics), (7, 1, 3));
    // The connector was restarted.
    let (metrics, _) = points.collect(&worker(2), second(4));
    assert_eq!(of_counter(&metrics), (2.0, 3, 4));
    assert_eq!(of_histogram(&metrics), (2, 3, 4));
}

#[test]
fn a_delta_tells_what_is_new_since_the_last_one_that_was_taken() {
    let points = Points::new(Temporality::Delta, second(1));
    let (metrics, points) = points.collect(&worker(4), second(2));
    assert_eq!(of_counter(&metrics), (4.0, 1, 2));
    let delta = AggregationTemporality::Delta as i32;
    assert_eq!(counted(&metrics).0.aggregation_temporality, delta);
    assert_eq!(spread(&metrics).0.aggregation_temporality, delta);
    // Nobody takes these.
    let (metrics, _) = points.collect(&worker(6), second(3));
    assert_eq!(of_counter(&metrics), (2.0, 2, 3));
    let (metrics, points) = points.collect(&worker(9), second(4));
    assert_eq!(of_counter(&metrics), (5.0, 2, 4));
    assert_eq!(of_histogram(&metrics), (5, 2, 4));
    let sum = spread(&metrics).1.sum.unwrap();
    assert!((sum - 0.015).abs() < 1e-9, "{sum}");
    let (metrics, _) = points.collect(&worker(1), second(5));
    assert_eq!(of_counter(&metrics), (1.0, 4, 5), "it began anew");
    assert_eq!(of_histogram(&metrics), (1, 4, 5));
}

#[test]
fn with_low_memory_counters_are_totals_and_histograms_are_not() {
    let points = Points::new(Temporality::LowMemory, second(1));
    let (_, points) = points.collect(&worker(4), second(2));
    let (metrics, _) = points.collect(&worker(7), second(3));
    assert_eq!(of_counter(&metrics), (7.0, 1, 3));
    assert_eq!(of_histogram(&metrics), (3, 2, 3));
}
