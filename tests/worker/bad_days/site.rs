//! Clusters that tests may ill-treat, one test at a time.

use anyhow::Result;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::Signal;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Who must ask for rights; the PLAINTEXT listener has all.
pub const USER: &str = "worker";
pub const PASSWORD: &str = "worker-secret";

/// A cluster for the time of one test.
pub struct Site {
    pub kafka: &'static Kafka,
    _turn: MutexGuard<'static, ()>,
}

impl Site {
    /// A broker by itself, which knows rights, forgets quotas soon, compacts
    /// soon, and may have a proxy.
    pub async fn alone() -> Result<Self> {
        static KAFKA: OnceCell<Kafka> = OnceCell::const_new();
        static TURN: Mutex<()> = Mutex::const_new(());
        let options = KafkaOptions::new()
            .plain_user(USER, PASSWORD)
            .property(
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )
            .property("super.users", "User:ANONYMOUS")
            .property("quota.window.num", "3")
            .property("log.cleaner.backoff.ms", "200")
            .proxied();
        Self::take(&KAFKA, &TURN, options).await
    }

    /// Three brokers.
    pub async fn of_three() -> Result<Self> {
        static KAFKA: OnceCell<Kafka> = OnceCell::const_new();
        static TURN: Mutex<()> = Mutex::const_new(());
        Self::take(&KAFKA, &TURN, KafkaOptions::new().nodes(3)).await
    }

    async fn take(
        cluster: &'static OnceCell<Kafka>,
        turn: &'static Mutex<()>,
        options: KafkaOptions,
    ) -> Result<Self> {
        let turn = turn.lock().await;
        let kafka = cluster.get_or_try_init(|| Kafka::start(options)).await?;
        heal(kafka).await?;
        Ok(Self { kafka, _turn: turn })
    }
}

/// A test that failed may have left a node dead or frozen.
async fn heal(kafka: &Kafka) -> Result<()> {
    let mut nodes = 0;
    while let Ok(pid) = kafka.node_pid(nodes + 1) {
        nodes += 1;
        match pid {
            Some(_) => kafka.signal_node(nodes, Signal::CONT)?,
            None => kafka.start_node(nodes)?,
        }
    }
    kafka.wait_for_nodes(nodes).await
}
