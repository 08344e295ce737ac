//! What was parked and is not the business of the connector that now runs
//! under that name: never dropped, never delivered to the wrong sink.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::produce::{NewRecord, produce};
use sluice_test_support::receiver::Reply;

use crate::service::Service;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const LATENCY: Duration = Duration::from_millis(200);
const ODD: &str = "/odd";

/// One that does not take the odd record yet.
async fn refusing() -> Result<Service> {
    let service = Service::start(|arrival| arrival.path == ODD, LATENCY).await?;
    service.answers(Reply::status(500));
    Ok(service)
}

fn odd_arrivals(service: &Service) -> usize {
    let arrivals = service.receiver.arrivals();
    arrivals.iter().filter(|it| it.path == ODD).count()
}

fn parking(stage: &Stage, service: &Service) -> Value {
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(service.receiver.url("/${key}"));
    connector["errors.retry.delay.max.ms"] = json!("300");
    connector["share.park.after.ms"] = json!("0");
    connector["share.park.backoff.ms"] = json!("1000");
    connector["share.park.topic.replication.factor"] = json!("1");
    connector
}

/// Parks the odd record, and ends. It fails before the others are delivered, so
/// that it is seen to be the only one.
async fn park_one(stage: &Stage, service: &Service) -> Result<()> {
    let keys = ["odd", "a", "b", "c"].into_iter();
    let records = keys.map(|key| NewRecord::value("v").key(key));
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let worker = stage.worker(&parking(stage, service))?;
    let parked = |status: &Value| status["parked"].as_u64() >= Some(1) && status["accepted"] == 3;
    wait_for_status(&worker, "it is parked", MINUTE, parked).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_records_are_told_of_while_parking_is_off() -> Result<()> {
    let stage = Stage::set("parked-left", 1).await?;
    let service = refusing().await?;
    park_one(&stage, &service).await?;
    let mut off = parking(&stage, &service);
    let keys = off.as_object_mut().into_iter();
    keys.for_each(|keys| keys.retain(|key, _| !key.starts_with("share.park.")));
    let worker = stage.worker(&off)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", MINUTE, running).await?;
    let (output, topic) = (worker.output()?, format!("{}-parked", stage.group()));
    let warning = format!("topic {topic} holds 1 parked records");
    assert!(output.contains(&warning), "{output}");
    assert!(output.contains("share.park.after.ms: set it again"));
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_another_group_parked_waits_for_that_group() -> Result<()> {
    let stage = Stage::set("parked-by-another", 1).await?;
    let service = refusing().await?;
    park_one(&stage, &service).await?;
    service.answers(Reply::ok());
    let before = odd_arrivals(&service);
    let mut other = parking(&stage, &service);
    other["share.group.id"] = json!(format!("{}-other", stage.name));
    other["share.auto.offset.reset"] = json!("latest");
    // Whatever is tolerated.
    other["errors.tolerance"] = json!("all");
    let worker = stage.worker(&other)?;
    let failed = |status: &Value| status["state"] == "FAILED";
    wait_for_status(&worker, "it is refused", MINUTE, failed).await?;
    let output = worker.output()?;
    for named in [
        format!("topic {}-parked", stage.group()),
        format!("set share.group.id={}", stage.group()),
    ] {
        assert!(output.contains(&named), "{output}");
    }
    assert_eq!(odd_arrivals(&service), before, "at the wrong sink");
    worker.stop(MINUTE).await?;
    let worker = stage.worker(&parking(&stage, &service))?;
    let done = |status: &Value| status["accepted"].as_u64() >= Some(1);
    wait_for_status(&worker, "it is delivered", MINUTE, done).await?;
    assert_eq!(odd_arrivals(&service), before + 1);
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}
