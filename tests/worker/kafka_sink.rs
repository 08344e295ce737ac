//! Records through the kafka sink. What arrived is read from the topic by a
//! plain consumer.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::{Received, read_topic};
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::wait::eventually;

use crate::history::{log, put_aside};
use crate::load::Load;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 12;
const BYTES: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";
const FIRST_TIME: i64 = 1_700_000_000_000;

/// A connector that writes to another topic, byte by byte what it reads.
fn to_kafka(stage: &Stage, tasks: usize) -> Value {
    let mut connector = stage.connector("kafka", tasks);
    connector["topic"] = json!("copy-of-${topic}");
    for part in ["key", "value", "header"] {
        connector[format!("{part}.converter")] = json!(BYTES);
    }
    connector
}

fn copy(stage: &Stage) -> String {
    format!("copy-of-{}", stage.name)
}

/// Ids with all that a record may have: every fifth without a key, every
/// seventh with headers, one of them null and one repeated, every eleventh
/// without a timestamp.
fn rich_records(count: usize) -> impl Iterator<Item = NewRecord> + Send + 'static {
    json_records(count, PARTITIONS, 100)
        .zip(FIRST_TIME..)
        .enumerate()
        .map(|(number, (mut record, timestamp))| {
            // -1 is none.
            record.timestamp = Some(if number % 11 == 0 { -1 } else { timestamp });
            if number % 5 > 0 {
                record.key = Some(format!("key-{}", number % 1000).into_bytes());
            }
            if number % 7 == 0 {
                record = record
                    .header("twice", number.to_string())
                    .header("twice", "");
                record.headers.push(("none".to_owned(), None));
            }
            record
        })
}

/// Each record by its value: key, headers, timestamp.
type Parts = (Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>, Option<i64>);

fn check_parts(count: usize, received: &[Received]) -> Result<()> {
    let expected: HashMap<Vec<u8>, Parts> = rich_records(count)
        .filter_map(|it| {
            let timestamp = it.timestamp.filter(|it| *it >= 0);
            Some((it.value?, (it.key, it.headers, timestamp)))
        })
        .collect();
    for record in received {
        let value = record
            .value
            .as_deref()
            .context("a record without a value")?;
        let parts = (record.key.clone(), record.headers.clone(), record.timestamp);
        let text = String::from_utf8_lossy(value);
        ensure!(expected.get(value) == Some(&parts), "{text} has {parts:?}");
    }
    Ok(())
}

fn tally(received: &[Received]) -> Tally {
    let values = received.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id")
}

