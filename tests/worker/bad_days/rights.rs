//! Rights that are taken away and given back.

use anyhow::{Context, Result};
use krafka::admin::{
    AclBinding, AclFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType,
    CreateAclsOptions, DeleteAclsOptions,
};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::worker::{Worker, WorkerOptions};

use super::case::{Case, PATIENCE, connector};
use super::site::{PASSWORD, Site, USER};
use crate::history::{lines_of, log};
use crate::load::Load;
use crate::stage::{BINARY, Stage, wait_for_status};

const PARTITIONS: i32 = 2;
/// The number that krafka 0.28 has for prefixes is the one for names in Kafka.
const LITERAL: AclPatternType = AclPatternType::Prefixed;

/// A right of the worker's user.
#[derive(Clone, Copy)]
struct Right<'a>(AclResourceType, &'a str, AclOperation);

impl Right<'_> {
    fn principal() -> String {
        format!("User:{USER}")
    }

    async fn grant(self, stage: &Stage) -> Result<()> {
        let Self(kind, name, operation) = self;
        let allow = AclPermissionType::Allow;
        let acl = AclBinding::new(kind, name, Self::principal(), "*", operation, allow)
            .with_pattern_type(LITERAL);
        let client = stage.admin.client();
        let made = client.create_acls(vec![acl], CreateAclsOptions::default());
        for (acl, result) in made.await? {
            result.with_context(|| format!("cannot grant {acl:?}"))?;
        }
        Ok(())
    }

    async fn revoke(self, stage: &Stage) -> Result<()> {
        let Self(kind, name, operation) = self;
        let filter = AclFilter::for_resource(kind, name)
            .pattern_type(LITERAL)
            .principal(Self::principal())
            .operation(operation);
        let client = stage.admin.client();
        let deleted = client.delete_acls(vec![filter], DeleteAclsOptions::default());
        for (_, result) in deleted.await? {
            assert_eq!(result?.deleted.len(), 1, "{name}");
        }
        Ok(())
    }
}

async fn grant_all(stage: &Stage, topics: &[&str], group: &str) -> Result<()> {
    use AclOperation::{AlterConfigs, DescribeConfigs};
    let kind = AclResourceType::Group;
    for operation in [DescribeConfigs, AlterConfigs] {
        Right(kind, group, operation).grant(stage).await?;
    }
    grant_all_but_settings(stage, topics, group).await
}

/// What is needed to read the topics, and nothing on the group's settings: the
/// right to change them would be one to read them.
async fn grant_all_but_settings(stage: &Stage, topics: &[&str], group: &str) -> Result<()> {
    use AclOperation::{Describe, Read};
    let mut rights = vec![Right(AclResourceType::Cluster, "kafka-cluster", Describe)];
    for topic in topics {
        let kind = AclResourceType::Topic;
        rights.extend([Read, Describe].map(|operation| Right(kind, topic, operation)));
    }
    let kind = AclResourceType::Group;
    rights.extend([Read, Describe].map(|operation| Right(kind, group, operation)));
    let consumer_group = group.replacen("share-", "connect-", 1);
    rights.push(Right(kind, &consumer_group, Describe));
    for right in rights {
        right.grant(stage).await?;
    }
    Ok(())
}

