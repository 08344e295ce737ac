//! Records that keep failing while others do not: parked, and delivered when
//! the sink takes them. What arrives is counted at a service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::consume::{Received, read_topic};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce, produce_with};
use sluice_test_support::receiver::{Arrival, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tokio::task::JoinHandle;

use crate::chaos;
use crate::history::number;
use crate::service::Service;
use crate::stage::{Stage, status, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const FIRST_TIME: i64 = 1_700_000_000_000;
const RECORDS: usize = 4000;
/// More than is delivered before a record counts as what its partition waits
/// for, and far less than there are.
const SPAN: usize = 600;
const TASKS: usize = 8;
/// What each record takes: by far the most of the work, on any machine.
const LATENCY: Duration = Duration::from_millis(20);
/// What a busy machine may do to one connector and not to the other.
const GAP: Duration = Duration::from_secs(1);
/// Between two others.
const PACE: Duration = Duration::from_millis(200);
/// In all values, and in no log.
const CONTENT: &str = "much-too-private";
const FAILURE: &str = "the-endpoint-says-s3cret";

/// The topic of a stage's parked records, and the group that reads it.
pub fn parked_of(stage: &Stage) -> String {
    format!("{}-parked", stage.group())
}

/// Ids in one partition, so that id and offset are alike.
pub async fn fill(stage: &Stage, count: usize) -> Result<()> {
    let numbered = json_records(count, 1, 100).zip(FIRST_TIME..).enumerate();
    let records = numbered.map(|(number, (mut record, timestamp))| {
        record.value = Some(format!(r#"{{"id":"id-{number:06}","text":"{CONTENT}"}}"#).into());
        record.timestamp = Some(timestamp);
        record.key(format!("id-{number:06}")).header("kind", "test")
    });
    let records: Vec<NewRecord> = records.collect();
    // The broker looks at the span before it gives out a batch, not inside it.
    let batches = [("batch.num.messages", "20")];
    produce_with(
        stage.kafka.bootstrap_servers(),
        &stage.name,
        records,
        &batches,
    )
    .await?;
    Ok(())
}

/// Records that are delivered all along: what fails beside them is to blame
/// itself.
pub struct Others {
    is_over: Arc<AtomicBool>,
    producing: JoinHandle<Result<usize>>,
}

impl Others {
    pub fn start(stage: &Stage) -> Self {
        let (servers, topic) = (stage.kafka.bootstrap_servers(), stage.name.clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let producing = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            let mut count = 0;
            while !over.load(Ordering::SeqCst) {
                pace.tick().await;
                let record = NewRecord::value("{}").key(format!("other-{count}"));
                count += produce(servers, &topic, [record]).await?;
            }
            Ok(count)
        });
        Self { is_over, producing }
    }

    /// Returns how many there were.
    pub async fn stop(self) -> Result<usize> {
        self.is_over.store(true, Ordering::SeqCst);
        self.producing.await?
    }
}

/// A service that does not take some ids yet.
pub async fn refusing(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Result<Service> {
    answering(refuses, Reply::body(500, FAILURE)).await
}

/// The same with what they get until then.
pub async fn answering(
    refuses: impl Fn(&str) -> bool + Send + Sync + 'static,
    refusal: Reply,
) -> Result<Service> {
    let service = Service::start(move |arrival| refuses(id(arrival)), LATENCY).await?;
    service.answers(refusal);
    Ok(service)
}

/// What it took, but for the others.
pub fn taken(service: &Service) -> Tally {
    let numbered = |arrival: &Arrival| {
        let id = id(arrival);
        id.starts_with("id-").then(|| id.to_owned())
    };
    service.tally_by(numbered)
}

pub fn id(arrival: &Arrival) -> &str {
    arrival.path.trim_matches('/')
}

/// A connector of JSON objects, each of which is told where it came from.
pub fn parking(stage: &Stage, service: &Service) -> Value {
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(service.receiver.url("/${key}"));
    connector["http.headers.forward"] = json!("*");
    connector["idempotency.key.from"] = json!("topic");
    connector["value.converter"] = json!("org.apache.kafka.connect.json.JsonConverter");
    connector["value.converter.schemas.enable"] = json!("false");
    connector["transforms"] = json!("stamp");
    connector["transforms.stamp.type"] =
        json!("org.apache.kafka.connect.transforms.InsertField$Value");
    connector["transforms.stamp.topic.field"] = json!("topic");
    connector["transforms.stamp.partition.field"] = json!("partition");
    connector["transforms.stamp.offset.field"] = json!("offset");
    connector["transforms.stamp.timestamp.field"] = json!("timestamp");
    connector["errors.retry.delay.max.ms"] = json!("500");
    connector["share.partition.max.record.locks"] = json!(SPAN.to_string());
    connector["share.park.after.ms"] = json!("60000");
    connector["share.park.backoff.ms"] = json!("1000");
    connector["share.park.topic.replication.factor"] = json!("1");
    connector
}

/// How the others came while the first record failed.
struct Flow {
    per_second: f64,
    /// The longest time between two of them.
    longest_gap: Duration,
}

/// Runs a connector until all but the first record are delivered.
async fn flow_behind(
    stage: &Stage,
    service: &Service,
    connector: &Value,
    records: usize,
) -> Result<(Flow, Worker)> {
    fill(stage, records).await?;
    let worker = stage.worker(connector)?;
    let others = |status: &Value| status["accepted"].as_u64() >= Some(records as u64 - 1);
    let patience = MINUTE + 4 * lasts(records);
    wait_for_status(&worker, "the others are accepted", patience, others).await?;
    Ok((flow(service, records)?, worker))
}

fn flow(service: &Service, records: usize) -> Result<Flow> {
    let arrivals = service.receiver.arrivals();
    let others = arrivals.iter().filter(|it| id(it) != "id-000000");
    let mut times: Vec<_> = others.map(|it| it.at).collect();
    times.sort_unstable();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest_gap = gaps.max().context("nothing came")?;
    let lasted = times[times.len() - 1] - times[0];
    Ok(Flow {
        per_second: records as f64 / lasted.as_secs_f64(),
        longest_gap,
    })
}

/// How long a connector has to do with so many records, at the least.
fn lasts(records: usize) -> Duration {
    LATENCY.mul_f64(records as f64 / TASKS as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_keeps_failing_holds_up_nobody_and_arrives_in_the_end() -> Result<()> {
    failing_record_holds_up_nobody(RECORDS).await
}

/// By `./test chaos`: for five minutes, unless fewer are wanted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn a_record_that_fails_for_minutes_holds_up_nobody_and_arrives_in_the_end() -> Result<()> {
    let length = Duration::from_secs(60 * chaos::minutes()?.min(5));
    let records = TASKS * (length.as_millis() / LATENCY.as_millis()) as usize;
    assert!(lasts(records) >= length);
    failing_record_holds_up_nobody(records).await
}

async fn failing_record_holds_up_nobody(records: usize) -> Result<()> {
    let (plain, odd) = (
        Stage::set("unparked", 1).await?,
        Stage::set("parked", 1).await?,
    );
    let takes_all = refusing(|_| false).await?;
    let service = refusing(|id| id == "id-000000").await?;
    let (plainly, oddly) = (parking(&plain, &takes_all), parking(&odd, &service));
    // At the same time, so that whatever else the machine does slows down both.
    let ((without, idle), (with, worker)) = tokio::try_join!(
        flow_behind(&plain, &takes_all, &plainly, records),
        flow_behind(&odd, &service, &oddly, records)
    )?;
    check_flow(&without, &with);
    assert_eq!(status(&idle)?["parked"], 0);
    assert_eq!(idle.stop(MINUTE).await?.code(), Some(0));
    // It has failed all along, and is tried on, and parked while others are taken.
    let others = Others::start(&odd);
    let twice_more = number(&status(&worker)?, "parked")? + 2;
    let tried = service.receiver.count();
    let parked_again = |status: &Value| status["parked"].as_u64() >= Some(twice_more);
    wait_for_status(&worker, "it is parked again", MINUTE, parked_again).await?;
    assert!(service.receiver.count() > tried);
    let all = records + others.stop().await?;
    assert_eq!(taken(&service).count("id-000000"), 0);
    check_topic(&odd).await?;
    service.answers(Reply::ok());
    let done = |status: &Value| status["accepted"] == all && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "it is delivered", MINUTE, done).await?;
    for field in ["rejected", "released", "redelivered", "lost", "unknown"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    check_arrival(&odd, &service)?;
    taken(&service).exactly_once(ids(records))?;
    odd.wait_until_consumed(MINUTE).await?;
    let (admin, parked) = (&odd.admin, parked_of(&odd));
    admin.wait_until_consumed(&parked, &parked, MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let output = worker.output()?;
    ensure!(!output.contains(CONTENT), "contents are logged");
    Ok(())
}

/// Nor does it hold them up for a while that the rest of a long run makes good.
fn check_flow(without: &Flow, with: &Flow) {
    let of = |flow: &Flow| format!("{:.0}/s, {:?}", flow.per_second, flow.longest_gap);
    let told = format!(
        "rate and longest gap are {} without a record that fails, {} with one",
        of(without),
        of(with)
    );
    eprintln!("{told}");
    assert!(with.per_second > 0.9 * without.per_second, "{told}");
    assert!(with.longest_gap < 3 * without.longest_gap + GAP, "{told}");
}

#[test]
#[should_panic(expected = "longest gap")]
fn a_stall_that_a_long_run_makes_good_is_a_fault() {
    let flow = |per_second, seconds| Flow {
        per_second,
        longest_gap: Duration::from_secs(seconds),
    };
    check_flow(&flow(350.0, 1), &flow(320.0, 30));
}

/// Each try of the first record, and the one that was taken: as if it had
/// never been parked.
fn check_arrival(stage: &Stage, service: &Service) -> Result<()> {
    let arrivals = service.receiver.arrivals();
    let tries = arrivals.iter().filter(|it| id(it) == "id-000000");
    for arrival in tries {
        let key = format!("{}-0-0", stage.name);
        assert_eq!(arrival.header("idempotency-key"), Some(&*key));
        assert_eq!(arrival.header("kind"), Some("test"));
        let names = arrival.headers.keys();
        let ours = names.filter(|name| name.as_str().contains("sluice"));
        assert_eq!(ours.count(), 0, "{:?}", arrival.headers);
        let value: Value = serde_json::from_slice(&arrival.body)?;
        let expected = json!({
            "id": "id-000000", "text": CONTENT, "topic": stage.name, "partition": 0, "offset": 0,
            "timestamp": FIRST_TIME,
        });
        assert_eq!(value, expected);
    }
    Ok(())
}

/// What lies in the parking topic, of which older copies may be deleted: the
/// record as it was, and nothing of what the service said.
async fn check_topic(stage: &Stage) -> Result<()> {
    let parked = read_topic(stage.kafka.bootstrap_servers(), &parked_of(stage)).await?;
    let counts = parked.iter().filter_map(|it| ours(it, "count"));
    let counts: Vec<i64> = counts.filter_map(|it| it.parse().ok()).collect();
    let expected = parked.iter().map(|it| it.offset + 1);
    assert_eq!(counts, expected.collect::<Vec<_>>(), "each time one more");
    let firsts: Vec<i64> = parked
        .iter()
        .filter_map(|it| ours(it, "first.failure")?.parse().ok())
        .collect();
    let dues: Vec<i64> = parked
        .iter()
        .filter_map(|it| ours(it, "due")?.parse().ok())
        .collect();
    assert!(
        firsts.iter().all(|it| (it - firsts[0]).abs() < 1000),
        "{firsts:?}"
    );
    assert!(
        dues.is_sorted() && dues[0] >= firsts[0] + 1000,
        "{dues:?} after {firsts:?}"
    );
    let (topic_id, first) = (ours(&parked[0], "topic.id"), &parked[0]);
    assert_eq!(topic_id.context("no topic id")?.len(), 22);
    for (name, text) in [("topic", &*stage.name), ("partition", "0"), ("offset", "0")] {
        assert_eq!(ours(first, name).as_deref(), Some(text));
    }
    for record in &parked {
        assert_eq!(record.key.as_deref(), Some(&b"id-000000"[..]));
        assert_eq!(record.headers.len(), 1 + 11, "its own, and ours");
        assert_eq!(ours(record, "group"), Some(stage.group()));
        let first_time = FIRST_TIME.to_string();
        assert_eq!(ours(record, "timestamp"), Some(first_time));
        assert!(record.timestamp > Some(FIRST_TIME), "when it was written");
        assert_eq!(
            record.headers[0],
            ("kind".to_owned(), Some(b"test".to_vec()))
        );
        let texts = record
            .headers
            .iter()
            .filter_map(|(_, value)| value.as_deref());
        let mut texts = texts.map(String::from_utf8_lossy);
        assert!(!texts.any(|text| text.contains("s3cret") || text.contains(CONTENT)));
    }
    Ok(())
}

fn ours(record: &Received, name: &str) -> Option<String> {
    record.header(&format!("__sluice.parked.{name}"))
}

const FEW: usize = 600;
/// Every third one.
const FAILING: usize = FEW / 3;

pub fn is_failing(id: &str) -> bool {
    let number = id
        .strip_prefix("id-")
        .and_then(|it| it.parse::<usize>().ok());
    number.is_some_and(|number| number.is_multiple_of(3))
}

/// Killed while records are on their way into the parking topic: whatever was
/// written and not accepted is written once more at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_while_it_parks_loses_no_record() -> Result<()> {
    let stage = Stage::set("parking-killed", 1).await?;
    let service = refusing(is_failing).await?;
    let mut connector = parking(&stage, &service);
    connector["share.park.after.ms"] = json!("0");
    // They are not read before the second worker has parked the rest.
    connector["share.park.backoff.ms"] = json!("20000");
    fill(&stage, FEW).await?;
    let others = Others::start(&stage);
    let first = stage.worker(&connector)?;
    let topic = parked_of(&stage);
    let end = async || Ok::<_, anyhow::Error>(stage.admin.end_offsets(&topic).await?[&0]);
    eventually("some are parked", MINUTE, async || {
        ensure!(end().await? >= 20, "not enough");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    first.kill()?;
    let second = stage.worker(&connector)?;
    let failing = || ids(FEW).filter(|id| is_failing(id));
    eventually("all are parked", 2 * MINUTE, async || {
        let keys = keys_parked(&stage, |_| true).await?;
        keys.at_least_once(failing())
    })
    .await?;
    others.stop().await?;
    stage.wait_until_consumed(MINUTE).await?;
    let keys = keys_parked(&stage, is_first).await?;
    assert!(
        failing().all(|id| keys.count(&id) <= 2),
        "parked twice at most"
    );
    assert_eq!(taken(&service).count("id-000000"), 0, "none is taken yet");
    let status = status(&second)?;
    assert!(keys.total() < 2 * FAILING, "most are parked once: {status}");
    service.answers(Reply::ok());
    stage
        .admin
        .wait_until_consumed(&topic, &topic, 2 * MINUTE)
        .await?;
    taken(&service).at_least_once(ids(FEW))?;
    assert_eq!(second.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// The keys of records that are parked; the last copy of one stays until it is
/// delivered.
async fn keys_parked(stage: &Stage, is_meant: impl Fn(&Received) -> bool) -> Result<Tally> {
    let parked = read_topic(stage.kafka.bootstrap_servers(), &parked_of(stage)).await?;
    let meant = parked.iter().filter(|it| is_meant(it));
    let keys = meant.filter_map(|it| String::from_utf8(it.key.clone()?).ok());
    Ok(keys.collect())
}

fn is_first(record: &Received) -> bool {
    ours(record, "count").as_deref() == Some("1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_record_is_accepted_while_the_topic_cannot_be_written() -> Result<()> {
    const COUNT: usize = 60;
    let stage = Stage::set("parking-refused", 1).await?;
    let service = refusing(is_failing).await?;
    let mut connector = parking(&stage, &service);
    connector["share.park.after.ms"] = json!("0");
    connector["share.record.lock.duration.ms"] = json!("3000");
    let worker = stage.worker(&connector)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", MINUTE, running).await?;
    let topic = parked_of(&stage);
    let limit = |bytes: &'static str| [("max.message.bytes", bytes)];
    stage.admin.alter_topic(&topic, &limit("100")).await?;
    fill(&stage, COUNT).await?;
    let others = Others::start(&stage);
    let is_told = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        trouble.contains("share.park.after.ms") && trouble.contains(&topic)
    };
    wait_for_status(&worker, "the topic refuses", 2 * MINUTE, is_told).await?;
    eventually("the rest is delivered", MINUTE, async || {
        taken(&service).exactly_once(ids(COUNT).filter(|id| !is_failing(id)))
    })
    .await?;
    let enough = number(&status(&worker)?, "renewed")? + 5 * COUNT as u64 / 3;
    let renewed = |status: &Value| status["renewed"].as_u64() >= Some(enough);
    let status = wait_for_status(&worker, "locks are renewed", MINUTE, renewed).await?;
    assert!(is_told(&status), "{status}");
    for field in ["parked", "released", "lost"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    assert!(status["in_flight"].as_u64() >= Some(COUNT as u64 / 3));
    stage.admin.alter_topic(&topic, &limit("1048588")).await?;
    eventually("all are parked", 2 * MINUTE, async || {
        let keys = keys_parked(&stage, |_| true).await?;
        keys.at_least_once(ids(COUNT).filter(|id| is_failing(id)))
    })
    .await?;
    let all = COUNT + others.stop().await?;
    service.answers(Reply::ok());
    let done = |status: &Value| {
        status["accepted"] == all && status["in_flight"] == 0 && status["trouble"] == ""
    };
    wait_for_status(&worker, "all are delivered", 2 * MINUTE, done).await?;
    taken(&service).exactly_once(ids(COUNT))?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_record_is_put_aside_by_its_first_name_when_its_time_is_over() -> Result<()> {
    let stage = Stage::set("parked-too-long", 1).await?;
    let service = refusing(|id| id == "id-000004").await?;
    let mut connector = parking(&stage, &service);
    let letters = format!("dlq.{}", stage.name);
    crate::dead_letters::put_aside(&mut connector, &letters);
    connector["share.park.after.ms"] = json!("0");
    connector["errors.retry.timeout"] = json!("6000");
    fill(&stage, 20).await?;
    let others = Others::start(&stage);
    let worker = stage.worker(&connector)?;
    let done = |status: &Value| status["rejected"] == 1;
    let status = wait_for_status(&worker, "it is put aside", MINUTE, done).await?;
    assert!(status["parked"].as_u64() >= Some(1), "{status}");
    others.stop().await?;
    let letters = read_topic(stage.kafka.bootstrap_servers(), &letters).await?;
    let [letter] = &letters[..] else {
        panic!("one letter is wanted: {letters:?}");
    };
    let context = |name: &str| letter.header(&format!("__connect.errors.{name}"));
    assert_eq!(context("topic").as_deref(), Some(&*stage.name));
    assert_eq!(context("offset").as_deref(), Some("4"));
    assert_eq!(letter.timestamp, Some(FIRST_TIME + 4));
    let names = letter.headers.iter().map(|(name, _)| name);
    assert_eq!(names.filter(|name| name.contains("sluice")).count(), 0);
    let message = context("exception.message").context("no message")?;
    assert!(
        message.contains("parked") && message.contains("500"),
        "{message}"
    );
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// A record that waits for its time keeps no worker from stopping, and waits
/// for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_record_outlasts_its_worker() -> Result<()> {
    let stage = Stage::set("parked-over", 1).await?;
    let service = refusing(|id| id == "id-000004").await?;
    let mut connector = parking(&stage, &service);
    connector["share.park.after.ms"] = json!("0");
    fill(&stage, 20).await?;
    let others = Others::start(&stage);
    let worker = stage.worker(&connector)?;
    let parked = |status: &Value| status["parked"].as_u64() >= Some(1);
    wait_for_status(&worker, "it is parked", MINUTE, parked).await?;
    let rest = 19 + others.stop().await?;
    let accepted = |status: &Value| status["accepted"] == rest;
    wait_for_status(&worker, "the others are accepted", MINUTE, accepted).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let without_it = ids(20).filter(|id| id != "id-000004");
    taken(&service).exactly_once(without_it)?;
    service.answers(Reply::ok());
    let worker = stage.worker(&connector)?;
    let done = |status: &Value| status["accepted"] == 1;
    wait_for_status(&worker, "it is delivered", MINUTE, done).await?;
    taken(&service).exactly_once(ids(20))?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parking_topic_that_forgets_is_refused_with_the_remedy() -> Result<()> {
    let stage = Stage::set("parking-forgets", 1).await?;
    let service = refusing(|_| false).await?;
    let topic = parked_of(&stage);
    let week = [("retention.ms", "604800000")];
    stage.admin.create_topic_with(&topic, 1, 1, &week).await?;
    let worker = stage.worker(&parking(&stage, &service))?;
    let failed = |status: &Value| status["state"] == "FAILED";
    wait_for_status(&worker, "it is refused", MINUTE, failed).await?;
    let output = worker.output()?;
    let remedy = format!("--entity-name {topic} --add-config retention.ms=-1");
    assert!(output.contains(&remedy), "{output}");
    Ok(())
}
