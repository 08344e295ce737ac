//! What the worker writes itself outlasts the broker that confirmed it.

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::wait::eventually;

use super::case::PATIENCE;
use super::site::Site;
use crate::dead_letters::put_aside;
use crate::history::{lines_of, log};
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