fn options(stage: &Stage, connector: &Value) -> Result<WorkerOptions> {
    let login = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required \
         username=\"{USER}\" password=\"{PASSWORD}\";"
    );
    Ok(WorkerOptions::new(BINARY)
        .property("bootstrap.servers", stage.kafka.plain_bootstrap_servers()?)
        .property("security.protocol", "SASL_PLAINTEXT")
        .property("sasl.mechanism", "PLAIN")
        .property("sasl.jaas.config", &login)
        .property("log.format", "json")
        .property("status.log.interval.ms", "50")
        .connector(&stage.name, connector))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_whose_rights_are_taken_is_named_and_the_others_go_on() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "rights", PARTITIONS, 1).await?;
    let closed = format!("{}-closed", stage.name);
    stage.admin.create_topic(&closed, 1).await?;
    grant_all(&stage, &[&stage.name, &closed], &stage.group()).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut connector = connector(&stage);
    connector["topics"] = json!(format!("{},{closed}", stage.name));
    let mut case = Case::with(&stage, &options(&stage, &connector)?).await?;
    let servers = stage.kafka.bootstrap_servers();

    let read = Right(AclResourceType::Topic, &closed, AclOperation::Read);
    let describe = Right(AclResourceType::Topic, &closed, AclOperation::Describe);
    for taken in [&[read][..], &[read, describe]] {
        for right in taken {
            right.revoke(&stage).await?;
        }
        case.is_troubled_by(&[&closed, "grant READ"]).await?;
        let (before, after) = (case.count("accepted")?, load.sent());
        produce(servers, &closed, json_records(after, 1, 100).take(10)).await?;
        case.wait_for_ids(after).await?;
        assert!(case.count("accepted")? > before);
        for right in taken {
            right.grant(&stage).await?;
        }
        case.recovers().await?;
        stage
            .admin
            .wait_until_consumed(&stage.group(), &closed, PATIENCE)
            .await?;
    }
    let records = load.stop().await?;
    case.wait_for_ids(records).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_rights_are_taken_is_named_and_joined_again() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "group-rights", PARTITIONS, 1).await?;
    let group = stage.group();
    grant_all(&stage, &[&stage.name], &group).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let options = options(&stage, &connector(&stage))?;
    let mut case = Case::with(&stage, &options).await?;
    let read = Right(AclResourceType::Group, &group, AclOperation::Read);
    read.revoke(&stage).await?;
    case.is_troubled_by(&[&group, "grant READ"]).await?;
    read.grant(&stage).await?;
    case.recovers().await?;
    let records = load.stop().await?;
    case.ends_well(records).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_on_a_topic_that_were_never_there_are_named_from_the_start() -> Result<()> {
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "half-granted", PARTITIONS, 1).await?;
    let closed = format!("{}-closed", stage.name);
    stage.admin.create_topic(&closed, 1).await?;
    grant_all(&stage, &[&stage.name], &stage.group()).await?;
    let mut connector = connector(&stage);
    connector["topics"] = json!(format!("{},{closed}", stage.name));
    let options = options(&stage, &connector)?;

    // It may not even know of the topic.
    let worker = Worker::start(&options)?;
    let ended = worker.wait_for_exit(PATIENCE).await?;
    assert_eq!(ended.code(), Some(69), "{}", worker.output()?);
    let log = log(&worker)?;
    let errors = lines_of(&log, "ERROR");
    let told = |line: &&Value| {
        line["error"]
            .as_str()
            .is_some_and(|it| it.contains(&closed))
    };
    let error = errors.iter().copied().find(told).context("not told")?;
    assert!(
        error["error"].to_string().contains("grant DESCRIBE"),
        "{error}"
    );

    // It may not read it: the other one goes on.
    let describe = Right(AclResourceType::Topic, &closed, AclOperation::Describe);
    describe.grant(&stage).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(100, PARTITIONS, 100)).await?;
    let worker = Worker::start(&options)?;
    let named = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        status["accepted"] == 100 && trouble.contains(&closed) && trouble.contains("grant READ")
    };
    wait_for_status(&worker, "one is read, the other named", PATIENCE, named).await?;
    Ok(())
}

/// The limit is 5, and a record that may go back would do so four times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_held_from_its_second_delivery_if_the_limit_may_not_be_read() -> Result<()> {
    const RECORDS: usize = 100;
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "unread", PARTITIONS, 1).await?;
    let group = stage.group();
    grant_all_but_settings(&stage, &[&stage.name], &group).await?;
    let settings = [
        ("share.auto.offset.reset", "earliest"),
        ("share.delivery.count.limit", "5"),
    ];
    stage.admin.alter_group(&group, &settings).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, PARTITIONS, 100)).await?;
    let mut connector = stage.to_null(2);
    // Or it would not start: it cannot see to it that it begins at the first.
    connector["share.auto.offset.reset"] = json!("latest");
    connector["share.retriable"] = json!("release");
    connector["retry.match"] = json!("value=id-000007,times=5");
    let worker = Worker::start(&options(&stage, &connector)?)?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    for (field, expected) in [("released", 1), ("redelivered", 1), ("lost", 0)] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    let log = log(&worker)?;
    let warnings = lines_of(&log, "WARN");
    for words in [["DESCRIBE_CONFIGS", &group], ["assumed (2)", &group]] {
        let told = |line: &&&Value| words.iter().all(|word| line.to_string().contains(word));
        assert_eq!(
            warnings.iter().filter(told).count(),
            1,
            "{words:?}: {warnings:?}"
        );
    }
    Ok(())
}
