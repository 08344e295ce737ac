//! Dead letters where nobody may do anything that is not granted.

use std::time::Duration;

use anyhow::{Result, ensure};
use krafka::admin::{AclOperation, AclResourceType};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::crew::status_of;
use crate::dead_letters::{put_aside, refusal};
use crate::rights::{allow, grant, guarded, worker_of};

const MINUTE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "hush-letters-1";
/// Connectors, and where their letters go.
const NAMES: [(&str, &str); 4] = [
    ("aside", "dlq.orders"),
    ("brokers", "dlq.orders"),
    ("missing", "dlq.missing"),
    ("denied", "dlq.denied"),
];

/// A cluster where alice may read, but write letters only to a topic that is
/// not there.
async fn cluster() -> Result<Kafka> {
    let kafka = guarded(KafkaOptions::new().user("alice", PASSWORD)).await?;
    let admin = kafka.admin().await?;
    for topic in ["orders", "dlq.orders"] {
        admin.create_topic(topic, 1).await?;
    }
    let (topic, group) = (AclResourceType::Topic, AclResourceType::Group);
    let mut rights = vec![
        allow(topic, "orders", "alice", AclOperation::Read),
        allow(topic, "dlq.orders", "alice", AclOperation::Describe),
        allow(topic, "dlq.missing", "alice", AclOperation::Write),
    ];
    for (name, _) in NAMES {
        for of in ["share", "connect"] {
            let name = format!("{of}-{name}");
            rights.push(allow(group, &name, "alice", AclOperation::All));
        }
    }
    grant(&admin, rights).await?;
    produce(
        kafka.bootstrap_servers(),
        "orders",
        json_records(50, 1, 100),
    )
    .await?;
    Ok(kafka)
}

/// A connector that rejects one record.
fn connector(name: &str, letters: &str) -> Value {
    let mut connector = json!({
        "name": name,
        "connector.class": "null",
        "topics": "orders",
        "key.converter": "string",
        "value.converter": "string",
        "reject.match": "value=id-000007",
        "consumer.override.group.protocol": "share",
    });
    put_aside(&mut connector, letters);
    if name == "brokers" {
        connector["errors.deadletterqueue.mode"] = json!("broker");
    }
    connector
}

fn start(kafka: &Kafka) -> Result<Worker> {
    let options = worker_of(kafka, "alice", PASSWORD)?;
    let options = NAMES.iter().fold(options, |options, (name, letters)| {
        options.connector(name, &connector(name, letters))
    });
    Worker::start(&options)
}

/// Waits for a status of the connector `aside`.
async fn wait_for(worker: &Worker, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(what, MINUTE, async || {
        let status = status_of(worker, "aside")?;
        ensure!(wanted(&status), "status is {status}");
        Ok::<_, anyhow::Error>(status)
    })
    .await
}

/// Status and health say as plainly as in an outage of the sink that records
/// wait, for what, and what to do. It is no reason to restart a worker.
async fn tells_of_it(api: &Api) -> Result<()> {
    let (_, status) = api.get("/connectors/aside/status").await?;
    let (code, health) = api.get("/health").await?;
    let told = &health["sluice"]["connectors"]["aside"];
    assert_eq!(status["connector"]["state"], "RUNNING", "{status}");
    assert_eq!(status["sluice"]["letters_waiting"], 1, "{status}");
    assert_eq!(
        (code, &told["health"]),
        (StatusCode::INTERNAL_SERVER_ERROR, &json!("bad"))
    );
    for cause in [&status["sluice"]["trouble"], &told["cause"]] {
        let cause = cause.as_str().unwrap_or_default();
        let is_plain = cause.contains("dlq.orders") && cause.contains("grant WRITE on the topic");
        ensure!(is_plain, "{cause:?}");
    }
    let (code, ready) = api.get("/health/ready").await?;
    ensure!(code == StatusCode::OK, "{ready}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_rights_nothing_is_put_aside_until_they_are_given() -> Result<()> {
    let kafka = cluster().await?;
    let worker = start(&kafka)?;
    for (name, right) in [
        ("missing", "grant CREATE on topic dlq.missing"),
        ("denied", "grant WRITE on topic dlq.denied"),
        ("brokers", "grant DESCRIBE_CONFIGS on the cluster"),
    ] {
        let error = refusal(&worker, name).await?;
        ensure!(error.contains(right), "{name}: {error}");
    }
    let status = wait_for(&worker, "it may not write", |status| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        trouble.contains("grant WRITE on the topic") && status["accepted"] == 49
    })
    .await?;
    assert_eq!(status["in_flight"], 1, "{status}");
    let api = Api::of(&worker).await?;
    tells_of_it(&api).await?;
    let write = AclOperation::Write;
    let write = allow(AclResourceType::Topic, "dlq.orders", "alice", write);
    grant(&kafka.admin().await?, vec![write]).await?;
    wait_for(&worker, "it may", |status| status["rejected"] == 1).await?;
    let is_well = |code, _: &Value| code == StatusCode::OK;
    api.wait_for("/health", MINUTE, is_well).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let letters = read_topic(kafka.bootstrap_servers(), "dlq.orders").await?;
    assert_eq!(letters.len(), 1, "{letters:?}");
    Ok(())
}
