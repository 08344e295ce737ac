//! How a connector's producer reaches its cluster and writes: Kafka's names,
//! and what librdkafka calls them.

pub use super::producer_keys::PRODUCER_KEYS;

use super::client_properties::ClientProperties;
use super::connector::Topics;
use super::definition::{Faults, Reader};
use super::known_keys::KnownKeys;
use super::layers::Settings;
use super::overrides::{OverridePolicy, Rules, client_properties};
use super::producer_keys;
use crate::kafka::client_config::ClientConfig;

/// What the worker gives to all its connectors' producers.
pub const PRODUCER: &str = "producer.";
/// What connectors may override begins with this.
pub const PRODUCER_OVERRIDE: &str = "producer.override.";

/// What is wrong with keys below one of these prefixes.
#[must_use]
pub const fn rules<'a>(
    prefix: &'static str,
    policy: OverridePolicy,
    known: &'a KnownKeys,
) -> Rules<'a> {
    Rules {
        prefix,
        policy,
        known,
        refused: producer_keys::REFUSED,
        inert: producer_keys::INERT,
    }
}

#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Whose producer it is, for the log; empty if it is no connector's.
    pub connector: String,
    pub client: ClientConfig,
    /// All that is not the client's, by librdkafka's names.
    pub tuning: Vec<(&'static str, String)>,
    /// What the connector reads, if it is a connector's.
    pub reads: Option<ReadTopics>,
}

/// The topics that a connector reads, and where: what it writes there, it
/// would read again.
#[derive(Clone, Debug)]
pub struct ReadTopics {
    topics: Topics,
    /// Source and sink have an address in common.
    same_servers: bool,
    /// Known once the source has connected.
    cluster_id: Option<String>,
}

impl ReadTopics {
    /// Those that lie in the cluster that is written to, by the addresses.
    #[must_use]
    pub fn known_here(&self) -> Option<&Topics> {
        self.same_servers.then_some(&self.topics)
    }

    /// Whether that topic is read from the cluster of that id.
    #[must_use]
    pub fn contains(&self, topic: &str, cluster_id: &str) -> bool {
        let is_here = self.same_servers || self.cluster_id.as_deref() == Some(cluster_id);
        is_here && self.topics.contains(topic)
    }
}

impl ProducerConfig {
    /// From the worker's own properties, its `producer.` ones, and the
    /// connector's `producer.override.` ones.
    pub fn read(
        worker: &Settings,
        connector: &Settings,
        client_id: &str,
        faults: &mut Faults,
    ) -> Self {
        let properties = client_properties(worker, PRODUCER)
            .at_home(PRODUCER_OVERRIDE)
            .with(connector, PRODUCER_OVERRIDE, |_| true);
        Self {
            connector: connector.get("name").unwrap_or_default().to_owned(),
            ..Self::of(&properties, client_id, faults)
        }
    }

    /// From one client's properties.
    pub(super) fn of(properties: &ClientProperties, client_id: &str, faults: &mut Faults) -> Self {
        let client = ClientConfig::read(properties, client_id, faults);
        properties.read(PRODUCER_KEYS, faults, |reader| {
            check(reader);
            Self {
                connector: String::new(),
                client,
                tuning: tuning(reader),
                reads: None,
            }
        })
    }

    /// All settings, as librdkafka takes them.
    #[must_use]
    pub fn librdkafka(&self) -> rdkafka::ClientConfig {
        let mut config = self.client.librdkafka();
        for (name, value) in &self.tuning {
            config.set(*name, value);
        }
        config
    }

    /// The same, in the cluster that a consumer reads, and as it reaches it.
    #[must_use]
    pub fn beside_consumer(self, consumer: &ClientConfig, client_id: String) -> Self {
        let mut client = consumer.clone();
        client.client_id = client_id;
        Self { client, ..self }
    }

    /// The same for a topic that must have settings of its own: the brokers
    /// would create it with theirs.
    #[must_use]
    pub fn creating_no_topics(mut self) -> Self {
        let key = "allow.auto.create.topics";
        self.tuning.push((key, "false".to_owned()));
        self
    }

    /// The same beside a consumer that reads these topics.
    #[must_use]
    pub fn beside(mut self, consumer: &ClientConfig, topics: &Topics) -> Self {
        let ours = &self.client.bootstrap_servers;
        let theirs = &consumer.bootstrap_servers;
        self.reads = Some(ReadTopics {
            topics: topics.clone(),
            same_servers: theirs.iter().any(|server| ours.contains(server)),
            cluster_id: None,
        });
        self
    }

    /// The same, when the consumer has met its cluster: one cluster may go by
    /// several addresses.
    #[must_use]
    pub fn beside_cluster(mut self, cluster_id: String) -> Self {
        if let Some(reads) = &mut self.reads {
            reads.cluster_id = Some(cluster_id);
        }
        self
    }
}

fn check(reader: &mut Reader<'_>) {
    let _ = reader.choice("acks");
    if !reader.boolean("enable.idempotence") {
        reader.fault(
            "enable.idempotence",
            "must be true: without it the producer's repetitions would write records twice",
        );
    }
    let largest = reader.int("max.request.size");
    if reader.int("buffer.memory") < largest {
        reader.fault(
            "buffer.memory",
            format!("is less than max.request.size ({largest}), so that a large record would never find room"),
        );
    }
    for (least, most) in [
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    ] {
        if reader.int(least) > reader.int(most) {
            reader.fault(least, format!("is more than {most}"));
        }
    }
}