async fn all_arrive_intact(stage: &Stage, target: &Kafka, connector: &Value) -> Result<()> {
    const RECORDS: usize = 100_000;
    let topic = copy(stage);
    target
        .admin()
        .await?
        .create_topic(&topic, PARTITIONS)
        .await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, rich_records(RECORDS)).await?;
    let worker = stage.worker(connector)?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", 3 * MINUTE, all).await?;
    for field in ["rejected", "released", "lost", "unknown"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let received = read_topic(target.bootstrap_servers(), &topic).await?;
    tally(&received).exactly_once(ids(RECORDS))?;
    check_parts(RECORDS, &received)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_arrives_in_the_same_cluster_as_it_was() -> Result<()> {
    let stage = Stage::set("same-cluster", PARTITIONS).await?;
    all_arrive_intact(&stage, stage.kafka, &to_kafka(&stage, 8)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_record_arrives_in_another_cluster_as_it_was() -> Result<()> {
    let stage = Stage::set("other-cluster", PARTITIONS).await?;
    let other = Kafka::start(KafkaOptions::new()).await?;
    let mut connector = to_kafka(&stage, 8);
    connector["producer.override.bootstrap.servers"] = json!(other.bootstrap_servers());
    all_arrive_intact(&stage, &other, &connector).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_the_topic_does_not_take_is_rejected_alone() -> Result<()> {
    const RECORDS: usize = 1000;
    const LARGE: usize = 500;
    let stage = Stage::set("too-large", 1).await?;
    let limit = [("max.message.bytes", "20000")];
    stage
        .admin
        .create_topic_with(&copy(&stage), 1, 1, &limit)
        .await?;
    let records = json_records(RECORDS, 1, 100)
        .enumerate()
        .map(|(number, record)| {
            let pad = "x".repeat(30_000);
            match number {
                LARGE => NewRecord::value(format!("{{\"id\":\"large\",\"pad\":\"{pad}\"}}")),
                _ => record,
            }
        });
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, records).await?;
    let mut connector = to_kafka(&stage, 4);
    connector["errors.tolerance"] = json!("all");
    connector["errors.log.enable"] = json!("true");
    connector["errors.log.include.messages"] = json!("true");
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["rejected"] == 1 && status["accepted"] == RECORDS - 1;
    wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let log = log(&worker)?;
    let put_aside = put_aside(&log)?;
    assert_eq!(put_aside["record"], format!("{}-0@{LARGE}", stage.name));
    let told = put_aside.to_string();
    assert!(told.contains("max.message.bytes"), "{told}");
    let received = read_topic(servers, &copy(&stage)).await?;
    let others = ids(RECORDS)
        .enumerate()
        .filter(|(number, _)| *number != LARGE);
    tally(&received).exactly_once(others.map(|(_, id)| id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_sinks_broker_is_away() -> Result<()> {
    const PER_SECOND: usize = 500;
    let stage = Stage::set("sink-away", PARTITIONS).await?;
    let other = Kafka::start(KafkaOptions::new()).await?;
    let topic = copy(&stage);
    other
        .admin()
        .await?
        .create_topic(&topic, PARTITIONS)
        .await?;
    let mut connector = to_kafka(&stage, 4);
    connector["producer.override.bootstrap.servers"] = json!(other.bootstrap_servers());
    // So that puts fail, too, and are tried again.
    connector["producer.override.delivery.timeout.ms"] = json!("3000");
    connector["errors.retry.delay.max.ms"] = json!("1000");
    let worker = stage.worker(&connector)?;
    let load = Load::start(&stage, PARTITIONS, PER_SECOND);
    let some = |status: &Value| status["accepted"].as_u64() > Some(1000);
    wait_for_status(&worker, "some are accepted", MINUTE, some).await?;

    other.kill_node(1)?;
    worker
        .wait_for_log(|line| line.contains("producer reaches no broker"), MINUTE)
        .await?;
    let sent = load.sent();
    eventually("the load goes on", MINUTE, async || {
        ensure!(load.sent() > sent + 6 * PER_SECOND, "{} sent", load.sent());
        Ok(())
    })
    .await?;
    other.start_node(1)?;
    other.wait_for_nodes(1).await?;

    let sent = load.stop().await?;
    let all = |status: &Value| status["accepted"] == sent;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, all).await?;
    assert_eq!(status["rejected"], 0, "{status}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let received = read_topic(other.bootstrap_servers(), &topic).await?;
    tally(&received).at_least_once(ids(sent))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_not_there_is_waited_for() -> Result<()> {
    const RECORDS: usize = 100;
    let stage = Stage::set("not-there", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    let mut connector = to_kafka(&stage, 1);
    connector["producer.override.delivery.timeout.ms"] = json!("2000");
    connector["errors.retry.delay.max.ms"] = json!("1000");
    let worker = stage.worker(&connector)?;
    // No more are fetched than show that none is taken.
    let held = |status: &Value| status["in_flight"] != 0 && status["retries"] != 0;
    wait_for_status(&worker, "some are held", MINUTE, held).await?;
    stage.admin.create_topic(&copy(&stage), 1).await?;
    let all = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are accepted", MINUTE, all).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let received = read_topic(servers, &copy(&stage)).await?;
    tally(&received).at_least_once(ids(RECORDS))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_through_another_address_is_told_before_anything_is_written() -> Result<()> {
    let stage = Stage::set("loop", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(10, 1, 100)).await?;
    let mut connector = to_kafka(&stage, 1);
    connector["topic"] = json!("${topic}");
    connector["producer.override.bootstrap.servers"] =
        json!(servers.replace("127.0.0.1", "localhost"));
    let worker = stage.worker(&connector)?;
    let failed = |status: &Value| status["state"] == "FAILED";
    wait_for_status(&worker, "it has failed", MINUTE, failed).await?;
    let output = worker.output()?;
    assert!(output.contains("is read by this connector"), "{output}");
    worker.stop(MINUTE).await?;
    let ends = stage.admin.end_offsets(&stage.name).await?;
    assert_eq!(ends.get(&0), Some(&10), "nothing came back");
    Ok(())
}
