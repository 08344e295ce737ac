//! Clusters where nobody may do anything that is not granted.

use std::time::Duration;

use anyhow::{Result, ensure};
use krafka::admin::{
    AclBinding, AclFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType,
    CreateAclsOptions, DescribeAclsOptions,
};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::topics::Admin;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::WorkerOptions;

use crate::stage::BINARY;

const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Nobody may do anything but who logs in without a name, and by the rights
/// that are granted.
pub async fn guarded(options: KafkaOptions) -> Result<Kafka> {
    let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let options = options
        .property("authorizer.class.name", authorizer)
        .property("super.users", "User:ANONYMOUS");
    Kafka::start(options).await
}

/// `sasl.jaas.config` of a user.
pub fn scram(user: &str, password: &str) -> String {
    format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required \
         username=\"{user}\" password=\"{password}\";"
    )
}

/// A worker that logs in as a user, with a quick status log.
pub fn worker_of(kafka: &Kafka, user: &str, password: &str) -> Result<WorkerOptions> {
    let authority = kafka.ca_file().display().to_string();
    Ok(WorkerOptions::new(BINARY)
        .property("bootstrap.servers", kafka.secure_bootstrap_servers()?)
        .property("security.protocol", "SASL_SSL")
        .property("ssl.truststore.location", &authority)
        .property("sasl.mechanism", "SCRAM-SHA-512")
        .property("sasl.jaas.config", &scram(user, password))
        .property("log.format", "json")
        .property("status.log.interval.ms", "50"))
}

pub fn allow(kind: AclResourceType, name: &str, user: &str, operation: AclOperation) -> AclBinding {
    let permission = AclPermissionType::Allow;
    let user = format!("User:{user}");
    // krafka 0.28.1 counts pattern types one too low: its `Prefixed` goes over
    // the wire as Kafka's LITERAL.
    AclBinding::new(kind, name, user, "*", operation, permission)
        .with_pattern_type(AclPatternType::Prefixed)
}

/// Grants rights that nobody has yet, and waits until the brokers show them.
pub async fn grant(admin: &Admin, rights: Vec<AclBinding>) -> Result<()> {
    let count = shown(admin).await? + rights.len();
    let answers = admin
        .client()
        .create_acls(rights, CreateAclsOptions::default());
    for (_, answer) in answers.await? {
        answer?;
    }
    eventually("the rights show", SHOWN_WITHIN, async || {
        let shown = shown(admin).await?;
        ensure!(shown == count, "{shown} of {count}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

async fn shown(admin: &Admin) -> Result<usize> {
    let all = admin
        .client()
        .describe_acls(AclFilter::default(), DescribeAclsOptions::default());
    Ok(all.await?.len())
}
