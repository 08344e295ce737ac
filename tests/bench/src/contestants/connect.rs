//! Kafka Connect 4.4.0, standalone, in consumer-group mode. Its sinks are ours:
//! Kafka ships none.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::free_port;
use sluice_test_support::kafka::Kafka;

use super::Measured;
use super::java::Classes;
use super::peer::{Peer, properties};

const MAIN: &str = "org.apache.kafka.connect.cli.ConnectStandalone";
pub const NULL_SINK: &str = "sluice.bench.NullSink";
pub const KAFKA_SINK: &str = "sluice.bench.KafkaSink";
const BYTES: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";

/// What to run.
#[derive(Clone, Debug)]
pub struct Connect<'a> {
    pub classes: &'a Classes,
    pub kafka: &'a Kafka,
    pub topic: &'a str,
    pub class: &'a str,
    pub tasks: usize,
    pub heap_mb: u32,
    /// More keys for the connector.
    pub connector: &'a [(String, String)],
    pub turn: &'a str,
}

impl Connect<'_> {
    pub fn start(&self) -> Result<Peer> {
        // Free again when Connect wants it.
        let port = free_port()?.local_addr()?.port();
        let worker = [
            (
                "bootstrap.servers",
                self.kafka.bootstrap_servers().to_owned(),
            ),
            ("listeners", format!("http://127.0.0.1:{port}")),
            ("key.converter", BYTES.to_owned()),
            ("value.converter", BYTES.to_owned()),
            ("offset.storage.file.filename", "offsets".to_owned()),
            ("plugin.discovery", "service_load".to_owned()),
        ];
        let connector = [
            // Not a worker's: it would be asked to carry its positions over.
            ("name", format!("peer-{}", self.turn)),
            ("connector.class", self.class.to_owned()),
            ("tasks.max", self.tasks.to_string()),
            ("topics", self.topic.to_owned()),
        ];
        let owned = |pairs: &[(&str, String)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect()
        };
        let connector = [owned(&connector), self.connector.to_vec()].concat();
        let files = [
            ("worker.properties", properties(&owned(&worker))),
            ("connector.properties", properties(&connector)),
        ];
        self.classes.start(MAIN, self.heap_mb, &files)
    }

    pub async fn measure(&self, records: usize, within: Duration) -> Result<Measured> {
        self.start()?.measure(records, within).await
    }
}
