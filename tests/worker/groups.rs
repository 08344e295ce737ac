//! Group ids that belong to others, positions that are carried over, topics
//! that come later.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use krafka::Kafka as Client;
use krafka::admin::{AlterConsumerGroupOffsetsOptions, TopicPartition};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::topics::unique_name;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::run_command;

use crate::history::{lines_of, log};
use crate::stage::{BINARY, Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);

/// Commits offsets for a consumer group without members.
async fn commit(stage: &Stage, group: &str, offsets: &[(i32, i64)]) -> Result<()> {
    let offsets = offsets
        .iter()
        .map(|(partition, offset)| (TopicPartition::new(&stage.name, *partition), *offset));
    let options = AlterConsumerGroupOffsetsOptions::default();
    let answers = stage
        .admin
        .client()
        .alter_consumer_group_offsets(group, offsets, options);
    answers.await?.into_values().collect::<Result<(), _>>()?;
    Ok(())
}

/// The one error of a worker that does not start, and how it ended.
async fn refusal(stage: &Stage, connector: &Value) -> Result<String> {
    let worker = stage.worker(connector)?;
    let ended = worker.wait_for_exit(MINUTE).await?;
    assert_eq!(ended.code(), Some(69), "{}", worker.output()?);
    let log = log(&worker)?;
    let errors = lines_of(&log, "ERROR");
    let told = errors.iter().find(|line| line["connector"] == stage.name);
    let told = told.with_context(|| format!("no error of the connector in {errors:?}"))?;
    Ok(told["error"].as_str().context("no cause")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_consumer_group_is_refused_by_its_kind_also_when_empty() -> Result<()> {
    let stage = Stage::set("taken", 1).await?;
    let connector = stage.to_file(1);

    // With a member.
    let group = unique_name("busy");
    let client = Client::builder(stage.kafka.bootstrap_servers())
        .connect()
        .await?;
    let member = client.consumer(&*group).build().await?;
    member.subscribe(&[&stage.name]).await?;
    let kind = eventually("the group has a member", MINUTE, async || {
        let _ = member.poll(Duration::from_millis(50)).await;
        match stage.admin.group(&group).await? {
            Some(found) if found.state == "Stable" => Ok(found.group_type.to_lowercase()),
            other => bail!("{other:?}"),
        }
    })
    .await?;
    let mut busy = connector.clone();
    busy["share.group.id"] = json!(group);
    let error = refusal(&stage, &busy).await?;
    let expected = format!("group id {group} belongs to a {kind} group (state Stable)");
    assert!(error.starts_with(&expected), "{error}");
    member.close().await?;

    // Without members.
    let group = unique_name("empty");
    commit(&stage, &group, &[(0, 0)]).await?;
    let mut empty = connector;
    empty["share.group.id"] = json!(group);
    let error = refusal(&stage, &empty).await?;
    let expected = format!("group id {group} belongs to a classic group (state Empty)");
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("share.group.id"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn committed_offsets_are_refused_until_they_are_carried_over_and_then_kept_to() -> Result<()>
{
    const RECORDS: usize = 1000;
    /// Positions of the partitions: of each so many records are done.
    const DONE: [(i32, i64); 2] = [(0, 321), (1, 123)];
    let stage = Stage::set("moved", 2).await?;
    let records = json_records(RECORDS, 2, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    commit(&stage, &format!("connect-{}", stage.name), &DONE).await?;

    let connector = stage.to_file(4);
    let error = refusal(&stage, &connector).await?;
    let command = format!("sluice migrate {} --to share", stage.name);
    assert!(error.contains(&command), "{error}");
    assert!(!stage.file().exists(), "nothing was read");

    let folder = tempfile::tempdir()?;
    let (worker, file) = (
        folder.path().join("worker.properties"),
        folder.path().join("moved.json"),
    );
    let servers = stage.kafka.bootstrap_servers();
    std::fs::write(&worker, format!("bootstrap.servers={servers}\n"))?;
    std::fs::write(&file, connector.to_string())?;
    let (worker, file) = (worker.display().to_string(), file.display().to_string());
    let arguments = [
        "migrate",
        &stage.name,
        "--to",
        "share",
        "--worker",
        &worker,
        "--connector",
        &file,
    ];
    let said = run_command(BINARY, &arguments).await?;
    for (_, offset) in DONE {
        assert!(said.contains(&offset.to_string()), "{said}");
    }

    let left = RECORDS as i64 - DONE.iter().map(|(_, offset)| offset).sum::<i64>();
    let worker = stage.worker(&connector)?;
    let accepted = |status: &Value| status["accepted"] == left;
    wait_for_status(&worker, "the rest is confirmed", MINUTE, accepted).await?;
    stage.wait_until_consumed(MINUTE).await?;
    // Ids go round the two partitions.
    let is_left = |number: usize| (number / 2) as i64 >= DONE[number % 2].1;
    let rest = ids(RECORDS)
        .enumerate()
        .filter(|(number, _)| is_left(*number));
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(rest.map(|(_, id)| id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_takes_up_a_topic_that_comes_later() -> Result<()> {
    const RECORDS: usize = 500;
    let stage = Stage::set("pattern", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    let mut connector = stage.to_file(2);
    let Some(keys) = connector.as_object_mut() else {
        bail!("a connector is an object");
    };
    keys.remove("topics");
    connector["topics.regex"] = json!(format!("{}(-later)?", stage.name));
    connector["consumer.override.metadata.max.age.ms"] = json!("1000");
    let worker = stage.worker(&connector)?;
    let first = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "the first topic is read", MINUTE, first).await?;

    let later = format!("{}-later", stage.name);
    stage.admin.create_topic(&later, 1).await?;
    produce(
        servers,
        &later,
        json_records(2 * RECORDS, 1, 100).skip(RECORDS),
    )
    .await?;
    // The age, and room for a slow machine.
    let soon = Duration::from_secs(1) + Duration::from_secs(9);
    let both = |status: &Value| status["accepted"] == 2 * RECORDS;
    wait_for_status(&worker, "the later topic is read", soon, both).await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(2 * RECORDS))
}

/// It is set up partition by partition while its first member is there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_is_read_from_the_start_without_a_refusal() -> Result<()> {
    const RECORDS: usize = 500;
    let stage = Stage::set("new", 12).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 12, 100)).await?;
    let worker = stage.worker(&stage.to_file(2))?;
    let all = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all is read", MINUTE, all).await?;
    let log = log(&worker)?;
    let warnings = lines_of(&log, "WARN");
    assert!(warnings.is_empty(), "{warnings:?}");
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))
}
