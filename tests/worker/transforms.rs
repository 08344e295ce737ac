//! Transforms between converter and sink: what the sink sees, and what
//! becomes of a record that one of them fails on or drops.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};

use crate::history::{lines_of, log, put_aside};
use crate::stage::{Stage, lines, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 1000;
/// The id that has another record in its place.
const ODD: usize = 500;
const TRANSFORMS: &str = "org.apache.kafka.connect.transforms";

/// A connector of plain JSON values into a file of JSON lines.
fn json_to_file(stage: &Stage) -> Value {
    let mut connector = stage.to_file(4);
    connector["value.converter"] = json!("org.apache.kafka.connect.json.JsonConverter");
    connector["value.converter.schemas.enable"] = json!("false");
    connector
}

/// Adds the settings of a transform or predicate, without their prefix.
fn add(connector: &mut Value, prefix: &str, settings: &[(&str, &str)]) {
    for (key, value) in settings {
        connector[format!("{prefix}.{key}")] = json!(value);
    }
}

/// The ids in one partition, so that id and offset are alike, one of them in
/// the place of the odd record.
async fn produce_with_odd(stage: &Stage, odd: NewRecord) -> Result<()> {
    let records = json_records(RECORDS, 1, 100).enumerate();
    let records = records.map(move |(number, record)| match number {
        ODD => odd.clone().partition(0),
        _ => record,
    });
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    Ok(())
}

fn other_ids() -> impl Iterator<Item = String> {
    let numbered = ids(RECORDS).enumerate();
    numbered.filter_map(|(number, id)| (number != ODD).then_some(id))
}

/// InsertField needs an object; a text is none.
async fn with_a_text(stem: &str, tolerance: &str) -> Result<(Stage, Value)> {
    let stage = Stage::set(stem, 1).await?;
    produce_with_odd(&stage, NewRecord::value("\"hush\"")).await?;
    let mut connector = json_to_file(&stage);
    connector["errors.tolerance"] = json!(tolerance);
    connector["errors.log.enable"] = json!("true");
    connector["errors.log.include.messages"] = json!("true");
    connector["transforms"] = json!("stamp");
    let class = format!("{TRANSFORMS}.InsertField$Value");
    let stamp = [("type", &*class), ("offset.field", "offset")];
    add(&mut connector, "transforms.stamp", &stamp);
    Ok((stage, connector))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sink_sees_what_the_chain_has_made_of_each_record() -> Result<()> {
    let stage = Stage::set("chained", 2).await?;
    let records = json_records(RECORDS, 2, 100).map(|record| match record.partition {
        Some(0) => record.header("vip", "yes"),
        _ => record,
    });
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;

    let mut connector = json_to_file(&stage);
    connector["format"] = json!("json");
    connector["transforms"] = json!("Route,stamp,clean");
    let router = format!("{TRANSFORMS}.RegexRouter");
    let route = [
        ("type", &*router),
        ("regex", "(chained)-.*"),
        ("replacement", "routed.$1"),
    ];
    add(&mut connector, "transforms.Route", &route);
    let stamp = [
        ("type", "InsertField$Value"),
        ("topic.field", "topic"),
        ("partition.field", "partition"),
        ("static.field", "by"),
        ("static.value", "sluice"),
        ("predicate", "isVip"),
    ];
    add(&mut connector, "transforms.stamp", &stamp);
    let clean = [("type", "ReplaceField$Value"), ("exclude", "pad")];
    add(&mut connector, "transforms.clean", &clean);
    connector["predicates"] = json!("isVip");
    let vip = [("type", "HasHeaderKey"), ("name", "vip")];
    add(&mut connector, "predicates.isVip", &vip);
    let worker = stage.worker(&connector)?;

    let accepted = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are accepted", MINUTE, accepted).await?;
    Tally::from_json_lines(&stage.file(), "/value/id")?.exactly_once(ids(RECORDS))?;
    let written = std::fs::read_to_string(stage.file())?;
    for line in written.lines() {
        let record: Value = serde_json::from_str(line)?;
        let mut expected = json!({"id": record["value"]["id"]});
        if record["partition"] == 0 {
            expected["topic"] = json!("routed.chained");
            expected["partition"] = json!(0);
            expected["by"] = json!("sluice");
        }
        assert_eq!(record["value"], expected, "{line}");
        assert_eq!(record["topic"], "routed.chained", "{line}");
    }
    // The broker was told of the topic that the records came from.
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tolerance_all_a_record_that_a_transform_fails_on_is_put_aside() -> Result<()> {
    let (stage, connector) = with_a_text("unstamped", "all").await?;
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["accepted"] == RECORDS - 1 && status["rejected"] == 1;
    let status = wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    assert_eq!(status["redelivered"], 0, "{status}");
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(other_ids())?;

    let history = log(&worker)?;
    let error = put_aside(&history)?;
    assert_eq!(error["record"], format!("{}-0@{ODD}", stage.name));
    assert_eq!(error["stage"], "TRANSFORMATION", "{error}");
    assert!(error.to_string().contains("transforms.stamp: "), "{error}");
    assert!(!error.to_string().contains("hush"), "{error}");
    stage.wait_until_consumed(MINUTE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tolerance_none_a_record_that_a_transform_fails_on_stops_the_connector() -> Result<()>
{
    let (stage, connector) = with_a_text("unstampable", "none").await?;
    let worker = stage.worker(&connector)?;
    let failed = |status: &Value| status["state"] == "FAILED" && status["in_flight"] == 1;
    let status = wait_for_status(&worker, "the connector fails", MINUTE, failed).await?;
    assert_eq!(
        (&status["held"], &status["rejected"]),
        (&json!(1), &json!(0)),
        "{status}"
    );
    let history = log(&worker)?;
    let errors = lines_of(&history, "ERROR");
    let [error] = errors[..] else {
        panic!("one error tells it all: {errors:?}");
    };
    let cause = error["error"].as_str().context("no cause")?;
    for part in [
        &*format!("{}-0@{ODD}", stage.name),
        "TRANSFORMATION",
        "stamp",
    ] {
        assert!(cause.contains(part), "{part} in {cause}");
    }
    assert_eq!(status["accepted"], lines(&stage.file()), "{status}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    // Without the transform it comes again.
    let mut mended = json_to_file(&stage);
    mended["errors.tolerance"] = json!("none");
    let worker = stage.worker(&mended)?;
    let all = |_: &Value| lines(&stage.file()) == RECORDS;
    wait_for_status(&worker, "the rest arrives", MINUTE, all).await?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(Tally::from_lines(&stage.file())?.count("hush"), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_a_transform_drops_is_accepted_and_no_sink_sees_it() -> Result<()> {
    let stage = Stage::set("filtered", 1).await?;
    produce_with_odd(&stage, NewRecord::tombstone("gone")).await?;
    let mut connector = json_to_file(&stage);
    connector["transforms"] = json!("drop");
    let drop = [("type", "Filter"), ("predicate", "gone")];
    add(&mut connector, "transforms.drop", &drop);
    connector["predicates"] = json!("gone");
    let gone = [("type", "RecordIsTombstone")];
    add(&mut connector, "predicates.gone", &gone);
    let worker = stage.worker(&connector)?;

    let accepted = |status: &Value| status["accepted"] == RECORDS;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, accepted).await?;
    assert_eq!(status["rejected"], 0, "{status}");
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(other_ids())?;
    stage.wait_until_consumed(MINUTE).await
}
