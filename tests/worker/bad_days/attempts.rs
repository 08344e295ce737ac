//! Delivery attempts are used up by who needs them, and by nobody else.

use anyhow::{Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::wait::eventually;

use super::case::PATIENCE;
use crate::api::Api;
use crate::history::{log, statuses};
use crate::stage::{Stage, wait_for_status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_fails_uses_up_its_own_attempts_and_is_kept_on_its_last() -> Result<()> {
    const RECORDS: usize = 100;
    const LIMIT: usize = 3;
    let stage = Stage::set("poisoned-batch", 1).await?;
    let records = json_records(RECORDS, 1, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let mut connector = stage.to_null(2);
    connector["share.delivery.count.limit"] = json!(LIMIT.to_string());
    // Far more often than it is delivered.
    connector["retry.match"] = json!("value=id-000050,times=15");
    connector["errors.retry.timeout"] = json!("100");
    connector["errors.retry.delay.max.ms"] = json!("300");
    let worker = stage.worker(&connector)?;
    let last = |status: &Value| status["redelivered"] == LIMIT - 1;
    let status = wait_for_status(&worker, "its last attempt", PATIENCE, last).await?;
    for (field, expected) in [
        ("accepted", RECORDS - 1),
        ("released", LIMIT - 1),
        ("in_flight", 1),
    ] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    let accepted = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "it is delivered", PATIENCE, accepted).await?;
    assert_eq!(status["released"], LIMIT - 1, "{status}");
    assert_eq!(status["redelivered"], LIMIT - 1, "{status}");
    stage.wait_until_consumed(PATIENCE).await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_with_many_records_in_flight_use_up_no_attempt() -> Result<()> {
    const LIMIT: usize = 5;
    const RECORDS: usize = 5000;
    const WINDOW: u64 = 200;
    let stage = Stage::set("restarted", 3).await?;
    let records = json_records(RECORDS, 3, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let mut connector = stage.to_null(4);
    connector["share.delivery.count.limit"] = json!(LIMIT.to_string());
    connector["share.max.in.flight.records"] = json!(WINDOW.to_string());
    connector["record.latency.us"] = json!("5000");
    let worker = stage.worker(&connector)?;
    let api = Api::of(&worker).await?;
    let path = format!("/connectors/{}/restart?includeTasks=true", stage.name);
    for restarts in 1..=LIMIT {
        let full = |status: &Value| status["in_flight"].as_u64() > Some(WINDOW / 2);
        wait_for_status(&worker, "many are in flight", PATIENCE, full).await?;
        assert_eq!(api.post(&path).await?.0, StatusCode::ACCEPTED);
        eventually("it has joined anew", PATIENCE, async || {
            let log = log(&worker)?;
            let joined = log.iter().filter(|line| line["message"] == "joining");
            ensure!(joined.count() > restarts, "not yet, after {restarts}");
            Ok(())
        })
        .await?;
    }
    stage.wait_until_consumed(PATIENCE).await?;
    let again = statuses(&worker)?;
    let again = again.iter().find(|status| status["redelivered"] != 0);
    assert_eq!(again, None);
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))
}
