//! Parking where nobody may do anything that is not granted.

use std::time::Duration;

use anyhow::{Result, ensure};
use krafka::admin::{AclOperation, AclResourceType};
use serde_json::{Value, json};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::history::{lines_of, log, number};
use crate::rights::{allow, grant, guarded, worker_of};
use crate::stage::{status, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "hush-parking-1";
const PARKED: &str = "share-orders-parked";

/// A cluster where alice may do all that parking takes, but for deleting.
async fn cluster() -> Result<Kafka> {
    let kafka = guarded(KafkaOptions::new().user("alice", PASSWORD)).await?;
    let admin = kafka.admin().await?;
    admin.create_topic("orders", 1).await?;
    let (topic, group) = (AclResourceType::Topic, AclResourceType::Group);
    let needed = [
        AclOperation::Read,
        AclOperation::Write,
        AclOperation::DescribeConfigs,
        AclOperation::Create,
    ];
    let mut rights = needed.map(|it| allow(topic, PARKED, "alice", it)).to_vec();
    rights.push(allow(topic, "orders", "alice", AclOperation::Read));
    for name in ["connect-orders", "share-orders", PARKED] {
        rights.push(allow(group, name, "alice", AclOperation::All));
    }
    grant(&admin, rights).await?;
    Ok(kafka)
}

fn connector(receiver: &Receiver) -> Value {
    json!({
        "name": "orders",
        "connector.class": "http",
        "topics": "orders",
        "tasks.max": "2",
        "key.converter": "string",
        "value.converter": "string",
        "http.url": receiver.url("/${key}"),
        "consumer.override.group.protocol": "share",
        "share.park.after.ms": "0",
        "share.park.backoff.ms": "500",
        "share.park.topic.replication.factor": "1",
    })
}

/// Goes on with others until the odd one was parked so often.
async fn park_often(kafka: &Kafka, worker: &Worker) -> Result<()> {
    eventually("it is parked again and again", MINUTE, async || {
        let other = NewRecord::value("v").key("other");
        produce(kafka.bootstrap_servers(), "orders", [other]).await?;
        let parked = number(&status(worker)?, "parked")?;
        ensure!(parked >= 3, "{parked} times");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_delete_records_are_parked_and_a_warning_names_it() -> Result<()> {
    let kafka = cluster().await?;
    let receiver = Receiver::start(|arrival| match &*arrival.path {
        "/odd" => Reply::status(500),
        _ => Reply::ok(),
    })
    .await?;
    let odd = NewRecord::value("v").key("odd");
    produce(kafka.bootstrap_servers(), "orders", [odd]).await?;
    let options = worker_of(&kafka, "alice", PASSWORD)?;
    let worker = Worker::start(&options.connector("orders", &connector(&receiver)))?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", MINUTE, running).await?;
    park_often(&kafka, &worker).await?;
    let right = format!("grant DELETE on topic {PARKED}");
    eventually("the missing right is told", MINUTE, async || {
        let log = log(&worker)?;
        let told = lines_of(&log, "WARN").into_iter();
        let mut errors = told.filter_map(|line| line["error"].as_str());
        ensure!(errors.any(|it| it.contains(&right)), "{log:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    let start = kafka.admin().await?.start_offsets(PARKED).await?;
    assert_eq!(start[&0], 0);
    assert_eq!(status(&worker)?["trouble"], "");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}
