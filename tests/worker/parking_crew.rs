//! Workers that share a parking topic: what one of them held until it was due is
//! taken by the other when that one is killed.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::Reply;

use crate::parking::{Others, fill, id, is_failing, parked_of, parking, refusing, taken};
use crate::service::Service;
use crate::stage::{Stage, status, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
/// Every third one fails.
const COUNT: usize = 60;
const FAILING: usize = COUNT / 3;
/// Longer than the test takes on any machine: who waits for so long is killed
/// before.
const AN_HOUR: &str = "3600000";
/// Who waits for no longer takes what has become free.
const A_SECOND: &str = "1000";

fn waiting_for(connector: &Value, backoff: &str) -> Value {
    let mut connector = connector.clone();
    connector["share.park.after.ms"] = json!("0");
    connector["share.park.backoff.ms"] = json!(backoff);
    connector
}

/// Parks those that fail, and delivers the others. Killed, it tries none of them
/// again.
async fn park_all(stage: &Stage, connector: &Value) -> Result<()> {
    fill(stage, COUNT).await?;
    let others = Others::start(stage);
    let worker = stage.worker(connector)?;
    let parked = |status: &Value| status["parked"] == FAILING;
    wait_for_status(&worker, "all are parked", 2 * MINUTE, parked).await?;
    let rest = COUNT - FAILING + others.stop().await?;
    let accepted = |status: &Value| status["accepted"] == rest;
    wait_for_status(&worker, "the others are accepted", 2 * MINUTE, accepted).await?;
    worker.kill()?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_worker_held_until_it_was_due_is_delivered_once_by_the_other() -> Result<()> {
    let stage = Stage::set("parked-crew", 1).await?;
    let service = refusing(is_failing).await?;
    let connector = parking(&stage, &service);
    let patient = waiting_for(&connector, AN_HOUR);
    park_all(&stage, &patient).await?;
    let (tried, parked) = (tries(&service), parked_of(&stage));
    let copies = stage.admin.end_offsets(&parked).await?;

    let victim = stage.worker(&patient)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    let holds_all = |status: &Value| running(status) && status["in_flight"] == FAILING;
    wait_for_status(&victim, "it holds them", MINUTE, holds_all).await?;
    let survivor = stage.worker(&waiting_for(&connector, A_SECOND))?;
    wait_for_status(&survivor, "it runs", MINUTE, running).await?;
    service.answers(Reply::ok());
    assert!(holds_all(&status(&victim)?), "they are not due");
    assert_eq!(tries(&service), tried, "none is tried before it is due");
    victim.kill()?;

    let done = |status: &Value| status["accepted"] == FAILING && status["in_flight"] == 0;
    let status = wait_for_status(&survivor, "all are delivered", 2 * MINUTE, done).await?;
    // One attempt of each that the dead one held, and none is archived.
    assert_eq!(status["redelivered"], FAILING, "{status}");
    for field in ["rejected", "released", "lost", "parked"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    taken(&service).exactly_once(ids(COUNT))?;
    let admin = &stage.admin;
    admin.wait_until_consumed(&parked, &parked, MINUTE).await?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(admin.end_offsets(&parked).await?, copies);
    check_names(&stage, &service)?;
    assert_eq!(survivor.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// How often those came that fail at first.
fn tries(service: &Service) -> usize {
    let arrivals = service.receiver.arrivals();
    arrivals.iter().filter(|it| is_failing(id(it))).count()
}

/// Each that failed came in the end by its first name.
fn check_names(stage: &Stage, service: &Service) -> Result<()> {
    let arrivals = service.receiver.arrivals();
    for (offset, name) in ids(COUNT).enumerate().filter(|(_, id)| is_failing(id)) {
        let last = arrivals.iter().rfind(|it| id(it) == name);
        let last = last.context("it was never tried")?;
        let key = last.header("idempotency-key").context("no key")?;
        assert_eq!(key, format!("{}-0-{offset}", stage.name));
        let value: Value = serde_json::from_slice(&last.body)?;
        let origin = ["topic", "partition", "offset"].map(|field| value[field].clone());
        assert_eq!(
            origin,
            [json!(stage.name), json!(0), json!(offset)],
            "{value}"
        );
    }
    Ok(())
}
