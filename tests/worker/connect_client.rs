//! A client that was written for Kafka Connect, at a worker.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::java::ask_as_connects_client;
use sluice_test_support::produce::{json_records, produce};

use crate::api::Api;
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_kafka_connect_reads_restarts_and_validates() -> Result<()> {
    let stage = Stage::set("client", 1).await?;
    let worker = stage.worker(&stage.to_null(2))?;
    let api = Api::of(&worker).await?;
    produce(
        stage.kafka.bootstrap_servers(),
        &stage.name,
        json_records(1, 1, 100),
    )
    .await?;
    let path = format!("/connectors/{}", stage.name);
    let has_topics = |_, body: &Value| body[&stage.name]["topics"][0] == stage.name.as_str();
    api.wait_for(&format!("{path}/topics"), MINUTE, has_topics)
        .await?;
    let ready = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health/ready", MINUTE, ready).await?;

    let printed = ask_as_connects_client(&api.url, &stage.name).await?;
    let said: BTreeMap<&str, &str> = printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    let worker_id = api.url.trim_start_matches("http://");
    let name = format!("[{}]", stage.name);
    for (what, answer) in [
        ("version", "4.4.0"),
        ("connectors", &name),
        ("expanded.state", "RUNNING"),
        ("expanded.type", "sink"),
        ("state", "RUNNING"),
        ("tasks", "[RUNNING, RUNNING]"),
        ("worker", worker_id),
        ("task", "RUNNING"),
        ("task.configs", "2"),
        ("class", "null"),
        ("topics", &name),
        ("plugins", "[file, http, kafka, log, null]"),
        ("validated", "1"),
        ("restart.task", "true"),
        ("restart", "true"),
    ] {
        assert_eq!(said.get(what), Some(&answer), "{what} in {printed}");
    }
    for (what, part) in [
        ("faults", "tasks.max=[\"many\" is not a whole number]"),
        ("unknown", "No status found for connector none"),
        ("pause", "still to come"),
        ("delete", "still to come"),
    ] {
        let answer = said.get(what).copied().unwrap_or_default();
        assert!(answer.contains(part), "{what} in {printed}");
    }

    // The client is older than this path. What the broker tells is one
    // settlement old.
    let next = json_records(1, 1, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, next).await?;
    let told = json!({"offsets": [{
        "partition": {"kafka_topic": stage.name, "kafka_partition": 0},
        "offset": {"kafka_offset": 1},
    }]});
    let is_past_the_record = |_, body: &Value| *body == told;
    let path = format!("{path}/offsets/");
    api.wait_for(&path, MINUTE, is_past_the_record).await?;
    Ok(())
}
