//! Status, health, restarts and metrics of workers at work.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, run_command};

use crate::api::Api;
use crate::load::Load;
use crate::stage::{BINARY, Stage};

const MINUTE: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 3;
const TASKS: usize = 4;
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";

fn is_running(status: StatusCode, body: &Value) -> bool {
    let tasks = body["tasks"].as_array();
    let running = |it: &Value| it["state"] == "RUNNING";
    status == StatusCode::OK
        && running(&body["connector"])
        && tasks.is_some_and(|tasks| tasks.len() == TASKS && tasks.iter().all(running))
}

/// Waits for so many more accepted records than there were.
async fn goes_on(api: &Api, name: &str) -> Result<()> {
    let label = format!("connector=\"{name}\"");
    let before = api.metric(ACCEPTED, &label).await?;
    eventually("records are accepted", MINUTE, async || {
        let now = api.metric(ACCEPTED, &label).await?;
        ensure!(now >= before + 100.0, "{now} after {before}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_both_kinds_under_load_lose_nothing() -> Result<()> {
    let stage = Stage::set("restarts", PARTITIONS).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut connector = stage.to_null(TASKS);
    connector["record.latency.us"] = json!("1000");
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    let path = format!("/connectors/{}", stage.name);
    let status = format!("{path}/status");
    api.wait_for(&status, MINUTE, is_running).await?;
    goes_on(&api, &stage.name).await?;

    for task in 0..TASKS {
        let (code, body) = api.post(&format!("{path}/tasks/{task}/restart")).await?;
        assert_eq!((code, body.as_str()), (StatusCode::NO_CONTENT, ""));
    }
    let replaced =
        |code, body: &Value| is_running(code, body) && body["sluice"]["tasks_replaced"] == TASKS;
    let after = api.wait_for(&status, MINUTE, replaced).await?;
    assert_eq!(
        after["sluice"]["generation"], 1,
        "the pipeline stayed: {after}"
    );
    goes_on(&api, &stage.name).await?;

    let (code, body) = api
        .post(&format!("{path}/restart?includeTasks=true"))
        .await?;
    assert_eq!(code, StatusCode::ACCEPTED);
    let body: Value = serde_json::from_str(&body)?;
    assert_eq!(body["connector"]["state"], "RESTARTING", "{body}");
    let anew = |code, body: &Value| is_running(code, body) && body["sluice"]["tasks_replaced"] == 0;
    api.wait_for(&status, MINUTE, anew).await?;
    goes_on(&api, &stage.name).await?;

    let sent = load.stop().await?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    // In good order: not even a duplicate.
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(sent))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_connector_tells_its_record_and_leaves_the_worker_ready() -> Result<()> {
    let stage = Stage::set("failing", 1).await?;
    let poison = [NewRecord::value("no JSON").partition(0)];
    produce(stage.kafka.bootstrap_servers(), &stage.name, poison).await?;
    let mut failing = stage.to_null(1);
    failing["value.converter"] = json!("org.apache.kafka.connect.json.JsonConverter");
    let good = format!("{}-good", stage.name);
    let mut other = stage.connector("null", 1);
    other["name"] = json!(good);
    let options = stage.worker_options(&failing).connector(&good, &other);
    let worker = Worker::start(&options)?;
    let api = Api::of(&worker).await?;

    let path = format!("/connectors/{}", stage.name);
    let status = format!("{path}/status");
    let failed = |_, body: &Value| body["connector"]["state"] == "FAILED";
    let body = api.wait_for(&status, MINUTE, failed).await?;
    let trace = body["connector"]["trace"].as_str().unwrap_or_default();
    let record = format!("{}-0@0", stage.name);
    assert!(trace.contains(&record), "{trace}");
    assert!(trace.contains("VALUE_CONVERTER"), "{trace}");
    // Its task along with it, as Connect's tools look at tasks.
    assert_eq!(body["tasks"][0]["state"], "FAILED", "{body}");
    assert_eq!(body["tasks"][0]["trace"], trace, "{body}");

    // The other one is at work, and so is the worker.
    let ready = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health/ready", MINUTE, ready).await?;
    let (_, health) = api.get("/health").await?;
    assert_eq!(health["status"], "healthy");
    let told = health["message"].as_str().unwrap_or_default();
    assert!(told.contains(&record), "{told}");

    let table = run_command(BINARY, &["status", "--url", &api.url]).await;
    let told = format!("{:#}", table.expect_err("something has failed"));
    assert!(told.contains("exit status: 70"), "{told}");
    assert!(told.contains(&record), "{told}");
    let table = run_command(BINARY, &["status", &good, "--url", &api.url]).await?;
    assert!(table.contains("RUNNING"), "{table}");

    // Nothing was mended, so it fails again, over the record's next delivery.
    let (code, _) = api.post(&format!("{path}/restart")).await?;
    assert_eq!(code, StatusCode::NO_CONTENT);
    let again =
        |code, body: &Value| failed(code, body) && body["sluice"]["totals"]["redelivered"] == 1;
    api.wait_for(&status, MINUTE, again).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_ready_once_its_connector_has_joined_and_opened_its_sinks() -> Result<()> {
    let stage = Stage::set("health", 1).await?;
    let mut connector = stage.to_null(1);
    let topic = format!("{}-later", stage.name);
    if let Some(fields) = connector.as_object_mut() {
        fields.remove("topics");
    }
    connector["topics.regex"] = json!(topic);
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    // There is no such topic yet.
    let told = |code, body: &Value| {
        let cause = &body["sluice"]["connectors"][&stage.name]["cause"];
        code != StatusCode::OK && cause.as_str().is_some_and(|it| it.contains("topics.regex"))
    };
    api.wait_for("/health", MINUTE, told).await?;
    let (code, _) = api.get("/health/ready").await?;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    let (code, _) = api.get("/health/live").await?;
    assert_eq!(code, StatusCode::OK);

    stage.admin.create_topic(&topic, 1).await?;
    let ready = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health/ready", MINUTE, ready).await?;
    let (_, root) = api.get("/").await?;
    assert!(root["kafka_cluster_id"].is_string(), "{root}");
    Ok(())
}

/// With `share.auto.offset.reset=latest`, what is produced before the group has
/// a position is not for it; once the worker says that it is ready, all is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_produced_once_it_is_ready_arrives_though_the_group_begins_at_the_end() -> Result<()>
{
    const MANY: i32 = 12;
    const RECORDS: usize = 240;
    let stage = Stage::set("from-the-end", MANY).await?;
    let servers = stage.kafka.bootstrap_servers();
    let earlier = (0..MANY).map(|partition| NewRecord::value("earlier").partition(partition));
    produce(servers, &stage.name, earlier).await?;
    let mut connector = stage.to_null(TASKS);
    connector["share.auto.offset.reset"] = json!("latest");
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    let ready = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health/ready", MINUTE, ready).await?;
    produce(servers, &stage.name, json_records(RECORDS, MANY, 100)).await?;
    eventually("all are delivered", MINUTE, async || {
        let missing = Tally::from_json_lines(&stage.file(), "/id")?.missing(ids(RECORDS));
        ensure!(missing.is_empty(), "{} are missing", missing.len());
        Ok(())
    })
    .await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))
}
