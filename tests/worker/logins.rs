//! No login goes to another client than its own, and none is shown.

use std::time::Duration;

use anyhow::{Context, Result};
use krafka::admin::{AclOperation, AclResourceType};
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::crew::status_of;
use crate::rights::{allow, grant, guarded, scram};
use crate::secrets::{accepted, told};
use crate::stage::BINARY;
use crate::surfaces::Surfaces;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 50;
const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
/// No secret: the name of a client.
const CLIENT: &str = "no-secret & shown";

const ALICES: &str = "hush-alice-1";
const BOBS: &str = "hush-bob-2";

async fn cluster() -> Result<Kafka> {
    let options = KafkaOptions::new().user("alice", ALICES).user("bob", BOBS);
    guarded(options).await
}

/// Reads as alice and writes as she does, or as somebody else.
fn copying(name: &str, to: &str) -> Value {
    json!({
        "name": name,
        "connector.class": "kafka",
        "tasks.max": "2",
        "topics": "orders",
        "topic": to,
        "key.converter": STRING,
        "value.converter": STRING,
        "consumer.override.group.protocol": "share",
        "consumer.override.client.id": CLIENT,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_and_sink_log_in_as_different_users_and_neither_as_the_other() -> Result<()> {
    let kafka = cluster().await?;
    let admin = kafka.admin().await?;
    for topic in ["orders", "copy"] {
        admin.create_topic(topic, 2).await?;
    }
    let (topic, group) = (AclResourceType::Topic, AclResourceType::Group);
    let mut rights = vec![
        allow(topic, "orders", "alice", AclOperation::Read),
        allow(topic, "copy", "bob", AclOperation::Write),
    ];
    // Also the groups that Connect would read with, which are looked at.
    for of in [
        "share-by-bob",
        "connect-by-bob",
        "share-by-alice",
        "connect-by-alice",
    ] {
        rights.push(allow(group, of, "alice", AclOperation::All));
    }
    grant(&admin, rights).await?;
    let plain = kafka.bootstrap_servers();
    produce(plain, "orders", json_records(RECORDS, 2, 100)).await?;

    let mut by_bob = copying("by-bob", "copy");
    by_bob["producer.override.sasl.jaas.config"] = json!(scram("bob", BOBS));
    // Each login alone could not do the other's part.
    let by_alice = copying("by-alice", "copy");
    let mut read_by_bob = copying("read-by-bob", "copy");
    read_by_bob["consumer.override.sasl.jaas.config"] = json!(scram("bob", BOBS));
    read_by_bob["producer.override.sasl.jaas.config"] = json!(scram("bob", BOBS));
    let authority = kafka.ca_file().display().to_string();
    let mut options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", kafka.secure_bootstrap_servers()?)
        .property("security.protocol", "SASL_SSL")
        .property("ssl.truststore.location", &authority)
        .property("sasl.mechanism", "SCRAM-SHA-512")
        .property("sasl.jaas.config", &scram("alice", ALICES))
        .property("log.format", "json")
        .property("log.level", "trace")
        .property("status.log.interval.ms", "50");
    for connector in [&by_bob, &by_alice, &read_by_bob] {
        let name = connector["name"].as_str().context("no name")?;
        options = options.connector(name, connector);
    }
    let worker = Worker::start(&options)?;
    let api = Api::of(&worker).await?;
    told(&api, "by-bob", accepted(RECORDS)).await?;
    let says = |what: &'static str| move |it: &Value| it.to_string().contains(what);
    told(
        &api,
        "by-alice",
        says("topic copy: TopicAuthorizationFailed"),
    )
    .await?;
    told(&api, "read-by-bob", says("DESCRIBE on topic orders")).await?;
    for denied in ["by-alice", "read-by-bob"] {
        assert_eq!(status_of(&worker, denied)?["accepted"], 0, "{denied}");
    }
    let mut surfaces = Surfaces::of(&worker, &["by-bob", "by-alice", "read-by-bob"], &[]).await?;
    worker.stop(MINUTE).await?;
    surfaces.printed(&worker)?;

    surfaces.hide(&[ALICES, BOBS])?;
    let places = [
        "GET /connectors/by-bob/config",
        "GET /connectors/by-bob",
        "sluice check",
    ];
    surfaces.show(CLIENT, &places)?;
    surfaces.show("producer.override.sasl.jaas.config", &places)?;
    let copied = read_topic(plain, "copy").await?;
    let values = copied.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id").exactly_once(ids(RECORDS))
}
