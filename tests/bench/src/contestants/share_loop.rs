//! KIP-1302's loop as written, on Java's share consumer: one for each task.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::kafka::Kafka;

use super::Measured;
use super::java::Classes;
use super::peer::{Peer, properties};

const MAIN: &str = "sluice.bench.ShareLoop";

/// What to run.
#[derive(Clone, Debug)]
pub struct ShareLoop<'a> {
    pub classes: &'a Classes,
    pub kafka: &'a Kafka,
    pub topic: &'a str,
    pub tasks: usize,
    pub heap_mb: u32,
    /// How long its target takes.
    pub target: &'a [(String, String)],
    /// Settings of the group.
    pub group: &'a [(&'a str, &'a str)],
    pub turn: &'a str,
}

impl ShareLoop<'_> {
    pub async fn start(&self) -> Result<Peer> {
        let group = format!("loop-{}", self.turn);
        let mut settings = vec![("share.auto.offset.reset", "earliest")];
        settings.extend(self.group);
        let admin = self.kafka.admin().await?;
        admin.alter_group(&group, &settings).await?;
        let consumer = [
            ("topics", self.topic.to_owned()),
            ("tasks.max", self.tasks.to_string()),
            (
                "consumer.bootstrap.servers",
                self.kafka.bootstrap_servers().to_owned(),
            ),
            ("consumer.group.id", group),
        ];
        let consumer = consumer.map(|(key, value)| (key.to_owned(), value));
        let settings = [&consumer, self.target].concat();
        let files = [("loop.properties", properties(&settings))];
        self.classes.start(MAIN, self.heap_mb, &files)
    }

    pub async fn measure(&self, records: usize, within: Duration) -> Result<Measured> {
        self.start().await?.measure(records, within).await
    }
}
