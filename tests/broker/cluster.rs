//! The broker that these tests share, and what they put into it.

use std::ops::Range;
use std::time::Duration;

use krafka::Kafka;
use krafka::auth::AuthConfig;
use sluice_test_support::kafka::{Kafka as Cluster, KafkaOptions};
use sluice_test_support::produce::{self, NewRecord};
use sluice_test_support::topics::{Admin, unique_name};
use tokio::sync::OnceCell;

/// The longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long the listener with SASL takes credentials. Clients renew them in the
/// last 15 to 5 percent, which must be long enough for a busy machine.
pub(crate) const CREDENTIALS_LAST: Duration = Duration::from_secs(6);

/// Most tests use the listener without SASL.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || {
        let options = KafkaOptions::new().plain_user("reader", "secret").property(
            "connections.max.reauth.ms",
            &CREDENTIALS_LAST.as_millis().to_string(),
        );
        Cluster::start(options)
    };
    CLUSTER.get_or_try_init(start).await.unwrap()
}

pub(crate) async fn bootstrap_servers() -> &'static str {
    cluster().await.bootstrap_servers()
}

pub(crate) async fn connect() -> Kafka {
    let servers = bootstrap_servers().await;
    Kafka::builder(servers).connect().await.unwrap()
}

pub(crate) fn credentials() -> AuthConfig {
    AuthConfig::sasl_plain("reader", "secret")
}

/// Connects with credentials that end after [`CREDENTIALS_LAST`].
pub(crate) async fn connect_with_credentials() -> Kafka {
    Kafka::builder(cluster().await.plain_bootstrap_servers().unwrap())
        .security(credentials())
        .connect()
        .await
        .unwrap()
}

pub(crate) async fn admin() -> Admin {
    cluster().await.admin().await.unwrap()
}

/// A new topic, and a share group that reads it from its start.
pub(crate) async fn topic_and_group(stem: &str, partitions: i32) -> (String, String) {
    let topic = new_topic(stem, partitions).await;
    let group = unique_name(stem);
    set_group(&group, "share.auto.offset.reset", "earliest").await;
    (topic, group)
}

pub(crate) async fn new_topic(stem: &str, partitions: i32) -> String {
    let topic = unique_name(stem);
    admin()
        .await
        .create_topic(&topic, partitions)
        .await
        .unwrap();
    topic
}

pub(crate) async fn set_group(group: &str, key: &str, value: &str) {
    let changed = admin().await.alter_group(group, &[(key, value)]).await;
    changed.unwrap();
}

/// Waits until nothing of the topic is left for the group.
pub(crate) async fn wait_until_consumed(group: &str, topic: &str) {
    let admin = admin().await;
    let consumed = admin.wait_until_consumed(group, topic, PATIENCE).await;
    consumed.unwrap();
}

/// Writes that many records of that many bytes, spread over the partitions.
pub(crate) async fn produce(topic: &str, partitions: Range<i32>, count: usize, bytes: usize) {
    let records = partitions
        .cycle()
        .take(count)
        .map(move |partition| NewRecord::value(vec![b'x'; bytes]).partition(partition));
    let servers = bootstrap_servers().await;
    produce::produce(servers, topic, records).await.unwrap();
}
