//! A sink that is down for many lock times: nothing is lost or comes twice, and
//! all of it is delivered soon after it is back.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::Reply;
use tokio::time::{Instant, sleep_until};

use crate::api::Api;
use crate::chaos;
use crate::load::Load;
use crate::service::Service;
use crate::stage::{Stage, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than anything that a loaded machine does to a running worker.
const LOCK: Duration = Duration::from_secs(2);
const LOCK_TIMES: u32 = 30;
const LIMIT: &str = "5";
const LONGEST_REST: Duration = Duration::from_secs(2);
const TASKS: usize = 8;
const PARTITIONS: i32 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_down_for_thirty_lock_times_costs_no_attempt_and_gets_all_when_it_is_back()
-> Result<()> {
    no_record_is_lost_in(LOCK * LOCK_TIMES, 100).await
}

/// By `./test chaos`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn a_sink_down_for_minutes_costs_no_attempt_and_gets_all_when_it_is_back() -> Result<()> {
    let minutes = chaos::minutes()?;
    no_record_is_lost_in(Duration::from_secs(60 * minutes), 20).await
}

/// While the sink is away for so long, so many records a second keep coming.
async fn no_record_is_lost_in(outage: Duration, per_second: usize) -> Result<()> {
    let stage = Stage::set("outage", PARTITIONS).await?;
    let lock = LOCK.as_millis().to_string();
    let group = [
        ("share.record.lock.duration.ms", lock.as_str()),
        ("share.delivery.count.limit", LIMIT),
    ];
    stage.admin.alter_group(&stage.group(), &group).await?;
    let service = Service::up().await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(service.receiver.url("/orders"));
    connector["errors.retry.delay.max.ms"] = json!(LONGEST_REST.as_millis().to_string());
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    let load = Load::start(&stage, PARTITIONS, per_second);
    let some = |status: &Value| status["accepted"].as_u64() > Some(100);
    wait_for_status(&worker, "it delivers", PATIENCE, some).await?;

    service.answers(Reply::status(503));
    let began = Instant::now();
    let down = |status: &Value| {
        status["outage"]
            .as_str()
            .is_some_and(|it| it.contains("503"))
    };
    wait_for_status(&worker, "the outage shows", PATIENCE, down).await?;
    let probing = |status: &Value| down(status) && status["outage_ms"].as_u64() > Some(5_000);
    wait_for_status(&worker, "it lasts", PATIENCE, probing).await?;
    let (asked, opened) = (service.receiver.count(), began.elapsed());
    sleep_until(began + outage).await;
    // Half of a rest at least, and the answer, between two probes.
    let probes = service.receiver.count() - asked;
    let most = (outage - opened).as_secs_f64() / (LONGEST_REST / 2).as_secs_f64();
    ensure!(
        (5..=most as usize + 1).contains(&probes),
        "{probes} requests of at most {most:.0}"
    );
    health_tells(&api, &stage.name).await?;
    let metric = format!("connector=\"{}\"", stage.name);
    let lasted = api.metric("sluice_sink_outage_seconds", &metric).await?;
    ensure!(lasted > 0.9 * outage.as_secs_f64(), "{lasted} s");

    service.answers(Reply::ok());
    let records = service.takes_all(load, &stage, PATIENCE).await?;
    let settled = |status: &Value| status["accepted"] == records && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, settled).await?;
    for none in ["redelivered", "released", "rejected", "lost", "unknown"] {
        assert_eq!(status[none], 0, "{none} in {status}");
    }
    assert_eq!(status["outage"], "", "{status}");
    api.wait_for("/health", PATIENCE, |code, _| code == StatusCode::OK)
        .await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

async fn health_tells(api: &Api, connector: &str) -> Result<()> {
    let (code, health) = api.get("/health").await?;
    let told = &health["sluice"]["connectors"][connector];
    ensure!(code == StatusCode::INTERNAL_SERVER_ERROR, "{health}");
    ensure!(told["health"] == "bad", "{health}");
    ensure!(
        told["cause"].as_str().is_some_and(|it| it.contains("503")),
        "{health}"
    );
    ensure!(told["outage_ms"].as_u64() > Some(50_000), "{health}");
    let (ready, health) = api.get("/health/ready").await?;
    ensure!(ready == StatusCode::OK, "an outage passes: {health}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stopped_in_an_outage_gives_all_back_once() -> Result<()> {
    let stage = Stage::set("stopped-in-outage", PARTITIONS).await?;
    let service = Service::up().await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(service.receiver.url("/orders"));
    service.answers(Reply::status(503));
    let load = Load::start(&stage, PARTITIONS, 200);
    let worker = stage.worker(&connector)?;
    let down = |status: &Value| status["outage_ms"].as_u64() > Some(2_000);
    let status = wait_for_status(&worker, "the outage lasts", PATIENCE, down).await?;
    let held = status["in_flight"].as_u64().unwrap_or_default();
    ensure!(held > 0, "{status}");
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(75));

    service.answers(Reply::ok());
    let next = stage.worker(&connector)?;
    let records = load.stop().await?;
    let settled = |status: &Value| status["accepted"] == records;
    let status = wait_for_status(&next, "all are accepted", PATIENCE, settled).await?;
    assert_eq!(status["redelivered"], held, "{status}");
    service.tally().exactly_once(ids(records))?;
    assert_eq!(next.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
