//! The broker under test and what the tests put into it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use krafka::Kafka;
use krafka::admin::{
    AclBinding, AclOperation, AclPatternType, AclPermissionType, AclResourceType,
    AlterConsumerGroupOffsetsOptions, ConfigOp, ConfigResource, CreateAclsOptions,
    CreateTopicsOptions, IncrementalAlterConfigsOptions, NewTopic, TopicPartition,
};
use krafka::auth::AuthConfig;
use krafka::producer::Record;
use sluice::kafka::admin::Admin;

/// Listener of the superuser, and the one of `alice`, who has the rights that
/// ACLs give her.
const BOOTSTRAP: &str = "127.0.0.1:29492";
const BOOTSTRAP_ALICE: &str = "127.0.0.1:29494";

pub(crate) fn bootstrap_servers() -> &'static str {
    BOOTSTRAP
}

pub(crate) async fn kafka() -> Kafka {
    Kafka::builder(bootstrap_servers()).connect().await.unwrap()
}

pub(crate) async fn admin() -> Admin {
    Admin::new(kafka().await.admin(), bootstrap_servers())
}

pub(crate) async fn alice() -> Admin {
    let kafka = Kafka::builder(BOOTSTRAP_ALICE)
        .security(AuthConfig::sasl_plain("alice", "alice-secret"))
        .connect()
        .await
        .unwrap();
    Admin::new(kafka.admin(), BOOTSTRAP_ALICE)
}

/// A name that no other test and no earlier run has used.
pub(crate) fn fresh(stem: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let run = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    format!("{stem}-{run:x}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) async fn create_topic(name: &str, partitions: i32) {
    let topic = NewTopic::new(name, partitions, 1).unwrap();
    let made = kafka()
        .await
        .admin()
        .create_topics([topic], CreateTopicsOptions::default())
        .await
        .unwrap();
    made.into_values().collect::<Result<(), _>>().unwrap();
    eventually("the topic to show", || async {
        let described = kafka()
            .await
            .admin()
            .describe_topics([name], Default::default())
            .await;
        described
            .unwrap()
            .into_values()
            .all(|answer| answer.is_ok())
    })
    .await;
}

pub(crate) async fn produce(topic: &str, partition: i32, records: usize) {
    let producer = kafka().await.producer().build().await.unwrap();
    for number in 0..records {
        let record = Record::new(topic, format!("record {number}")).partition(partition);
        let _metadata = producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}

pub(crate) async fn commit(group: &str, topic: &str, offsets: &[(i32, i64)]) {
    let offsets = offsets
        .iter()
        .map(|(partition, offset)| (TopicPartition::new(topic, *partition), *offset));
    let answers = kafka()
        .await
        .admin()
        .alter_consumer_group_offsets(group, offsets, AlterConsumerGroupOffsetsOptions::default())
        .await
        .unwrap();
    answers.into_values().collect::<Result<(), _>>().unwrap();
}

pub(crate) async fn set_config(group: &str, key: &str, value: &str) {
    let change = (
        ConfigResource::group(group),
        vec![ConfigOp::set(key, value)],
    );
    let answers = kafka()
        .await
        .admin()
        .incremental_alter_configs([change], IncrementalAlterConfigsOptions::default())
        .await
        .unwrap();
    answers.into_values().collect::<Result<(), _>>().unwrap();
    let resource = ConfigResource::group(group);
    eventually("the setting to show", || async {
        let mut answers = kafka()
            .await
            .admin()
            .describe_configs([resource.clone()], Default::default())
            .await
            .unwrap();
        let entries = answers.remove(&resource).unwrap().unwrap();
        entries
            .iter()
            .any(|entry| entry.name == key && entry.value.as_deref() == Some(value))
    })
    .await;
}

/// Gives alice all rights on the group but one.
pub(crate) async fn deny_alice(group: &str, denied: AclOperation) {
    let binding = |operation, permission| {
        // krafka 0.28.1 counts pattern types one too low: its `Prefixed` goes
        // over the wire as Kafka's LITERAL.
        AclBinding::new(
            AclResourceType::Group,
            group,
            "User:alice",
            "*",
            operation,
            permission,
        )
        .with_pattern_type(AclPatternType::Prefixed)
    };
    let bindings = vec![
        binding(AclOperation::All, AclPermissionType::Allow),
        binding(denied, AclPermissionType::Deny),
    ];
    let answers = kafka()
        .await
        .admin()
        .create_acls(bindings, CreateAclsOptions::default())
        .await
        .unwrap();
    for (_, answer) in answers {
        answer.unwrap();
    }
}

pub(crate) async fn eventually<F, T>(what: &str, mut holds: F)
where
    F: FnMut() -> T,
    T: Future<Output = bool>,
{
    let asked = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"));
}
