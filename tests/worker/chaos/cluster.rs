//! The brokers of a run, which are killed and come back.

use std::sync::Arc;
use std::task::Poll;

use anyhow::Result;
use futures::future::LocalBoxFuture;
use futures::{FutureExt, poll};
use sluice_test_support::kafka::{Kafka, KafkaOptions};

pub const TOPIC: &str = "chaos";
pub const PARTITIONS: i32 = 12;

pub struct Cluster {
    pub kafka: Arc<Kafka>,
    nodes: usize,
    coming_back: Option<LocalBoxFuture<'static, Result<()>>>,
}

impl Cluster {
    pub async fn start(nodes: usize) -> Result<Self> {
        let options = KafkaOptions::new()
            .nodes(nodes)
            // A leader that moves by itself costs attempts at a time that no
            // schedule knows.
            .property("auto.leader.rebalance.enable", "false")
            // The states of share groups are read at the end, all of them.
            .property(
                "share.coordinator.state.topic.prune.interval.ms",
                "86400000",
            );
        let kafka = Arc::new(Kafka::start(options).await?);
        let replicas = i16::try_from(nodes)?;
        let in_sync = nodes.div_ceil(2).to_string();
        let settings = [("min.insync.replicas", in_sync.as_str())];
        let admin = kafka.admin().await?;
        admin
            .create_topic_with(TOPIC, PARTITIONS, replicas, &settings)
            .await?;
        Ok(Self {
            kafka,
            nodes,
            coming_back: None,
        })
    }

    /// Starts a node again; `is_whole` tells when it takes part.
    pub fn start_node(&mut self, node: usize) -> Result<()> {
        self.kafka.start_node(node)?;
        let (kafka, nodes) = (Arc::clone(&self.kafka), self.nodes);
        let coming_back = async move { kafka.wait_for_nodes(nodes).await };
        self.coming_back = Some(coming_back.boxed_local());
        Ok(())
    }

    /// Whether a node that was started again takes part.
    pub async fn is_whole(&mut self) -> Result<bool> {
        if let Some(coming_back) = &mut self.coming_back {
            let Poll::Ready(came_back) = poll!(coming_back) else {
                return Ok(false);
            };
            self.coming_back = None;
            came_back?;
        }
        Ok(true)
    }
}
