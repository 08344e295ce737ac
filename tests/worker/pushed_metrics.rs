//! Metrics pushed by OTLP are those that Prometheus gets.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::Value;
use sluice_test_support::collector::{Collector, Series};
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 500;
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";

/// Series as `name{label="value",...}`, the labels in order.
fn as_text(series: &Series) -> String {
    let labels = series.attributes.iter();
    let labels: Vec<_> = labels
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{}{{{}}}", series.name, labels.join(","))
}

/// The series that `/metrics` has now, in the same form.
async fn scraped(api: &Api) -> Result<BTreeSet<String>> {
    let (_, text) = api.text(Method::GET, "/metrics").await?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| {
        let (series, _) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
        labels.sort_unstable();
        Some(format!("{name}{{{}}}", labels.join(",")))
    });
    Ok(series.collect())
}

async fn wait_for_accepted(collector: &Collector, count: usize) -> Result<Series> {
    eventually("the collector has the count", MINUTE, async || {
        let pushed = collector.metrics();
        let accepted = pushed.iter().find(|it| it.name == ACCEPTED);
        let accepted = accepted.filter(|it| it.value as usize == count);
        ensure!(accepted.is_some(), "{} series", pushed.len());
        Ok(accepted.cloned())
    })
    .await?
    .ok_or_else(|| anyhow::anyhow!("gone"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_pushed_is_what_prometheus_gets() -> Result<()> {
    let stage = Stage::set("pushed", 2).await?;
    let collector = Collector::start().await?;
    let options = stage
        .worker_options(&stage.to_null(2))
        .environment("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &collector.url())
        .environment("OTEL_METRIC_EXPORT_INTERVAL", "300")
        .environment("OTEL_SERVICE_NAME", "audit");
    let worker = Worker::start(&options)?;
    let api = Api::of(&worker).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;
    let accepted = wait_for_accepted(&collector, RECORDS).await?;
    assert_eq!(accepted.service, "audit");
    assert_eq!(accepted.attributes["connector"], stage.name);
    assert!(accepted.is_total, "{accepted:?}");

    // Some come and go with what the worker does.
    eventually("both have the same series", MINUTE, async || {
        let pushed: BTreeSet<String> = collector.metrics().iter().map(as_text).collect();
        let scraped = scraped(&api).await?;
        let differ: Vec<_> = pushed.symmetric_difference(&scraped).collect();
        ensure!(pushed.len() > 100 && differ.is_empty(), "{differ:#?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    assert!(collector.spans().is_empty(), "nobody asked for traces");
    let before = collector.pushes();
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    assert!(collector.pushes() > before, "the last counts are pushed");
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
