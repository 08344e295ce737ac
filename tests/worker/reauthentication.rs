//! Credentials that end while a record is held, by every mechanism: the
//! connection is authenticated anew, and the record is delivered once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::token_server::TokenServer;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::crew::status_of;
use crate::history::log;
use crate::stage::{BINARY, lines};

const PATIENCE: Duration = Duration::from_secs(120);
/// How long the broker takes credentials.
const LIFE_MS: &str = "6000";
const LIVES: usize = 3;
/// Longer than so many lives, and the wait for a slow endpoint in each.
const HELD_MS: &str = "27000";
/// Longer than the last tenth of a life: its tokens come after the end.
const SLOW: Duration = Duration::from_secs(2);
const TOKEN_LIFE: Duration = Duration::from_secs(120);
/// Shorter than that, so that locks are renewed on the way.
const LOCK_MS: &str = "10000";
const RECORDS: usize = 100;
const PARTITIONS: i32 = 2;
const PASSWORD: &str = "hush-password-4";
const CLIENT_SECRET: &str = "hush-client-5";
const MODULES: &str = "org.apache.kafka.common.security";

/// A way to log in: its name, and the worker's settings for it.
struct Way {
    name: &'static str,
    login: Vec<(&'static str, String)>,
}

fn ways(kafka: &Kafka, tokens: &TokenServer, slow: &TokenServer) -> Result<Vec<Way>> {
    let plain = kafka.plain_bootstrap_servers()?;
    let secure = kafka.secure_bootstrap_servers()?;
    let authority = kafka.ca_file().display().to_string();
    let user = |module, name| {
        format!("{MODULES}.{module} required username=\"{name}\" password=\"{PASSWORD}\";")
    };
    let client = format!(
        "{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId=\"sluice\" \
         clientSecret=\"{CLIENT_SECRET}\";"
    );
    let way = |name, servers: &str, protocol: &str, mechanism: &str, jaas: String| Way {
        name,
        login: vec![
            ("bootstrap.servers", servers.to_owned()),
            ("security.protocol", protocol.to_owned()),
            ("sasl.mechanism", mechanism.to_owned()),
            ("sasl.jaas.config", jaas),
        ],
    };
    let bob = user("plain.PlainLoginModule", "bob");
    let alice = user("scram.ScramLoginModule", "alice");
    let scram = |name, mechanism| {
        let mut way = way(name, secure, "SASL_SSL", mechanism, alice.clone());
        way.login
            .push(("ssl.truststore.location", authority.clone()));
        way
    };
    let token = |name, endpoint: &TokenServer| {
        let mut way = way(name, plain, "SASL_PLAINTEXT", "OAUTHBEARER", client.clone());
        let url = endpoint.url().to_owned();
        way.login.push(("sasl.oauthbearer.token.endpoint.url", url));
        way
    };
    Ok(vec![
        way("plain", plain, "SASL_PLAINTEXT", "PLAIN", bob),
        scram("scram-256", "SCRAM-SHA-256"),
        scram("scram-512", "SCRAM-SHA-512"),
        token("token", tokens),
        token("late-token", slow),
    ])
}

/// A connector that holds one record, and one that writes to Kafka all the
/// while.
struct Connectors {
    held: String,
    copied: String,
    copy: String,
}

impl Connectors {
    async fn prepare(kafka: &Kafka, way: &Way) -> Result<Self> {
        let connectors = Self {
            held: format!("held-{}", way.name),
            copied: format!("copied-{}", way.name),
            copy: format!("copy-of-copied-{}", way.name),
        };
        let admin = kafka.admin().await?;
        for topic in [&connectors.held, &connectors.copied, &connectors.copy] {
            admin.create_topic(topic, PARTITIONS).await?;
        }
        let group = format!("share-{}", connectors.held);
        let lock = [("share.record.lock.duration.ms", LOCK_MS)];
        admin.alter_group(&group, &lock).await?;
        let servers = kafka.bootstrap_servers();
        for topic in [&connectors.held, &connectors.copied] {
            produce(servers, topic, json_records(RECORDS, PARTITIONS, 100)).await?;
        }
        Ok(connectors)
    }

