//! Dead letters and clusters: in another one, from one that freezes, and on
//! one that is too old to write them itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::Signal;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use super::case::PATIENCE;
use super::site::Site;
use crate::dead_letters::{put_aside, refusal};
use crate::stage::{BINARY, Stage, wait_for_status};

const RECORDS: usize = 20;

/// A connector that puts every record aside, into another cluster, once its
/// endpoint says something else than 503.
fn connector(stage: &Stage, receiver: &Receiver, letters: &str, elsewhere: &Kafka) -> Value {
    let mut connector = stage.connector("http", 4);
    connector["http.url"] = json!(receiver.url("/"));
    put_aside(&mut connector, letters);
    connector["producer.override.bootstrap.servers"] = json!(elsewhere.bootstrap_servers());
    // All come with the first fetch.
    connector["share.max.in.flight.records"] = json!("1000");
    // No lock ends while the broker is frozen.
    connector["share.record.lock.duration.ms"] = json!("60000");
    connector
}

/// How many letters there are of each offset.
async fn letters_of_each(elsewhere: &Kafka, topic: &str) -> Result<BTreeMap<usize, usize>> {
    let mut counts = BTreeMap::new();
    for letter in read_topic(elsewhere.bootstrap_servers(), topic).await? {
        let offset = letter.header("__connect.errors.offset");
        let offset = offset.context("a letter without its offset")?.parse()?;
        *counts.entry(offset).or_insert(0) += 1;
    }
    Ok(counts)
}

/// The letters are in one cluster and their records in another, whose broker
/// is frozen meanwhile: so no ACCEPT gets through behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_between_letters_and_accepts_writes_each_twice_at_most() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "killed-between", 1, 1).await?;
    let elsewhere = Kafka::shared().await?;
    let letters = format!("dlq.{}", stage.name);
    let is_frozen = Arc::new(AtomicBool::new(false));
    let plan = Arc::clone(&is_frozen);
    let receiver = Receiver::start(move |_| match plan.load(Ordering::SeqCst) {
        true => Reply::body(400, "no such thing"),
        false => Reply::status(503),
    })
    .await?;
    let records = json_records(RECORDS, 1, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let connector = connector(&stage, &receiver, &letters, elsewhere);
    let worker = stage.worker(&connector)?;
    let has_all = |status: &Value| status["in_flight"] == RECORDS && status["outage"] != "";
    wait_for_status(&worker, "it holds all records", PATIENCE, has_all).await?;

    site.kafka.signal_node(1, Signal::STOP)?;
    is_frozen.store(true, Ordering::SeqCst);
    eventually("each has a letter", PATIENCE, async || {
        let each = letters_of_each(elsewhere, &letters).await?;
        ensure!(each.len() == RECORDS, "{each:?}");
        Ok(())
    })
    .await?;
    worker.kill()?;
    site.kafka.signal_node(1, Signal::CONT)?;

    let next = stage.worker(&connector)?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(next.stop(PATIENCE).await?.code(), Some(0));
    let each = letters_of_each(elsewhere, &letters).await?;
    assert_eq!(each.len(), RECORDS, "none is without: {each:?}");
    assert!(each.values().all(|count| *count <= 2), "{each:?}");
    let twice = each.values().filter(|count| **count == 2).count();
    assert!(twice > 0, "the worker was killed too late: {each:?}");
    let here = stage.admin.describe_topic(&letters).await;
    assert!(here.is_err(), "letters are elsewhere only: {here:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_too_old_to_write_letters_are_refused_with_the_remedy() -> Result<()> {
    let kafka = Kafka::start(KafkaOptions::new().feature("share.version=1")).await?;
    let admin = kafka.admin().await?;
    admin.create_topic("orders", 1).await?;
    let groups = [("errors.deadletterqueue.group.enable", "true")];
    admin.create_topic_with("dlq.orders", 1, 1, &groups).await?;
    let connector = json!({
        "name": "orders",
        "connector.class": "null",
        "topics": "orders",
        "key.converter": "string",
        "value.converter": "string",
        "consumer.override.group.protocol": "share",
        "errors.tolerance": "all",
        "errors.deadletterqueue.mode": "broker",
        "errors.deadletterqueue.topic.name": "dlq.orders",
    });
    let options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", kafka.bootstrap_servers())
        .property("log.format", "json")
        .connector("orders", &connector);
    let worker = Worker::start(&options)?;
    let error = refusal(&worker, "orders").await?;
    for words in [
        "errors.deadletterqueue.topic.name: ",
        "the cluster's share.version is 1",
        "kafka-features.sh",
        "upgrade --feature share.version=2",
    ] {
        ensure!(error.contains(words), "no {words:?}: {error}");
    }
    Ok(())
}
