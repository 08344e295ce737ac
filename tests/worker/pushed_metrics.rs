//! Metrics pushed by OTLP are those that Prometheus gets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::Value;
use sluice_test_support::collector::Collector;
use sluice_test_support::otlp::Series;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 500;
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";

/// The count of accepted records of a connector.
pub fn accepted_in<'a>(pushed: &'a [Series], connector: &str) -> Option<&'a Series> {
    let is_it = |it: &&Series| it.name == ACCEPTED && it.attributes["connector"] == connector;
    pushed.iter().find(is_it)
}

/// Values by series, as `name{label="value",...}`, the labels in order.
type Values = BTreeMap<String, f64>;

fn pushed(collector: &Collector) -> Values {
    let series = collector.metrics().into_iter().map(|series| {
        let labels = series.attributes.iter();
        let labels: Vec<_> = labels
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        (
            format!("{}{{{}}}", series.name, labels.join(",")),
            series.value,
        )
    });
    series.collect()
}

/// What `/metrics` has now, in the same form.
async fn scraped(api: &Api) -> Result<Values> {
    let (_, text) = api.text(Method::GET, "/metrics").await?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let values = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').context("no value")?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
        labels.sort_unstable();
        Ok((format!("{name}{{{}}}", labels.join(",")), value.parse()?))
    });
    values.collect()
}

/// What stands still in a worker that has nothing to do: counts of records.
fn totals(values: &Values) -> Values {
    let is_total = |series: &str| {
        let name = series.split('{').next().unwrap_or_default();
        name.starts_with("kafka_connect_") && name.ends_with("_total")
    };
    let totals = values.iter().filter(|(series, _)| is_total(series));
    totals
        .map(|(series, value)| (series.clone(), *value))
        .collect()
}

/// A worker with one connector that pushes so often.
fn pushing(stage: &Stage, collector: &Collector, interval_ms: &str) -> Result<Worker> {
    let options = stage
        .worker_options(&stage.to_null(2))
        .environment("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &collector.url())
        .environment("OTEL_METRIC_EXPORT_INTERVAL", interval_ms)
        .environment("OTEL_SERVICE_NAME", "audit");
    Worker::start(&options)
}

async fn deliver(stage: &Stage, worker: &Worker) -> Result<()> {
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    wait_for_status(worker, "all are accepted", MINUTE, all).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pushed_is_what_prometheus_gets() -> Result<()> {
    let stage = Stage::set("pushed", 2).await?;
    let collector = Collector::start().await?;
    let worker = pushing(&stage, &collector, "300")?;
    let api = Api::of(&worker).await?;
    deliver(&stage, &worker).await?;
    // Some series come and go with what the worker does, gauges go up and down.
    let both = eventually("both have the same", MINUTE, async || {
        let (pushed, scraped) = (pushed(&collector), scraped(&api).await?);
        let names = |values: &Values| values.keys().cloned().collect::<BTreeSet<_>>();
        let (pushes, scrapes) = (names(&pushed), names(&scraped));
        let differ: Vec<_> = pushes.symmetric_difference(&scrapes).collect();
        ensure!(pushed.len() > 100 && differ.is_empty(), "{differ:#?}");
        let (pushed, scraped) = (totals(&pushed), totals(&scraped));
        ensure!(pushed == scraped, "{pushed:#?}\n{scraped:#?}");
        Ok(pushed)
    })
    .await?;
    assert!(both.len() > 5, "{both:#?}");
    let metrics = collector.metrics();
    let accepted = accepted_in(&metrics, &stage.name).context("not counted")?;
    assert_eq!(accepted.value as usize, RECORDS);
    assert_eq!(accepted.service, "audit");
    assert!(accepted.is_total, "{accepted:?}");
    let parts: Vec<_> = metrics.iter().filter(|it| it.is_of_histogram).collect();
    assert!(
        parts
            .iter()
            .all(|it| it.name.starts_with("sluice_settlement_seconds_"))
    );
    let all = parts.iter().find(|it| it.name.ends_with("_count"));
    assert_eq!(all.map(|it| it.value as usize), Some(RECORDS), "{parts:?}");
    assert!(collector.spans().is_empty(), "nobody asked for traces");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_counts_are_pushed_when_the_worker_stops() -> Result<()> {
    let stage = Stage::set("pushed-last", 2).await?;
    let collector = Collector::start().await?;
    let worker = pushing(&stage, &collector, "86400000")?;
    deliver(&stage, &worker).await?;
    assert_eq!(collector.pushes(), 0);
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    assert_eq!(collector.pushes(), 1);
    let metrics = collector.metrics();
    let accepted = accepted_in(&metrics, &stage.name).context("not counted")?;
    assert_eq!(accepted.value as usize, RECORDS);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_holds_up_nobody_and_is_told_of_once() -> Result<()> {
    let stage = Stage::set("unpushed", 1).await?;
    let options = stage
        .worker_options(&stage.to_null(2))
        .environment("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1")
        .environment("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let worker = Worker::start(&options)?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    stage.wait_until_consumed(MINUTE).await?;
    let warning = "metrics cannot be pushed, trying on";
    worker
        .wait_for_log(|line| line.contains(warning), MINUTE)
        .await?;
    let api = Api::of(&worker).await?;
    let healthy = |_, body: &Value| body["status"] == "healthy";
    api.wait_for("/health", MINUTE, healthy).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    assert_eq!(worker.stderr()?.matches(warning).count(), 1);
    Ok(())
}
