//! krafka's test broker, on a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use krafka::testing::{ClusterState, FakeBroker};
use tokio::runtime::{Builder, Runtime};

use super::{EmbeddedBrokerError, SettledOffsets};

/// The broker remembers every request for assertions, and looks all of them
/// through at each further one: they are forgotten so often.
const FORGET_REQUESTS_EVERY: Duration = Duration::from_millis(250);

/// A running broker at a loopback port. It ends when dropped, which must not
/// happen inside a runtime.
#[derive(Debug)]
pub struct EmbeddedBroker {
    // Before the runtime that it runs on: fields are dropped in this order.
    broker: Arc<FakeBroker>,
    _runtime: Runtime,
}

impl EmbeddedBroker {
    /// Starts a broker of one node, on a port that was free.
    pub fn start() -> Result<Self, EmbeddedBrokerError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("sluice-broker")
            .enable_all()
            .build()?;
        let broker = Arc::new(runtime.block_on(FakeBroker::start())?);
        runtime.spawn(forget_requests(Arc::clone(&broker)));
        Ok(Self {
            broker,
            _runtime: runtime,
        })
    }

    /// Where it listens, as `host:port`.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.broker.bootstrap_servers()
    }

    /// Makes a topic, unless it is there.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        self.broker.create_topic(name, partitions);
    }

    /// What a share group is done with, by partition of a topic.
    #[must_use]
    pub fn settled(&self, group: &str, topic: &str) -> Vec<SettledOffsets> {
        self.broker.with_state(|state| settled(state, group, topic))
    }
}

fn settled(state: &ClusterState, group: &str, topic: &str) -> Vec<SettledOffsets> {
    let group = state.share_groups.get(group);
    let partitions = state.topics.get(topic).map_or(0, |it| it.partitions.len());
    let partitions = 0..i32::try_from(partitions).unwrap_or(i32::MAX);
    let of_partition = |partition| {
        let found = group.and_then(|it| it.partitions.get(&(topic.to_owned(), partition)));
        found.map_or_else(SettledOffsets::default, |found| SettledOffsets {
            start: found.start_offset,
            beyond: found.archived.clone(),
        })
    };
    partitions.map(of_partition).collect()
}

async fn forget_requests(broker: Arc<FakeBroker>) {
    let mut ticks = tokio::time::interval(FORGET_REQUESTS_EVERY);
    loop {
        ticks.tick().await;
        broker.clear_requests();
    }
}
