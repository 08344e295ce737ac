//! Prometheus on a worker's metrics.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::Value;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;

use crate::api::Api;
use crate::prometheus::{Prometheus, check_by_promtool};
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";
const SETTLEMENT: &str = "sluice_settlement_seconds";
const TRICKLE: usize = 40;
/// `fetch.max.wait.ms`, in seconds.
const FETCH_WAIT: f64 = 0.5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_scrapes_a_worker_and_settlements_are_quick_when_it_is_idle() -> Result<()> {
    let stage = Stage::set("scraped", 1).await?;
    let worker = stage.worker(&stage.to_null(2))?;
    let api = Api::of(&worker).await?;
    let ready = |code: reqwest::StatusCode, _: &Value| code.is_success();
    api.wait_for("/health/ready", MINUTE, ready).await?;
    // One at a time, so that each finds the worker idle.
    let label = format!("connector=\"{}\"", stage.name);
    let records: Vec<_> = json_records(TRICKLE, 1, 100).collect();
    for (number, record) in records.into_iter().enumerate() {
        produce(stage.kafka.bootstrap_servers(), &stage.name, [record]).await?;
        eventually("it is accepted", MINUTE, async || {
            let accepted = api.metric(ACCEPTED, &label).await?;
            ensure!(accepted as usize > number, "{accepted}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
    }

    let (_, text) = api.text(Method::GET, "/metrics").await?;
    check_by_promtool(&text)?;

    let prometheus = Prometheus::start(&api.url)?;
    let up = format!("{ACCEPTED}{{{label}}}");
    eventually("Prometheus has scraped", MINUTE, async || {
        let accepted = prometheus.ask(&up).await?;
        ensure!(accepted as usize == TRICKLE, "{accepted}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let series = format!("{SETTLEMENT}_bucket{{{label}}}");
    let median = prometheus
        .ask(&format!("histogram_quantile(0.5, {series})"))
        .await?;
    let spread = text.lines().filter(|line| line.starts_with(SETTLEMENT));
    let spread = spread.collect::<Vec<_>>().join("\n");
    // Behind the next fetch, which waits for records that do not come, it would
    // take as long as that.
    assert!(
        median < FETCH_WAIT / 5.0,
        "a settlement took {median} s:\n{spread}"
    );
    Ok(())
}
