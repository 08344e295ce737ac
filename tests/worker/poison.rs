//! One record that is no JSON among good ones.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::wait::eventually;

use crate::history::{lines_of, log, number, put_aside};
use crate::stage::{Stage, lines, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 1000;
/// The id that the poison has the place of.
const POISON: usize = 500;
const POISON_TEXT: &str = "poison, not JSON";
/// Lock times over which the failed record must stay locked.
const RENEWALS: u64 = 5;

/// Produces some of the ids to the only partition, so that id and offset are
/// alike.
async fn produce_some(stage: &Stage, ids: Range<usize>) -> Result<()> {
    let records = json_records(ids.end, 1, 100).enumerate().skip(ids.start);
    let records = records.map(|(number, record)| match number {
        POISON => NewRecord::value(POISON_TEXT).partition(0),
        _ => record,
    });
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    Ok(())
}

fn good_ids(count: usize) -> impl Iterator<Item = String> {
    ids(count)
        .enumerate()
        .filter_map(|(number, id)| (number != POISON).then_some(id))
}

fn json_to_file(stage: &Stage, tolerance: &str) -> Value {
    let mut connector = stage.to_file(4);
    connector["value.converter"] = json!("org.apache.kafka.connect.json.JsonConverter");
    connector["value.converter.schemas.enable"] = json!("false");
    connector["errors.tolerance"] = json!(tolerance);
    connector["share.record.lock.duration.ms"] = json!("3000");
    connector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tolerance_all_the_poison_is_put_aside_and_the_connector_runs_on() -> Result<()> {
    let stage = Stage::set("tolerated", 1).await?;
    produce_some(&stage, 0..RECORDS).await?;
    let mut connector = json_to_file(&stage, "all");
    connector["errors.deadletterqueue.mode"] = json!("none");
    connector["errors.log.enable"] = json!("true");
    connector["errors.log.include.messages"] = json!("true");
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["accepted"] == RECORDS - 1 && status["rejected"] == 1;
    wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(good_ids(RECORDS))?;

    produce_some(&stage, RECORDS..2 * RECORDS).await?;
    let settled = |status: &Value| status["accepted"] == 2 * RECORDS - 1;
    let status = wait_for_status(&worker, "later ones arrive", MINUTE, settled).await?;
    assert_eq!(status["state"], "RUNNING", "{status}");
    assert_eq!(
        (&status["rejected"], &status["redelivered"]),
        (&json!(1), &json!(0))
    );
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(good_ids(2 * RECORDS))?;
    let history = log(&worker)?;
    let told = put_aside(&history)?;
    assert_eq!(told["stage"], "VALUE_CONVERTER", "{told}");
    assert_eq!(told["record"], format!("{}-0@{POISON}", stage.name));
    assert!(!worker.output()?.contains(POISON_TEXT), "{told}");
    stage.wait_until_consumed(MINUTE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tolerance_none_the_connector_fails_and_loses_nothing() -> Result<()> {
    let stage = Stage::set("refused", 1).await?;
    produce_some(&stage, 0..RECORDS).await?;
    let worker = stage.worker(&json_to_file(&stage, "none"))?;

    // It fails, finishes what is open, and keeps the poison.
    let failed = |status: &Value| status["state"] == "FAILED" && status["in_flight"] == 1;
    let status = wait_for_status(&worker, "the connector fails", MINUTE, failed).await?;
    assert_eq!(status["held"], 1, "{status}");
    let record = format!("{}-0@{POISON}", stage.name);
    let history = log(&worker)?;
    let errors = lines_of(&history, "ERROR");
    let [error] = errors[..] else {
        panic!("one error tells it all: {errors:?}");
    };
    let cause = error["error"].as_str().context("no cause")?;
    assert!(cause.contains(&record), "{cause}");
    assert!(cause.contains("VALUE_CONVERTER"), "{cause}");
    let arrived = lines(&stage.file());

    // It fetches no more, and the lock outlives its own time.
    produce_some(&stage, RECORDS..2 * RECORDS).await?;
    let renewals = number(&status, "renewed")? + RENEWALS;
    let renewed = |status: &Value| status["renewed"].as_u64() >= Some(renewals);
    let status = wait_for_status(&worker, "the lock is renewed", MINUTE, renewed).await?;
    assert_eq!(status["state"], "FAILED", "{status}");
    for (field, expected) in [
        ("in_flight", 1),
        ("held", 1),
        ("lost", 0),
        ("redelivered", 0),
    ] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    assert_eq!(
        lines(&stage.file()),
        arrived,
        "nothing came after the failure"
    );
    assert_eq!(status["accepted"], arrived, "{status}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    // With the right converter the poison comes again, alone.
    let mut mended = stage.to_file(4);
    mended["errors.tolerance"] = json!("none");
    let worker = stage.worker(&mended)?;
    let left = 2 * RECORDS - arrived;
    let accepted = |status: &Value| status["accepted"] == left;
    let status = wait_for_status(&worker, "the rest arrives", MINUTE, accepted).await?;
    assert_eq!(
        status["redelivered"], 1,
        "only the poison was locked: {status}"
    );
    eventually("the poison is in the file", MINUTE, async || {
        let tally = Tally::from_lines(&stage.file()).map_err(|error| error.to_string())?;
        (tally.count(POISON_TEXT) == 1)
            .then_some(())
            .ok_or(format!("{tally:?}"))
    })
    .await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(good_ids(2 * RECORDS))?;
    stage.wait_until_consumed(MINUTE).await
}
