//! The broker that these tests share, and what they put into it.

use std::time::Duration;

use krafka::Kafka;
use krafka::admin::{
    AclBinding, AclFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType,
    AlterConsumerGroupOffsetsOptions, ConfigResource, CreateAclsOptions, TopicPartition,
};
use krafka::auth::AuthConfig;
use sluice::kafka::admin::Admin;
use sluice_test_support::kafka::{Kafka as Cluster, KafkaOptions};
use sluice_test_support::produce::{self, NewRecord};
use sluice_test_support::wait;
use tokio::sync::OnceCell;

const PATIENCE: Duration = Duration::from_secs(20);

/// All may do all, but for what ACLs deny: to alice, as the others have no name.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || {
        let options = KafkaOptions::new()
            .plain_user("alice", "alice-secret")
            .property(
                "authorizer.class.name",
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )
            .property("allow.everyone.if.no.acl.found", "true")
            .property("super.users", "User:ANONYMOUS");
        Cluster::start(options)
    };
    CLUSTER.get_or_try_init(start).await.unwrap()
}

/// A client without a name, who is a superuser.
pub(crate) async fn kafka() -> Kafka {
    let servers = cluster().await.bootstrap_servers();
    Kafka::builder(servers).connect().await.unwrap()
}

pub(crate) async fn admin() -> Admin {
    let servers = cluster().await.bootstrap_servers();
    Admin::new(kafka().await.admin(), servers)
}

pub(crate) async fn bootstrap_servers() -> &'static str {
    cluster().await.bootstrap_servers()
}

/// Where alice logs in, who has the rights that ACLs leave her.
pub(crate) async fn alices_servers() -> &'static str {
    cluster().await.plain_bootstrap_servers().unwrap()
}

pub(crate) async fn alice() -> Admin {
    let servers = alices_servers().await;
    let kafka = Kafka::builder(servers)
        .security(AuthConfig::sasl_plain("alice", "alice-secret"))
        .connect()
        .await
        .unwrap();
    Admin::new(kafka.admin(), servers)
}

pub(crate) async fn create_topic(name: &str, partitions: i32) {
    let admin = cluster().await.admin().await.unwrap();
    admin.create_topic(name, partitions).await.unwrap();
}

pub(crate) async fn produce(topic: &str, partition: i32, records: usize) {
    let servers = cluster().await.bootstrap_servers();
    let records = (0..records)
        .map(move |number| NewRecord::value(format!("record {number}")).partition(partition));
    produce::produce(servers, topic, records).await.unwrap();
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
    let admin = cluster().await.admin().await.unwrap();
    admin.alter_group(group, &[(key, value)]).await.unwrap();
    let resource = ConfigResource::group(group);
    eventually("the setting shows", async || {
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
    // The controller has them now, the broker's authorizer a little later.
    eventually("the rights show", async || {
        let filter = AclFilter::for_resource(AclResourceType::Group, group);
        let shown = kafka()
            .await
            .admin()
            .describe_acls(filter, Default::default())
            .await;
        shown.unwrap().len() == 2
    })
    .await;
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let seen = wait::eventually(what, PATIENCE, async || {
        if holds().await {
            Ok(())
        } else {
            Err("it does not hold")
        }
    });
    seen.await.unwrap();
}