fn tuning(reader: &mut Reader<'_>) -> Vec<(&'static str, String)> {
    let mut tuning = vec![
        ("acks", "all".to_owned()),
        ("enable.idempotence", "true".to_owned()),
        // As Kafka's own producer places keys.
        ("partitioner", "murmur2_random".to_owned()),
        (
            "compression.codec",
            reader.choice("compression.type").to_owned(),
        ),
        (
            "queue.buffering.max.kbytes",
            (reader.int("buffer.memory") / 1024).to_string(),
        ),
    ];
    for (kafkas, librdkafkas) in [
        ("linger.ms", "queue.buffering.max.ms"),
        ("batch.size", "batch.size"),
        ("delivery.timeout.ms", "message.timeout.ms"),
        ("max.request.size", "message.max.bytes"),
        (
            "max.in.flight.requests.per.connection",
            "max.in.flight.requests.per.connection",
        ),
        ("retries", "message.send.max.retries"),
        ("retry.backoff.ms", "retry.backoff.ms"),
        ("retry.backoff.max.ms", "retry.backoff.max.ms"),
        ("reconnect.backoff.ms", "reconnect.backoff.ms"),
        ("reconnect.backoff.max.ms", "reconnect.backoff.max.ms"),
    ] {
        tuning.push((librdkafkas, reader.int(kafkas).to_string()));
    }
    tuning
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::testing::layer;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        Settings::merge([layer(pairs)]).unwrap()
    }

    fn read(pairs: &[(&str, &str)]) -> (ProducerConfig, String) {
        let worker = settings(&[
            ("bootstrap.servers", "a:1,b:1"),
            ("client.id", "worker"),
            ("request.timeout.ms", "1000"),
            ("producer.linger.ms", "7"),
        ]);
        let mut faults = Faults::default();
        let producer = ProducerConfig::read(&worker, &settings(pairs), "audit", &mut faults);
        (producer, faults.to_string())
    }

    fn tuned<'a>(producer: &'a ProducerConfig, name: &str) -> &'a str {
        let found = producer.tuning.iter().find(|(key, _)| *key == name);
        &found.unwrap_or_else(|| panic!("{name} is not set")).1
    }

    #[test]
    fn the_cluster_is_the_workers_unless_overridden() {
        let (producer, faults) = read(&[]);
        assert_eq!(faults, "");
        assert_eq!(producer.client.bootstrap_servers, ["a:1", "b:1"]);
        assert_eq!(producer.client.client_id, "audit");
        assert_eq!(producer.client.request_timeout, Duration::from_secs(1));
        let (producer, faults) = read(&[("producer.override.bootstrap.servers", "c:2")]);
        assert_eq!(faults, "");
        assert_eq!(producer.client.bootstrap_servers, ["c:2"]);
    }

    #[test]
    fn kafkas_names_become_librdkafkas() {
        let (producer, faults) = read(&[
            ("producer.override.max.request.size", "5000"),
            ("producer.override.buffer.memory", "2048000"),
            ("producer.override.compression.type", "ZSTD"),
            ("producer.override.delivery.timeout.ms", "900"),
        ]);
        assert_eq!(faults, "");
        assert_eq!(tuned(&producer, "queue.buffering.max.ms"), "7");
        assert_eq!(tuned(&producer, "message.max.bytes"), "5000");
        assert_eq!(tuned(&producer, "queue.buffering.max.kbytes"), "2000");
        assert_eq!(tuned(&producer, "compression.codec"), "zstd");
        assert_eq!(tuned(&producer, "message.timeout.ms"), "900");
    }

    #[test]
    fn what_would_lose_or_repeat_records_is_refused() {
        for (name, value, message) in [
            ("acks", "1", "\"1\" is not one of all, -1"),
            (
                "enable.idempotence",
                "false",
                "must be true: without it the producer's repetitions would write records twice",
            ),
            (
                "max.in.flight.requests.per.connection",
                "6",
                "6 is not between 1 and 5",
            ),
            (
                "buffer.memory",
                "2048",
                "is less than max.request.size (1048576), so that a large record would never find room",
            ),
            (
                "retry.backoff.ms",
                "2000",
                "is more than retry.backoff.max.ms",
            ),
        ] {
            let key = format!("producer.override.{name}");
            let (_, faults) = read(&[(&key, value)]);
            assert_eq!(faults, format!("{key}: {message}"));
        }
    }

    #[test]
    fn a_cluster_is_the_same_if_an_address_or_its_id_is() {
        let topics = Topics::Named(vec!["orders".to_owned()]);
        let (consumer, _) = read(&[]);
        for (servers, same) in [("b:1,c:1", true), ("c:1", false)] {
            let (producer, _) = read(&[("producer.override.bootstrap.servers", servers)]);
            let producer = producer
                .beside(&consumer.client, &topics)
                .beside_cluster("source".to_owned());
            let reads = producer.reads.unwrap();
            assert_eq!(reads.known_here().is_some(), same, "{servers}");
            assert_eq!(reads.contains("orders", "other"), same, "{servers}");
            assert!(reads.contains("orders", "source"), "{servers}");
            assert!(!reads.contains("audit", "source"), "{servers}");
        }
    }

    #[test]
    fn librdkafka_takes_every_setting() {
        let (producer, _) = read(&[]);
        let config = producer.librdkafka();
        config.create_native_config().unwrap();
    }
}
