//! The brokers of a run, which are killed or stopped and come back, and the
//! connections with them, which are cut.

use std::sync::Arc;
use std::task::Poll;

use anyhow::Result;
use futures::future::LocalBoxFuture;
use futures::{FutureExt, poll};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::Signal;
use sluice_test_support::proxy::Proxy;

pub const TOPIC: &str = "chaos";
/// Of the dead letters.
pub const LETTERS: &str = "dlq.chaos";
pub const PARTITIONS: i32 = 12;

pub struct Cluster {
    pub kafka: Arc<Kafka>,
    nodes: usize,
    proxies: Vec<Proxy>,
    coming_back: Option<LocalBoxFuture<'static, Result<()>>>,
}

impl Cluster {
    pub async fn start(nodes: usize) -> Result<Self> {
        let options = KafkaOptions::new()
            .nodes(nodes)
            .proxied()
            // A leader that moves by itself costs attempts at a time that no
            // schedule knows.
            .property("auto.leader.rebalance.enable", "false")
            .property("group.share.max.delivery.count.limit", "20")
            // The states of share groups are read at the end, all of them.
            .property(
                "share.coordinator.state.topic.prune.interval.ms",
                "86400000",
            );
        let kafka = Arc::new(Kafka::start(options).await?);
        let replicas = i16::try_from(nodes)?;
        let in_sync = nodes.div_ceil(2).to_string();
        let in_sync = ("min.insync.replicas", in_sync.as_str());
        let admin = kafka.admin().await?;
        admin
            .create_topic_with(TOPIC, PARTITIONS, replicas, &[in_sync])
            .await?;
        // So a letter says when it was written, and not when its record was.
        let settings = [in_sync, ("message.timestamp.type", "LogAppendTime")];
        admin
            .create_topic_with(LETTERS, 1, replicas, &settings)
            .await?;
        Ok(Self {
            proxies: kafka.proxies().await?,
            kafka,
            nodes,
            coming_back: None,
        })
    }

    /// Cuts all connections that go through proxies; false as long as there are
    /// none, since the broker is away.
    pub fn cut(&self) -> bool {
        self.proxies.iter().map(Proxy::cut).sum::<usize>() > 0
    }

    pub fn stop_node(&self, node: usize) -> Result<()> {
        self.kafka.signal_node(node, Signal::TERM)
    }

    /// Starts a node again, false as long as it has not ended; `is_whole` tells
    /// when it takes part.
    pub fn start_node(&mut self, node: usize) -> Result<bool> {
        if !self.kafka.node_has_ended(node)? {
            return Ok(false);
        }
        self.kafka.start_node(node)?;
        let (kafka, nodes) = (Arc::clone(&self.kafka), self.nodes);
        let coming_back = async move { kafka.wait_for_nodes(nodes).await };
        self.coming_back = Some(coming_back.boxed_local());
        Ok(true)
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
