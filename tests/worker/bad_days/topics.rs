//! Topics that go, come back, and grow.

use anyhow::{Result, ensure};
use krafka::admin::CreatePartitionsOptions;
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use super::case::{Case, PATIENCE, connector};
use crate::load::Load;
use crate::stage::{BINARY, Stage};

const PARTITIONS: i32 = 3;
const RECORDS: usize = 300;

/// Ids of a topic beside the one under load.
fn beside(records: std::ops::Range<usize>) -> impl Iterator<Item = NewRecord> + Send + 'static {
    json_records(records.end, 1, 100)
        .skip(records.start)
        .map(|mut record| {
            let value = record.value.take().unwrap_or_default();
            let value = String::from_utf8_lossy(&value).replace("id-", "other-");
            NewRecord::value(value).partition(0)
        })
}

fn beside_ids(records: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    ids(records.end)
        .skip(records.start)
        .map(|id| id.replace("id-", "other-"))
}

async fn has_come(case: &Case<'_>, records: std::ops::Range<usize>) -> Result<()> {
    eventually("the other topic is read", PATIENCE, async || {
        let missing = case.tally()?.missing(beside_ids(records.clone()));
        ensure!(missing.is_empty(), "{} are missing", missing.len());
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_topic_is_named_and_read_anew_when_it_is_made_again() -> Result<()> {
    let stage = Stage::set("kept", PARTITIONS).await?;
    let doomed = format!("{}-doomed", stage.name);
    stage.admin.create_topic(&doomed, 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    let load = Load::start(&stage, PARTITIONS, 500);
    produce(servers, &doomed, beside(0..RECORDS)).await?;
    let mut connector = connector(&stage);
    connector["topics"] = json!(format!("{},{doomed}", stage.name));
    let mut case = Case::start(&stage, &connector).await?;
    has_come(&case, 0..RECORDS).await?;

    stage.admin.delete_topic(&doomed).await?;
    let told = format!("topic {doomed} does not exist");
    case.is_troubled_by(&[&told]).await?;
    let after = load.sent();
    case.wait_for_ids(after).await?;

    stage.admin.create_topic(&doomed, 1).await?;
    produce(servers, &doomed, beside(RECORDS..2 * RECORDS)).await?;
    has_come(&case, RECORDS..2 * RECORDS).await?;
    case.recovers().await?;

    // And at once: nobody sees that it is away.
    stage.admin.delete_topic(&doomed).await?;
    stage.admin.create_topic(&doomed, 1).await?;
    produce(servers, &doomed, beside(2 * RECORDS..3 * RECORDS)).await?;
    has_come(&case, 2 * RECORDS..3 * RECORDS).await?;
    case.recovers().await?;
    let records = load.stop().await?;
    case.wait_for_ids(records).await?;
    stage
        .admin
        .wait_until_consumed(&stage.group(), &doomed, PATIENCE)
        .await
}

/// Metadata is five minutes old at most by default: the broker tells sooner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_added_are_read_soon() -> Result<()> {
    const MORE: i32 = 6;
    let stage = Stage::set("grown", PARTITIONS).await?;
    let load = Load::start(&stage, PARTITIONS, 500);
    let mut case = Case::start(&stage, &connector(&stage)).await?;
    let client = stage.admin.client();
    let grown = client
        .create_partitions([(&*stage.name, MORE)], CreatePartitionsOptions::default())
        .await?;
    for (_, result) in grown {
        result?;
    }
    let added = beside(0..RECORDS)
        .zip((PARTITIONS..MORE).cycle())
        .map(|(record, partition)| record.partition(partition));
    produce(stage.kafka.bootstrap_servers(), &stage.name, added).await?;
    has_come(&case, 0..RECORDS).await?;
    let records = load.stop().await?;
    case.is_well_again().await?;
    case.wait_for_ids(records).await?;
    stage.wait_until_consumed(PATIENCE).await
}

/// Four sinks, each in a connector of its own over the stage's topic.
fn one_of_each(stage: &Stage, receiver: &Receiver) -> [(String, Value); 4] {
    let connector = |class: &str, key: &str, value: Value| {
        let name = format!("{}-{class}", stage.name);
        let mut connector = stage.connector(class, 2);
        connector["name"] = json!(name);
        connector[key] = value;
        (name, connector)
    };
    [
        connector("file", "file", json!(stage.file_of("file"))),
        connector("null", "record.file", json!(stage.file_of("null"))),
        connector("http", "http.url", json!(receiver.url("/"))),
        connector("kafka", "topic", json!("copy-of-${topic}")),
    ]
}

/// What each of them has written, by its sink.
async fn written(stage: &Stage, receiver: &Receiver) -> Result<[(&'static str, Tally); 4]> {
    let lines = |sink| Tally::from_json_lines(&stage.file_of(sink), "/id");
    let copy = format!("copy-of-{}", stage.name);
    let copied = read_topic(stage.kafka.bootstrap_servers(), &copy).await?;
    let copied = copied.iter().filter_map(|it| it.value.as_deref());
    let arrivals = receiver.arrivals();
    let asked = arrivals.iter().map(|it| &*it.body);
    Ok([
        ("file", lines("file")?),
        ("null", lines("null")?),
        ("http", Tally::from_json_values(asked, "/id")),
        ("kafka", Tally::from_json_values(copied, "/id")),
    ])
}

/// The same offsets come again with other records, as far as the worker can
/// see: no part of it takes them for done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sink_takes_what_comes_at_offsets_that_it_has_had() -> Result<()> {
    let stage = Stage::set("stepped-back", 1).await?;
    let copy = format!("copy-of-{}", stage.name);
    stage.admin.create_topic(&copy, 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let connectors = one_of_each(&stage, &receiver);
    let mut options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", servers)
        .property("log.format", "json");
    for (name, connector) in &connectors {
        options = options.connector(name, connector);
    }
    let worker = Worker::start(&options)?;
    for round in 1..=2 {
        // The second time the whole, where there was a part.
        let count = RECORDS * round;
        produce(servers, &stage.name, json_records(count, 1, 100)).await?;
        eventually("every sink has written all", PATIENCE, async || {
            for (sink, tally) in written(&stage, &receiver).await? {
                let often = |id: &String| match id.as_str() < format!("id-{RECORDS:06}").as_str() {
                    true => round,
                    false => 1,
                };
                let other = ids(count).find(|id| tally.count(id) != often(id));
                ensure!(other.is_none(), "{other:?} of {sink}");
            }
            Ok(())
        })
        .await?;
        if round == 1 {
            stage.admin.delete_topic(&stage.name).await?;
            stage.admin.create_topic(&stage.name, 1).await?;
        }
    }
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