    fn worker(&self, way: &Way) -> Result<Worker> {
        let mut held = connector(&self.held, "null");
        held["record.file"] = json!("delivered.txt");
        held["slow.match"] = json!("partition=0,offset=7");
        held["slow.ms"] = json!(HELD_MS);
        let mut copied = connector(&self.copied, "kafka");
        copied["topic"] = json!("copy-of-${topic}");
        let mut options = WorkerOptions::new(BINARY)
            .property("log.format", "json")
            .property("log.level", "debug")
            .property("status.log.interval.ms", "200")
            .connector(&self.held, &held)
            .connector(&self.copied, &copied);
        for (key, value) in &way.login {
            options = options.property(key, value);
        }
        Worker::start(&options)
    }
}

fn connector(name: &str, class: &str) -> Value {
    const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
    json!({
        "name": name,
        "connector.class": class,
        "tasks.max": "4",
        "topics": name,
        "key.converter": STRING,
        "value.converter": STRING,
        "consumer.override.group.protocol": "share",
    })
}

async fn accepted(worker: &Worker, connector: &str, records: usize) -> Result<()> {
    let what = format!("{connector} has accepted {records}");
    eventually(&what, PATIENCE, async || {
        let status = status_of(worker, connector)?;
        ensure!(status["accepted"] == records, "status is {status}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// How often the session of a connector's group had this happen.
fn times(worker: &Worker, connector: &str, message: &str) -> Result<usize> {
    let group = format!("share-{connector}");
    let log = log(worker)?;
    let told = log
        .iter()
        .filter(|line| line["message"] == message && line["group"] == group.as_str());
    Ok(told.count())
}

/// One session from beginning to end, and every record delivered once.
fn kept_its_session(worker: &Worker, connector: &str) -> Result<()> {
    let status = status_of(worker, connector)?;
    for field in ["redelivered", "lost", "unknown", "released", "rejected"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    let connected = times(worker, connector, "connected for a share session")?;
    assert_eq!(connected, 1, "connections of {connector}");
    let renewed = times(worker, connector, "authenticated a share session anew")?;
    ensure!(renewed >= LIVES, "{connector}: renewed {renewed} times");
    Ok(())
}

async fn outlives(kafka: &Kafka, way: &Way) -> Result<()> {
    let connectors = Connectors::prepare(kafka, way).await?;
    let worker = connectors.worker(way)?;
    accepted(&worker, &connectors.copied, RECORDS).await?;
    accepted(&worker, &connectors.held, RECORDS).await?;
    kept_its_session(&worker, &connectors.held)?;
    let servers = kafka.bootstrap_servers();
    let all = json_records(2 * RECORDS, PARTITIONS, 100);
    produce(servers, &connectors.copied, all.skip(RECORDS)).await?;
    accepted(&worker, &connectors.copied, 2 * RECORDS).await?;
    kept_its_session(&worker, &connectors.copied)?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));

    let file = worker.folder().join("delivered.txt");
    assert_eq!(lines(&file), RECORDS);
    Tally::from_json_lines(&file, "/id")?.exactly_once(ids(RECORDS))?;
    let copies = read_topic(servers, &connectors.copy).await?;
    let values = copies.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id").exactly_once(ids(2 * RECORDS))?;
    let output = worker.output()?;
    for secret in [PASSWORD, CLIENT_SECRET] {
        ensure!(!output.contains(secret), "{secret} is shown");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_outlives_the_credentials_of_its_session_without_a_second_delivery() -> Result<()>
{
    let options = KafkaOptions::new()
        .user("alice", PASSWORD)
        .plain_user("bob", PASSWORD)
        .property("connections.max.reauth.ms", LIFE_MS);
    let kafka = Kafka::start(options).await?;
    let tokens = TokenServer::start("sluice", CLIENT_SECRET, TOKEN_LIFE).await?;
    let slow = TokenServer::start_slow("sluice", CLIENT_SECRET, TOKEN_LIFE, SLOW).await?;
    let ways = ways(&kafka, &tokens, &slow)?;
    let all = ways.iter().map(async |way| {
        let result = outlives(&kafka, way).await;
        result.with_context(|| format!("by {}", way.name))
    });
    try_join_all(all).await?;
    Ok(())
}
