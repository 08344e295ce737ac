//! What the worker writes itself outlasts the broker that confirmed it.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};
use sluice_test_support::topics::Admin;
use sluice_test_support::wait::eventually;

use super::case::PATIENCE;
use super::site::Site;
use crate::dead_letters::put_aside;
use crate::history::{lines_of, log, number};
use crate::stage::{Stage, wait_for_status};

const IN_SYNC: &str = "min.insync.replicas";

/// The topics of its dead letters and of its parked records.
fn topics_of(stage: &Stage) -> [String; 2] {
    [
        format!("dlq.{}", stage.name),
        format!("{}-parked", stage.group()),
    ]
}

fn connector(stage: &Stage) -> Value {
    let mut connector = stage.to_null(1);
    put_aside(&mut connector, &topics_of(stage)[0]);
    connector["share.park.after.ms"] = json!("60000");
    for owner in ["errors.deadletterqueue", "share.park"] {
        connector[format!("{owner}.topic.replication.factor")] = json!("3");
    }
    connector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_and_parked_records_are_confirmed_by_two_brokers_of_three() -> Result<()> {
    let site = Site::of_three().await?;
    let stage = Stage::on(site.kafka, "in-sync", 1, 3).await?;
    let worker = stage.worker(&connector(&stage))?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", PATIENCE, running).await?;
    for topic in topics_of(&stage) {
        let count = stage.admin.topic_setting(&topic, IN_SYNC).await?;
        assert_eq!(count, "2", "{topic}");
    }
    let log = log(&worker)?;
    let mut warnings = lines_of(&log, "WARN");
    warnings.retain(|line| line["message"].to_string().contains(IN_SYNC));
    assert!(warnings.is_empty(), "{warnings:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_that_one_broker_of_several_confirms_are_warned_of_with_the_remedy() -> Result<()> {
    let site = Site::of_three().await?;
    let stage = Stage::on(site.kafka, "one-in-sync", 1, 3).await?;
    let settings = [(IN_SYNC, "1"), ("retention.ms", "-1")];
    let admin = &stage.admin;
    for topic in topics_of(&stage) {
        admin.create_topic_with(&topic, 1, 3, &settings).await?;
    }
    let worker = stage.worker(&connector(&stage))?;
    for topic in topics_of(&stage) {
        eventually("it is warned of", PATIENCE, async || {
            let log = log(&worker)?;
            let remedy = format!("--entity-name {topic} --add-config {IN_SYNC}=2");
            let told = |line: &&&Value| line["message"].to_string().contains(&remedy);
            let warnings = lines_of(&log, "WARN");
            let count = warnings.iter().filter(told).count();
            anyhow::ensure!(count == 1, "{count} for {topic}: {warnings:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// How many replicas of a topic's only partition are in sync.
async fn wait_for_in_sync(admin: &Admin, topic: &str, count: usize) -> Result<()> {
    eventually("replicas are in sync", PATIENCE, async || {
        let described = admin.describe_topic(topic).await?;
        let in_sync: Vec<usize> = described.partitions.iter().map(|it| it.isr.len()).collect();
        ensure!(in_sync == [count], "{in_sync:?}");
        Ok(())
    })
    .await
}

const RECORDS: usize = 10;

/// Of those that are numbered so, the third one is rejected.
async fn fill(stage: &Stage, round: usize) -> Result<()> {
    let records =
        (0..RECORDS).map(move |number| NewRecord::value(value(round, number)).partition(0));
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    Ok(())
}

fn value(round: usize, number: usize) -> String {
    format!(r#"{{"id":"{round}-{number}"}}"#)
}

/// The letters are in a cluster of three brokers, two of which are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_that_one_broker_of_three_could_confirm_waits_for_a_second_one() -> Result<()> {
    let elsewhere = Kafka::start(KafkaOptions::new().nodes(3).one_controller()).await?;
    let admin = elsewhere.admin().await?;
    let stage = Stage::set("two-killed", 1).await?;
    let mut connector = stage.to_null(1);
    let [letters, _] = topics_of(&stage);
    put_aside(&mut connector, &letters);
    connector["errors.deadletterqueue.topic.replication.factor"] = json!("3");
    connector["producer.override.bootstrap.servers"] = json!(elsewhere.bootstrap_servers());
    // Until then nobody knows whether another broker confirms it.
    connector["producer.override.delivery.timeout.ms"] = json!("2000");
    connector["reject.match"] = json!("value=-3\"");
    let worker = stage.worker(&connector)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", PATIENCE, running).await?;
    wait_for_in_sync(&admin, &letters, 3).await?;

    elsewhere.kill_node(3)?;
    wait_for_in_sync(&admin, &letters, 2).await?;
    fill(&stage, 1).await?;
    let rejected = |count: usize| {
        move |status: &Value| status["rejected"] == count && status["in_flight"] == 0
    };
    wait_for_status(&worker, "two confirm", PATIENCE, rejected(1)).await?;

    elsewhere.kill_node(2)?;
    wait_for_in_sync(&admin, &letters, 1).await?;
    fill(&stage, 2).await?;
    let waits = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        status["letters_waiting"] == 1 && trouble.contains(&letters)
    };
    let status = wait_for_status(&worker, "one does not", PATIENCE, waits).await?;
    // Over some lives of its lock.
    let enough = number(&status, "renewed")? + 5;
    let renewed = |status: &Value| status["renewed"].as_u64() >= Some(enough);
    let status = wait_for_status(&worker, "it is renewed", PATIENCE, renewed).await?;
    assert!(waits(&status), "{status}");
    assert_eq!(
        (&status["rejected"], &status["in_flight"]),
        (&json!(1), &json!(1))
    );

    elsewhere.start_node(2)?;
    let status = wait_for_status(&worker, "two confirm again", PATIENCE, rejected(2)).await?;
    for (field, expected) in [
        ("accepted", 2 * (RECORDS - 1)),
        ("released", 0),
        ("lost", 0),
    ] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    wait_for_in_sync(&admin, &letters, 2).await?;
    // The third one stays dead, and who reads takes that for a failure.
    let servers: Vec<&str> = elsewhere.bootstrap_servers().split(',').collect();
    let read = read_topic(&servers[..2].join(","), &letters).await?;
    let values = read.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id").at_least_once(["1-3", "2-3"].map(str::to_owned))?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
