//! Delivery attempts are used up one by one, by all that can use them up, until
//! the last one: nothing is archived, and the gate holds or puts aside.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::process::Signal;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::proxy::Proxy;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::bad_days::site::Site;
use crate::history::{lines_of, log};
use crate::stage::{Stage, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 2;
const RECORDS: usize = 200;
const LIMIT: &str = "5";
/// Longer than anything that a loaded machine does to a running worker.
const LOCK_MS: &str = "2000";
/// What `value=id-00000` matches.
const STUBBORN: usize = 10;

async fn stage_with_limit(stem: &str, limit: &str, records: usize) -> Result<Stage> {
    let stage = Stage::set(stem, PARTITIONS).await?;
    fill(&stage, limit, records).await?;
    Ok(stage)
}

async fn fill(stage: &Stage, limit: &str, records: usize) -> Result<()> {
    let group = [
        ("share.record.lock.duration.ms", LOCK_MS),
        ("share.delivery.count.limit", limit),
    ];
    stage.admin.alter_group(&stage.group(), &group).await?;
    let records = json_records(records, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    Ok(())
}

/// A worker that takes all records, most of them ahead of its tasks, and
/// delivers none.
fn hoarder(stage: &Stage) -> Result<Worker> {
    hoarder_at(stage, stage.kafka.bootstrap_servers())
}

fn hoarder_at(stage: &Stage, servers: &str) -> Result<Worker> {
    let mut connector = stage.connector("null", 2);
    connector["latency.ms"] = json!("600000");
    connector["max.put.records"] = json!("10");
    connector["share.max.in.flight.records"] = json!("1000");
    let options = stage.worker_options_at(servers, &connector);
    Worker::start(&options.property("task.shutdown.graceful.timeout.ms", "1000"))
}

/// Waits until all records are in this worker, and have come so often that so
/// many attempts are left.
async fn wait_for_hoard(worker: &Worker, api: &Api, name: &str, attempts_left: u64) -> Result<()> {
    let is_full = |status: &Value| status["in_flight"] == RECORDS;
    wait_for_status(worker, "it has them all", PATIENCE, is_full).await?;
    let path = format!("/connectors/{name}/status");
    let counted = |_: StatusCode, body: &Value| body["sluice"]["attempts_left"] == attempts_left;
    api.wait_for(&path, PATIENCE, counted).await?;
    Ok(())
}

/// Uses up all attempts but the last: returns the worker that had the one
/// before it, which is frozen.
async fn use_up_attempts(stage: &Stage) -> Result<Worker> {
    let name = &stage.name;
    let first = hoarder(stage)?;
    let api = Api::of(&first).await?;
    wait_for_hoard(&first, &api, name, 4).await?;
    // Tasks come and go under the same locks.
    for task in 0..2 {
        let path = format!("/connectors/{name}/tasks/{task}/restart");
        ensure!(api.post(&path).await?.0 == StatusCode::NO_CONTENT);
    }
    let replaced = |_: StatusCode, body: &Value| body["sluice"]["tasks_replaced"] == 2;
    api.wait_for(&format!("/connectors/{name}/status"), PATIENCE, replaced)
        .await?;
    wait_for_hoard(&first, &api, name, 4).await?;
    let restart = format!("/connectors/{name}/restart?includeTasks=true");
    ensure!(api.post(&restart).await?.0.is_success());
    wait_for_hoard(&first, &api, name, 3).await?;
    assert_eq!(first.stop(PATIENCE).await?.code(), Some(75));

    let second = hoarder(stage)?;
    wait_for_hoard(&second, &Api::of(&second).await?, name, 2).await?;
    second.kill()?;

    let third = hoarder(stage)?;
    wait_for_hoard(&third, &Api::of(&third).await?, name, 1).await?;
    third.signal(Signal::STOP)?;
    Ok(third)
}

/// Warnings that records are near the limit.
fn warnings(worker: &Worker) -> Result<Vec<Value>> {
    let mut lines = log(worker)?;
    let near = "records are near share.delivery.count.limit";
    lines.retain(|line| {
        line["message"]
            .as_str()
            .is_some_and(|it| it.starts_with(near))
    });
    Ok(lines)
}

async fn wait_for_near_limit(api: &Api, connector: &str, records: usize) -> Result<()> {
    let label = format!("connector=\"{connector}\"");
    eventually("so many are near the limit", PATIENCE, async || {
        let near = api.metric("sluice_records_near_limit", &label).await?;
        ensure!((near - records as f64).abs() < 0.5, "{near} are");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_last_attempt_records_are_held_until_the_sink_takes_them() -> Result<()> {
    let stage = stage_with_limit("last-held", LIMIT, RECORDS).await?;
    let frozen = use_up_attempts(&stage).await?;
    let mut connector = stage.to_null(2);
    connector["share.retriable"] = json!("release");
    connector["errors.retry.timeout"] = json!("0");
    connector["errors.retry.delay.max.ms"] = json!("1000");
    connector["retry.match"] = json!("value=id-00000,times=6");
    let last = stage.worker(&connector)?;
    let api = Api::of(&last).await?;
    let waiting = |status: &Value| status["waiting"] == STUBBORN && status["in_flight"] == STUBBORN;
    wait_for_status(&last, "what fails is held", PATIENCE, waiting).await?;
    wait_for_near_limit(&api, &stage.name, STUBBORN).await?;
    frozen.kill()?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&last, "all are accepted", PATIENCE, all).await?;
    assert_eq!(status["redelivered"], RECORDS, "{status}");
    assert_eq!(
        (&status["released"], &status["lost"]),
        (&json!(0), &json!(0))
    );
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    let warned = warnings(&last)?;
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0]["delivery_count"], 5, "{warned:?}");
    wait_for_near_limit(&api, &stage.name, 0).await?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(last.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_last_attempt_a_tolerated_failure_is_put_aside_with_its_cause() -> Result<()> {
    let stage = stage_with_limit("last-aside", LIMIT, RECORDS).await?;
    let frozen = use_up_attempts(&stage).await?;
    let mut connector = stage.to_null(2);
    connector["errors.tolerance"] = json!("all");
    connector["errors.log.enable"] = json!("true");
    connector["errors.retry.timeout"] = json!("1000");
    connector["retry.match"] = json!("value=id-00000");
    let last = stage.worker(&connector)?;
    let rejected = |status: &Value| status["rejected"] == STUBBORN;
    wait_for_status(&last, "what fails is put aside", PATIENCE, rejected).await?;
    frozen.kill()?;
    let all = |status: &Value| status["accepted"] == RECORDS - STUBBORN;
    let status = wait_for_status(&last, "the rest is accepted", PATIENCE, all).await?;
    assert_eq!(status["released"], 0, "{status}");
    stage.wait_until_consumed(PATIENCE).await?;
    let delivered = Tally::from_json_lines(&stage.file(), "/id")?;
    delivered.exactly_once(ids(RECORDS).skip(STUBBORN))?;
    let mut told = log(&last)?;
    told.retain(|line| line["message"] == "record put aside");
    assert_eq!(told.len(), STUBBORN, "each one is told: {told:?}");
    let cause = told[0]["error"].as_str().unwrap_or_default();
    ensure!(cause.starts_with("on its last delivery attempt"), "{cause}");
    assert_eq!(last.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

/// KIP-1302's way: far from the limit a record that fails goes back at once, each
/// time, whatever the retry policy would do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_to_be_tried_again_is_released_each_time_below_the_limit() -> Result<()> {
    let stage = stage_with_limit("released", LIMIT, RECORDS).await?;
    let mut connector = stage.to_null(2);
    connector["share.retriable"] = json!("release");
    connector["retry.match"] = json!("value=id-000007,times=2");
    let worker = stage.worker(&connector)?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    for (field, expected) in [("released", 2), ("redelivered", 2), ("lost", 0)] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

/// The one way left: the operator hears of each record by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_on_the_last_attempt_names_what_the_broker_archives() -> Result<()> {
    let stage = stage_with_limit("last-stop", "2", 1).await?;
    let has_it = |status: &Value| status["in_flight"] == 1;
    for (begin, is_lost) in [
        ("drain cut short, some records come again", false),
        ("record on its last delivery attempt is undelivered", true),
    ] {
        let worker = hoarder(&stage)?;
        wait_for_status(&worker, "it has the record", PATIENCE, has_it).await?;
        assert_eq!(worker.stop(PATIENCE).await?.code(), Some(75));
        let told = log(&worker)?;
        let says = |line: &&Value| {
            line["message"]
                .as_str()
                .is_some_and(|it| it.starts_with(begin))
        };
        assert_eq!(told.iter().filter(says).count(), 1, "{told:?}");
        let errors = lines_of(&told, "ERROR");
        let named = errors.iter().filter(|line| {
            let record = line["record"].as_str().unwrap_or_default();
            record.starts_with(&stage.name) && record.ends_with("@0")
        });
        assert_eq!(named.count(), usize::from(is_lost), "{told:?}");
    }
    Ok(())
}

/// Worker and broker live on, and each cut is a session with all its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_use_up_all_attempts_but_the_last_and_lose_nothing() -> Result<()> {
    let site = Site::alone().await?;
    let proxies = site.kafka.proxies().await?;
    let cut = || proxies.iter().map(Proxy::cut).sum::<usize>();
    let stage = Stage::on(site.kafka, "cut", PARTITIONS, 1).await?;
    fill(&stage, LIMIT, RECORDS).await?;
    let first = hoarder_at(&stage, site.kafka.proxied_bootstrap_servers()?)?;
    let api = Api::of(&first).await?;
    for attempts_left in [4, 3, 2] {
        wait_for_hoard(&first, &api, &stage.name, attempts_left).await?;
        ensure!(cut() > 0, "it has no connections");
    }
    wait_for_hoard(&first, &api, &stage.name, 1).await?;
    wait_for_near_limit(&api, &stage.name, RECORDS).await?;
    // Or it would take some of them back, and never deliver them.
    first.signal(Signal::STOP)?;
    ensure!(cut() > 0, "it has no connections");

    let last = stage.worker(&stage.to_null(2))?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&last, "all are accepted", PATIENCE, all).await?;
    for (field, expected) in [("redelivered", RECORDS), ("released", 0), ("lost", 0)] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(last.stop(PATIENCE).await?.code(), Some(0));
    first.kill()?;
    Ok(())
}
