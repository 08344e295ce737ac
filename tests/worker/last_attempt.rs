//! A record on its last delivery attempt while its service is down: nothing
//! may give it back, and where that cannot be helped, it is told.

use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::receiver::Reply;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::history::log;
use crate::service::Service;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const LIMIT: &str = "share.delivery.count.limit";

/// One that is down.
async fn down() -> Result<Service> {
    let service = Service::up().await?;
    service.answers(Reply::status(503));
    Ok(service)
}

/// A worker whose only record is on its second and last attempt, and waits for
/// the service: the first one went with another worker.
async fn worker_on_last_attempt(stage: &Stage, service: &Service) -> Result<Worker> {
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(1, 1, 100)).await?;
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(service.receiver.url("/"));
    connector[LIMIT] = json!("2");
    let options = stage
        .worker_options(&connector)
        .property("task.shutdown.graceful.timeout.ms", "1000");
    let holds = |status: &Value| status["in_flight"] == 1;
    let first = Worker::start(&options)?;
    wait_for_status(&first, "the first attempt", MINUTE, holds).await?;
    // One attempt is left, so that this one is a release like any other.
    ensure!(first.stop(MINUTE).await?.code() == Some(75));
    let second = Worker::start(&options)?;
    let holds_again = |status: &Value| holds(status) && status["redelivered"] == 1;
    wait_for_status(&second, "the last attempt", MINUTE, holds_again).await?;
    Ok(second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_during_an_outage_does_not_lose_the_record_on_its_last_attempt() -> Result<()> {
    let stage = Stage::set("last-restart", 1).await?;
    let service = down().await?;
    let worker = worker_on_last_attempt(&stage, &service).await?;
    let api = Api::of(&worker).await?;
    let path = format!("/connectors/{}", stage.name);
    let shows = |left: Value| {
        move |code, body: &Value| code == StatusCode::OK && body["sluice"]["attempts_left"] == left
    };
    let status = format!("{path}/status");
    let body = api.wait_for(&status, MINUTE, shows(json!(0))).await?;
    assert_eq!(body["sluice"]["records_held"], 0, "{body}");

    for query in ["", "?includeTasks=true"] {
        let (code, body) = api.post(&format!("{path}/restart{query}")).await?;
        assert_eq!(code, StatusCode::CONFLICT, "{body}");
        assert!(body.contains(LIMIT), "{body}");
    }
    // A task gives nothing back.
    for task in 0..2 {
        let (code, body) = api.post(&format!("{path}/tasks/{task}/restart")).await?;
        assert_eq!(code, StatusCode::NO_CONTENT, "{body}");
    }
    let replaced = |_, body: &Value| body["sluice"]["tasks_replaced"] == 2;
    api.wait_for(&status, MINUTE, replaced).await?;

    service.answers(Reply::ok());
    let delivered = |status: &Value| status["accepted"] == 1 && status["in_flight"] == 0;
    let last = wait_for_status(&worker, "it is delivered", MINUTE, delivered).await?;
    assert_eq!(last["released"], 0, "{last}");
    assert!(service.tally().missing(ids(1)).is_empty());
    stage.wait_until_consumed(MINUTE).await?;

    api.wait_for(&status, MINUTE, shows(Value::Null)).await?;
    let (code, body) = api.post(&format!("{path}/restart")).await?;
    assert_eq!(code, StatusCode::NO_CONTENT, "{body}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_tells_of_the_record_on_its_last_attempt_and_a_raised_limit_saves_it() -> Result<()>
{
    let stage = Stage::set("last-stop", 1).await?;
    let service = down().await?;
    let worker = worker_on_last_attempt(&stage, &service).await?;
    let raised = [(LIMIT, "5")];
    stage.admin.alter_group(&stage.group(), &raised).await?;
    let ended = worker.stop(MINUTE).await?;
    assert_eq!(ended.code(), Some(75), "{}", worker.output()?);
    let record = format!("{}-0@0", stage.name);
    let log = log(&worker)?;
    let tells = |level: &str, what: &str| {
        let mut lines = log.iter();
        let tells = |line: &&Value| {
            let message = line["message"].as_str().unwrap_or_default();
            line["level"] == level && message.starts_with(what)
        };
        lines.find(tells).cloned().unwrap_or_default()
    };
    let early = tells(
        "WARN",
        "draining with records on their last delivery attempt",
    );
    assert_eq!(early["record"], record, "{}", worker.output()?);
    let late = tells(
        "ERROR",
        "record on its last delivery attempt is undelivered",
    );
    assert_eq!(late["record"], record, "{}", worker.output()?);
    assert_eq!(tells("ERROR", "drain cut short")["lost"], 1, "{log:?}");

    service.answers(Reply::ok());
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(service.receiver.url("/"));
    let next = stage.worker(&connector)?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(next.stop(MINUTE).await?.code(), Some(0));
    service.tally().exactly_once(ids(1))
}
