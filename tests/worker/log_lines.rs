//! What every line of the log says of whose it is.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 300;
/// Where lines about the worker as a whole come from, and of panics, which are
/// told where nobody knows whom they hit: that follows. One that names the
/// connector is about it all the same.
const OF_THE_WORKER: [&str; 3] = ["sluice::app", "sluice::rest", "sluice::telemetry::panics"];
/// Where lines come from that are about a task, all of them.
const OF_TASKS: [&str; 2] = ["sluice_actors::delivery", "sluice::sinks"];

fn lines(worker: &Worker) -> Result<Vec<Value>> {
    let log = worker.stderr()?;
    let lines = log
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("{line} is no JSON")));
    lines.collect()
}

fn is_from(line: &Value, modules: &[&str]) -> bool {
    let target = line["target"].as_str().unwrap_or_default();
    modules.iter().any(|module| target.starts_with(module))
}

/// Why a line does not say whose it is.
fn fault(line: &Value, connector: &str) -> Option<&'static str> {
    let message = line["message"].as_str().unwrap_or_default();
    let names_it = line.to_string().contains(connector);
    let is_about_it = names_it || !is_from(line, &OF_THE_WORKER);
    let is_of_task = is_from(line, &OF_TASKS) || message.starts_with("task ");
    match () {
        () if is_about_it && line["connector"] != connector => Some("no connector"),
        () if is_of_task && !line["task"].is_u64() => Some("no task"),
        () => None,
    }
}

/// A connector to which about everything happens that is logged.
fn eventful(stage: &Stage) -> Value {
    let mut connector = stage.connector("null", 2);
    for (key, value) in [
        ("retry.match", "offset=10,times=1"),
        ("reject.match", "every=50"),
        ("panic.match", "offset=77"),
        ("unavailable.match", "offset=150"),
        ("unavailable.ms", "200"),
        ("errors.tolerance", "all"),
        ("errors.log.enable", "true"),
        ("errors.deadletterqueue.mode", "sluice"),
        ("errors.deadletterqueue.topic.replication.factor", "1"),
        // Known to Connect, and of no effect: a note.
        ("consumer.override.check.crcs", "true"),
    ] {
        connector[key] = json!(value);
    }
    connector["errors.deadletterqueue.topic.name"] = json!(format!("{}-dead", stage.name));
    connector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_names_the_connector_and_the_task_that_it_is_about() -> Result<()> {
    let stage = Stage::set("lines", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    let worker = stage.worker(&eventful(&stage))?;
    let api = Api::of(&worker).await?;
    stage.wait_until_consumed(MINUTE).await?;
    for path in ["/tasks/1/restart", "/restart"] {
        let path = format!("/connectors/{}{path}", stage.name);
        let (status, body) = api.post(&path).await?;
        ensure!(status == StatusCode::NO_CONTENT, "{path}: {status} {body}");
    }
    for wanted in [
        "joining",
        "left the share group",
        "starting anew",
        "record put aside",
        "a task died",
    ] {
        let is_wanted = |line: &str| line.contains(wanted);
        worker.wait_for_log(is_wanted, MINUTE).await?;
    }
    worker.stop(MINUTE).await?;

    let lines = lines(&worker)?;
    assert!(lines.len() > 20, "{lines:?}");
    let faults = lines
        .iter()
        .filter_map(|line| Some((fault(line, &stage.name)?, line)));
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let of_task = |line: &&Value| line["task"].is_u64();
    assert!(lines.iter().filter(of_task).count() > 1, "{lines:?}");
    Ok(())
}

/// Waits until the log has lines of this level about a connector.
async fn wait_for_level(worker: &Worker, connector: &str, level: &str) -> Result<()> {
    eventually(&format!("{connector} logs {level}"), MINUTE, async || {
        let lines = lines(worker)?;
        let mut lines = lines.iter();
        let is_there = lines.any(|line| line["connector"] == connector && line["level"] == level);
        ensure!(is_there, "none yet");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_of_one_connector_is_raised_while_the_others_stay_quiet() -> Result<()> {
    let stage = Stage::set("levels", 1).await?;
    let mut other = stage.to_null(1);
    let quiet = format!("{}-quiet", stage.name);
    other["name"] = json!(quiet);
    let options = stage.worker_options(&stage.to_null(1));
    let options = options.connector(&quiet, &other);
    let worker = Worker::start(&options.property("log.levels", "sluice::telemetry=warn"))?;
    let api = Api::of(&worker).await?;
    let ready = |code: StatusCode, _: &Value| code.is_success();
    api.wait_for("/health/ready", MINUTE, ready).await?;
    let is_loud = |line: &Value| line["level"] == "DEBUG" || line["message"] == "status";
    let loud: Vec<_> = lines(&worker)?.into_iter().filter(is_loud).collect();
    assert!(loud.is_empty(), "{loud:?}");

    let logger = format!("/admin/loggers/connector.{}", stage.name);
    let answer = api
        .put(&logger, json!({"level": "DEBUG"}).to_string())
        .await?;
    assert_eq!(
        answer,
        (StatusCode::OK, format!("[\"connector.{}\"]", stage.name))
    );
    // It joins anew, and tells of its connections at that level.
    for name in [&stage.name, &quiet] {
        let (status, body) = api.post(&format!("/connectors/{name}/restart")).await?;
        ensure!(status == StatusCode::NO_CONTENT, "{name}: {status} {body}");
    }
    wait_for_level(&worker, &stage.name, "DEBUG").await?;
    wait_for_level(&worker, &quiet, "INFO").await?;
    let joined = |line: &str| line.contains("joining") && line.contains(&quiet);
    worker.wait_for_log(joined, MINUTE).await?;
    worker.stop(MINUTE).await?;
    let lines = lines(&worker)?;
    let of_quiet = |line: &&Value| line["connector"] == quiet.as_str() && line["level"] == "DEBUG";
    assert_eq!(lines.iter().find(of_quiet), None);
    Ok(())
}
