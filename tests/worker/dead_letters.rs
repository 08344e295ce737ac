//! Records that are put aside: what their topic holds, read by a plain consumer,
//! and what happens while it cannot be written.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::{Received, read_topic};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::topics::Admin;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::history::{lines_of, log, number};
use crate::stage::{BINARY, Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const FIRST_TIME: i64 = 1_700_000_000_000;
const GROUPS: &str = "errors.deadletterqueue.group.enable";

/// The topic of a stage's dead letters.
fn letters_of(stage: &Stage) -> String {
    format!("dlq.{}", stage.name)
}

/// Lets a connector put records aside by itself.
pub fn put_aside(connector: &mut Value, topic: &str) {
    connector["errors.tolerance"] = json!("all");
    connector["errors.deadletterqueue.mode"] = json!("sluice");
    connector["errors.deadletterqueue.topic.name"] = json!(topic);
    connector["errors.deadletterqueue.topic.replication.factor"] = json!("1");
    connector["errors.deadletterqueue.context.headers.enable"] = json!("true");
    connector["errors.retry.delay.max.ms"] = json!("500");
    connector["share.record.lock.duration.ms"] = json!("3000");
}

/// Ids in one partition, so that id and offset are alike; some have another
/// value in their place.
fn records(count: usize, odd: &[(usize, &'static str)]) -> Vec<NewRecord> {
    let numbered = json_records(count, 1, 100).zip(FIRST_TIME..).enumerate();
    let records = numbered.map(|(number, (mut record, timestamp))| {
        if let Some((_, value)) = odd.iter().find(|(of, _)| *of == number) {
            record = NewRecord::value(*value).partition(0);
        }
        record.timestamp = Some(timestamp);
        record = record.key(format!("id-{number:06}")).header("kind", "test");
        record.headers.push(("none".to_owned(), None));
        record
    });
    records.collect()
}

/// The record at that offset, as its letter must have it.
fn check_letter(letter: &Received, record: &NewRecord, context: &[(&str, String)]) -> Result<()> {
    ensure!(letter.key == record.key, "{letter:?}");
    ensure!(letter.value == record.value, "{letter:?}");
    ensure!(letter.timestamp == record.timestamp, "{letter:?}");
    let context = context.iter().map(|(name, text)| {
        let name = format!("__connect.errors.{name}");
        (name, Some(text.clone().into_bytes()))
    });
    let expected: Vec<_> = record.headers.iter().cloned().chain(context).collect();
    ensure!(letter.headers == expected, "{letter:?}, not {expected:?}");
    Ok(())
}

/// Letters by the offset that they tell of.
fn by_offset(letters: &[Received]) -> Result<Vec<(i64, &Received)>> {
    let mut numbered = Vec::new();
    for letter in letters {
        let offset = letter.header("__connect.errors.offset");
        numbered.push((offset.context("no offset")?.parse()?, letter));
    }
    numbered.sort_by_key(|(offset, _)| *offset);
    Ok(numbered)
}

const MANY: usize = 1000;
const ODD: [(usize, &str); 2] = [(500, "poison, no JSON"), (600, "\"a text\"")];
const REFUSED: usize = 700;
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";
const INSERT: &str = "org.apache.kafka.connect.transforms.InsertField$Value";

/// A connector of JSON objects, each of which gets its offset, to an endpoint.
fn stamping(stage: &Stage, receiver: &Receiver) -> Value {
    let mut connector = stage.connector("http", 4);
    connector["http.url"] = json!(receiver.url("/${key}"));
    connector["value.converter"] = json!(JSON);
    connector["value.converter.schemas.enable"] = json!("false");
    connector["transforms"] = json!("stamp");
    connector["transforms.stamp.type"] = json!(INSERT);
    connector["transforms.stamp.offset.field"] = json!("offset");
    put_aside(&mut connector, &letters_of(stage));
    connector
}

/// The letter of a record, with all of Connect's headers.
fn check_context(
    stage: &Stage,
    letter: &Received,
    record: &NewRecord,
    (number, of, class, exception): (usize, &str, &str, &str),
) -> Result<()> {
    let header = |name: &str| letter.header(&format!("__connect.errors.{name}"));
    let message = header("exception.message").context("no message")?;
    let task = header("task.id").context("no task")?;
    ensure!(task.parse::<u32>()? < 4, "{task}");
    for (_, value) in ODD {
        ensure!(!message.contains(value), "{message}");
    }
    if number == REFUSED {
        let said = message.contains("400") && message.contains("no such thing");
        ensure!(said, "{message}");
    }
    let trace = format!("{exception}: {message}\n\tat {class} ({of})\n");
    let context = [
        ("topic", stage.name.clone()),
        ("partition", "0".to_owned()),
        ("offset", number.to_string()),
        ("connector.name", stage.name.clone()),
        ("task.id", task),
        ("stage", of.to_owned()),
        ("class.name", class.to_owned()),
        ("exception.class.name", exception.to_owned()),
        ("exception.message", message),
        ("exception.stacktrace", trace),
    ];
    check_letter(letter, record, &context)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_stage_rejects_is_in_the_topic_as_it_was_and_the_rest_delivered() -> Result<()> {
    let stage = Stage::set("put-aside", 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    let records = records(MANY, &ODD);
    produce(servers, &stage.name, records.clone()).await?;
    let receiver = Receiver::start(|arrival| match arrival.path.ends_with("id-000700") {
        true => Reply::body(400, "no such thing"),
        false => Reply::ok(),
    })
    .await?;
    let worker = stage.worker(&stamping(&stage, &receiver))?;
    let done = |status: &Value| status["rejected"] == 3 && status["accepted"] == MANY - 3;
    let status = wait_for_status(&worker, "all are settled", MINUTE, done).await?;
    for field in ["released", "redelivered", "lost", "unknown"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    assert_eq!(status["delivered"], MANY - 3, "{status}");
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    let asked: Vec<String> = {
        let arrivals = receiver.arrivals();
        let paths = arrivals.iter().map(|it| it.path.trim_matches('/'));
        paths.map(str::to_owned).collect()
    };
    let odd = ODD.map(|(number, _)| format!("id-{number:06}"));
    Tally::from_iter(asked).exactly_once(ids(MANY).filter(|id| !odd.contains(id)))?;

    let letters = read_topic(servers, &letters_of(&stage)).await?;
    let letters = by_offset(&letters)?;
    let expected = [
        (500, "VALUE_CONVERTER", JSON, "sluice.ConvertError"),
        (600, "TRANSFORMATION", INSERT, "sluice.ConvertError"),
        (REFUSED, "TASK_PUT", "http", "sluice.RejectedRecordError"),
    ];
    assert_eq!(letters.len(), expected.len(), "{letters:?}");
    for ((offset, letter), expected) in letters.into_iter().zip(expected) {
        assert_eq!(usize::try_from(offset)?, expected.0);
        check_context(&stage, letter, &records[expected.0], expected)?;
    }
    Ok(())
}

/// The connector rejects ten of the records, and their topic refuses letters
/// until it is mended.
struct Refused {
    stage: Stage,
    topic: String,
    worker: Worker,
}

const RECORDS: usize = 200;
const REJECTED: usize = 10;

impl Refused {
    /// `dead` says what is done to the topic before there are any letters.
    async fn begin(stem: &str, dead: impl AsyncFnOnce(&Admin, &str) -> Result<()>) -> Result<Self> {
        let stage = Stage::set(stem, 1).await?;
        let topic = letters_of(&stage);
        stage.admin.create_topic(&topic, 1).await?;
        let mut connector = stage.to_null(4);
        connector["reject.match"] = json!("value=id-00000");
        put_aside(&mut connector, &topic);
        let worker = stage.worker(&connector)?;
        let running = |status: &Value| status["state"] == "RUNNING";
        wait_for_status(&worker, "it runs", MINUTE, running).await?;
        dead(&stage.admin, &topic).await?;
        let servers = stage.kafka.bootstrap_servers();
        produce(servers, &stage.name, records(RECORDS, &[])).await?;
        Ok(Self {
            stage,
            topic,
            worker,
        })
    }

    /// None of the ten is settled in any way over many lives of a lock, the
    /// others are, and the status says why.
    async fn nothing_is_lost(&self) -> Result<()> {
        let waits = |status: &Value| {
            let waiting = status["letters_waiting"] == REJECTED;
            let others = status["accepted"] == RECORDS - REJECTED;
            let trouble = status["trouble"].as_str().unwrap_or_default();
            waiting && others && trouble.contains(&self.topic)
        };
        let status = wait_for_status(&self.worker, "the topic refuses", 2 * MINUTE, waits).await?;
        let enough = number(&status, "renewed")? + 10 * REJECTED as u64;
        let renewed = |status: &Value| status["renewed"].as_u64() >= Some(enough);
        let status = wait_for_status(&self.worker, "locks are renewed", MINUTE, renewed).await?;
        for (field, expected) in [
            ("accepted", RECORDS - REJECTED),
            ("in_flight", REJECTED),
            ("rejected", 0),
            ("released", 0),
            ("lost", 0),
        ] {
            assert_eq!(status[field], expected, "{field} of {status}");
        }
        assert_eq!(status["state"], "RUNNING", "{status}");
        Ok(())
    }

    /// Now that the topic is mended, each of them has its letter.
    async fn all_are_put_aside(self) -> Result<()> {
        let Self {
            stage,
            topic,
            worker,
        } = self;
        let done = |status: &Value| status["rejected"] == REJECTED && status["in_flight"] == 0;
        let status = wait_for_status(&worker, "all are put aside", 2 * MINUTE, done).await?;
        assert_eq!(
            (&status["trouble"], &status["redelivered"]),
            (&json!(""), &json!(0)),
            "{status}"
        );
        stage.wait_until_consumed(MINUTE).await?;
        assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
        let letters = read_topic(stage.kafka.bootstrap_servers(), &topic).await?;
        let keys = letters.iter().filter_map(|it| it.key.clone());
        let keys = keys.filter_map(|key| String::from_utf8(key).ok());
        Tally::from_iter(keys).exactly_once(ids(REJECTED))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_wait_for_a_topic_that_takes_no_letter_of_their_size() -> Result<()> {
    let refused = Refused::begin("small-letters", async |admin, topic| {
        let tiny = [("max.message.bytes", "100")];
        admin.alter_topic(topic, &tiny).await
    })
    .await?;
    refused.nothing_is_lost().await?;
    let usual = [("max.message.bytes", "1048588")];
    refused
        .stage
        .admin
        .alter_topic(&refused.topic, &usual)
        .await?;
    refused.all_are_put_aside().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_wait_for_a_topic_that_was_deleted() -> Result<()> {
    let refused = Refused::begin("no-letters", async |admin, topic| {
        admin.delete_topic(topic).await
    })
    .await?;
    refused.nothing_is_lost().await?;
    refused.stage.admin.create_topic(&refused.topic, 1).await?;
    refused.all_are_put_aside().await
}

/// A connector that leaves its letters to the brokers.
fn to_brokers(stage: &Stage, name: &str, topic: &str) -> Value {
    let mut connector = stage.to_null(2);
    connector["name"] = json!(name);
    connector["reject.match"] = json!("value=id-000007");
    connector["errors.tolerance"] = json!("all");
    connector["errors.deadletterqueue.topic.name"] = json!(topic);
    connector
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_record_is_in_the_brokers_topic() -> Result<()> {
    let stage = Stage::set("brokers-letters", 1).await?;
    let topic = letters_of(&stage);
    let configs = [(GROUPS, "true")];
    stage
        .admin
        .create_topic_with(&topic, 1, 1, &configs)
        .await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, records(20, &[])).await?;
    let worker = stage.worker(&to_brokers(&stage, &stage.name, &topic))?;
    let done = |status: &Value| status["rejected"] == 1 && status["accepted"] == 19;
    wait_for_status(&worker, "all are settled", MINUTE, done).await?;
    let letters = eventually("the broker writes the letter", MINUTE, async || {
        let letters = read_topic(servers, &topic).await?;
        ensure!(!letters.is_empty(), "none yet");
        Ok::<_, anyhow::Error>(letters)
    })
    .await?;
    let [letter] = &letters[..] else {
        panic!("one letter is wanted: {letters:?}");
    };
    let of = &records(20, &[])[7];
    assert_eq!((&letter.key, &letter.value), (&of.key, &of.value));
    assert_eq!(
        letter.header("__dlq.errors.offset").as_deref(),
        Some("7"),
        "{letter:?}"
    );
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_letters_would_not_arrive_the_connector_does_not_start() -> Result<()> {
    let stage = Stage::set("hopeless-letters", 1).await?;
    let name = |stem: &str| format!("{}-{stem}", stage.name);
    let letters = |stem: &str| format!("dlq.{}", name(stem));
    let (closed, open) = (letters("closed"), letters("open"));
    stage.admin.create_topic(&closed, 1).await?;
    let configs = [(GROUPS, "true")];
    stage.admin.create_topic_with(&open, 1, 1, &configs).await?;
    let theirs = [("errors.deadletterqueue.topic.name", "dlq.theirs")];
    let group = format!("share-{}", name("theirs"));
    stage.admin.alter_group(&group, &theirs).await?;
    let cases = [
        (
            "prefix",
            "letters",
            "topic.name: no dead",
            "take dlq.letters",
        ),
        (
            "missing",
            &letters("missing"),
            "topic.name: no dead",
            "kafka-topics.sh",
        ),
        (
            "closed",
            &closed,
            "topic.name: no dead",
            "group.enable=true",
        ),
        (
            "theirs",
            &open,
            "topic.name: ",
            "has dlq.theirs set on it already",
        ),
        (
            "replicas",
            &letters("own"),
            "topic.replication.factor: ",
            "lower it",
        ),
    ];
    let mut options = WorkerOptions::new(BINARY)
        .property("bootstrap.servers", stage.kafka.bootstrap_servers())
        .property("log.format", "json");
    for (stem, topic, ..) in cases {
        let name = name(stem);
        let mut connector = to_brokers(&stage, &name, topic);
        if stem == "replicas" {
            connector["errors.deadletterqueue.mode"] = json!("sluice");
        }
        options = options.connector(&name, &connector);
    }
    let worker = Worker::start(&options)?;
    for (stem, _, key, remedy) in cases {
        let error = refusal(&worker, &name(stem)).await?;
        let has_key = error.starts_with(&format!("errors.deadletterqueue.{key}"));
        ensure!(has_key && error.contains(remedy), "{stem}: {error}");
    }
    // It ends by itself, as none of its connectors could start.
    assert_eq!(worker.wait_for_exit(MINUTE).await?.code(), Some(69));
    Ok(())
}

/// Why a connector does not start.
pub async fn refusal(worker: &Worker, connector: &str) -> Result<String> {
    eventually("the connector is refused", MINUTE, async || {
        let log = log(worker)?;
        let mut errors = lines_of(&log, "ERROR").into_iter();
        let error = errors.find(|line| line["connector"] == connector);
        let error = error.and_then(|line| line["error"].as_str());
        Ok::<_, anyhow::Error>(error.context("no error yet")?.to_owned())
    })
    .await
}
