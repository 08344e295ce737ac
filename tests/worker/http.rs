//! The http sink, into a receiver outside the worker that counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::worker::Worker;
use tokio::time::Instant;

use crate::history::{lines_of, log, number, put_aside};
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const PARTITIONS: i32 = 12;
/// Of a value of 100 bytes beside its id.
const PAD: usize = 100 - r#"{"id":"id-000000","pad":""}"#.len();

/// Records whose key and one header are their id.
async fn produce_ids(stage: &Stage, count: usize) -> Result<()> {
    produce_all(stage, count, records_of_ids(count)).await
}

fn records_of_ids(count: usize) -> impl Iterator<Item = NewRecord> + Send + 'static {
    json_records(count, PARTITIONS, 100)
        .zip(ids(count))
        .map(|(record, id)| record.header("kind", id.as_str()).key(id))
}

async fn produce_all<I>(stage: &Stage, count: usize, records: I) -> Result<()>
where
    I: Iterator<Item = NewRecord> + Send + 'static,
{
    let sent = produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    ensure!(sent == count, "{sent} of {count} were produced");
    Ok(())
}

/// A connector with a request for each record, to `/TOPIC/KEY`.
fn to(receiver: &Receiver, stage: &Stage, tasks: usize) -> Value {
    let mut connector = stage.connector("http", tasks);
    connector["http.url"] = json!(receiver.url("/${topic}/${key}"));
    connector["http.headers.forward"] = json!("*");
    connector["idempotency.key.from"] = json!("topic");
    connector
}

/// The same with each record's timestamp in its value, which is JSON.
fn with_timestamps(mut connector: Value) -> Value {
    for (key, value) in [
        (
            "value.converter",
            "org.apache.kafka.connect.json.JsonConverter",
        ),
        ("value.converter.schemas.enable", "false"),
        ("transforms", "stamp"),
        (
            "transforms.stamp.type",
            "org.apache.kafka.connect.transforms.InsertField$Value",
        ),
        ("transforms.stamp.timestamp.field", "at"),
    ] {
        connector[key] = json!(value);
    }
    connector
}

/// The id that a request is about, by the key in its path.
fn id(stage: &Stage, arrival: &Arrival) -> String {
    let topic = format!("/{}/", stage.name);
    let id = arrival.path.strip_prefix(&topic);
    id.unwrap_or("(elsewhere)").to_owned()
}

fn nothing_came_twice(status: &Value) {
    for field in [
        "in_flight",
        "redelivered",
        "released",
        "lost",
        "unknown",
        "fenced",
    ] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
}

async fn consumed(stage: &Stage, worker: &Worker) -> Result<()> {
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_id_arrives_once_with_its_key_headers_and_timestamp() -> Result<()> {
    const RECORDS: usize = 100_000;
    const TASKS: usize = 50;
    let stage = Stage::set("http", PARTITIONS).await?;
    // A millisecond each, and older than what the worker could make up.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let oldest = i64::try_from((now - HOUR).as_millis())?;
    let timed = records_of_ids(RECORDS).zip(oldest..);
    let timed = timed.map(|(record, at)| record.timestamp(at));
    produce_all(&stage, RECORDS, timed).await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let began = Instant::now();
    let worker = stage.worker(&with_timestamps(to(&receiver, &stage, TASKS)))?;
    let accepted = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", 2 * MINUTE, accepted).await?;
    let rate = RECORDS as f64 / began.elapsed().as_secs_f64();
    eprintln!(
        "{rate:.0} records a second over {} connections",
        receiver.connections()
    );
    nothing_came_twice(&status);
    consumed(&stage, &worker).await?;

    let arrivals = receiver.arrivals();
    Tally::from_iter(arrivals.iter().map(|it| id(&stage, it))).exactly_once(ids(RECORDS))?;
    let (mut keys, mut times) = (Tally::default(), HashMap::new());
    for arrival in arrivals.iter() {
        let id = id(&stage, arrival);
        let body: Value = serde_json::from_slice(&arrival.body)?;
        ensure!(
            body["id"] == id.as_str() && body["pad"].as_str().map(str::len) == Some(PAD),
            "{arrival:?}"
        );
        times.insert(id.clone(), body["at"].as_i64());
        ensure!(arrival.header("kind") == Some(id.as_str()), "{arrival:?}");
        keys.extend(arrival.header("idempotency-key"));
    }
    assert_eq!((keys.distinct(), keys.duplicates()), (RECORDS, 0));
    for (id, at) in ids(RECORDS).zip(oldest..) {
        ensure!(times[&id] == Some(at), "{id} of {at}: {:?}", times[&id]);
    }
    // A request opens a connection if none is idle when it begins. Each task
    // has one request at a time, so at most one connection that is in use, one
    // on its way back to the pool, and one that it began to open before the
    // pool had one for it.
    let connections = receiver.connections();
    ensure!(
        connections <= 3 * TASKS,
        "{connections} connections for {RECORDS} requests of {TASKS} tasks"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_take_turns_share_a_connection() -> Result<()> {
    const TASKS: usize = 50;
    let stage = Stage::set("http-turns", PARTITIONS).await?;
    produce_ids(&stage, TASKS).await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let mut connector = to(&receiver, &stage, TASKS);
    // The task that has been idle for longest gets the next record, so one
    // record after the other goes through all tasks.
    connector["share.max.in.flight.records"] = json!("1");
    let worker = stage.worker(&connector)?;
    let accepted = |status: &Value| status["accepted"] == TASKS;
    wait_for_status(&worker, "all are accepted", MINUTE, accepted).await?;
    let connections = receiver.connections();
    assert_eq!(receiver.most_under_way(), 1, "one record after the other");
    // One; but a connection that is late to return has another beside it.
    ensure!(
        connections <= TASKS / 10,
        "{connections} connections for {TASKS} tasks, one at a time"
    );
    consumed(&stage, &worker).await
}

/// What the receiver does with a record, by its id: so often, then it is fine.
const TROUBLES: [(&str, usize); 8] = [
    ("id-000050", 2),          // 503
    ("id-000150", 1),          // 429 with Retry-After
    ("id-000250", 2),          // 401
    ("id-000350", 2),          // reset
    ("id-000450", 1),          // no answer
    ("id-000550", 2),          // 500
    ("id-000650", 1),          // 503 with Retry-After as a date to come
    ("id-000750", usize::MAX), // 400
];
const REJECTED: &str = "id-000750";
/// What the two with Retry-After ask for.
const WAIT: Duration = Duration::from_secs(2);

fn trouble(id: &str) -> Reply {
    match id {
        "id-000050" => Reply::status(503),
        "id-000150" => Reply::status(429).header("retry-after", &WAIT.as_secs().to_string()),
        "id-000250" => Reply::body(401, "who are you?"),
        "id-000350" => Reply::Reset,
        "id-000450" => Reply::Hang,
        "id-000550" => Reply::status(500),
        "id-000650" => {
            // A date has whole seconds, so it may be almost one too early.
            let at = SystemTime::now() + WAIT + Duration::from_secs(1);
            Reply::status(503).header("retry-after", &httpdate::fmt_http_date(at))
        }
        _ => Reply::body(400, "no such thing"),
    }
}

fn expected_arrivals(id: &str) -> usize {
    let trouble = TROUBLES.iter().find(|(troubled, _)| *troubled == id);
    match trouble {
        None => 1,
        Some((REJECTED, _)) => 1,
        Some((_, times)) => times + 1,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_record_has_the_fate_of_its_answer() -> Result<()> {
    const RECORDS: usize = 1000;
    let stage = Stage::set("http-fates", PARTITIONS).await?;
    produce_ids(&stage, RECORDS).await?;
    let receiver = Receiver::start(|arrival| {
        let troubled = TROUBLES.iter().find(|(id, _)| arrival.path.ends_with(id));
        match troubled {
            Some((id, times)) if arrival.attempt < *times => trouble(id),
            _ => Reply::ok(),
        }
    })
    .await?;
    let mut connector = to(&receiver, &stage, 4);
    // A request that gets no answer outlasts its lock.
    connector["http.request.timeout.ms"] = json!("4000");
    connector["share.record.lock.duration.ms"] = json!("3000");
    connector["errors.tolerance"] = json!("all");
    connector["errors.log.enable"] = json!("true");
    connector["errors.log.include.messages"] = json!("true");
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["accepted"] == RECORDS - 1 && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    nothing_came_twice(&status);
    assert_eq!(
        (&status["rejected"], &status["state"]),
        (&json!(1), &json!("RUNNING"))
    );
    // Failures of a record count; outages are nobody's.
    assert_eq!(
        status["retries"],
        2 + 1 + 2,
        "reset, no answer and 500: {status}"
    );

    let tally = Tally::from_iter(receiver.arrivals().iter().map(|it| id(&stage, it)));
    tally.at_least_once(ids(RECORDS))?;
    for id in ids(RECORDS) {
        assert_eq!(tally.count(&id), expected_arrivals(&id), "{id}");
    }
    for throttled in ["id-000150", "id-000650"] {
        let arrivals = receiver.arrivals();
        let mut times = arrivals.iter().filter(|it| it.path.ends_with(throttled));
        let (first, second) = (times.next().context("first")?, times.next());
        let waited = second.context("second")?.at - first.at;
        assert!(waited >= WAIT, "{throttled}: {waited:?}");
    }

    consumed(&stage, &worker).await?;
    let log = log(&worker)?;
    let put_aside = put_aside(&log)?;
    let place = format!("{}-{}@{}", stage.name, 750 % PARTITIONS, 750 / PARTITIONS);
    assert_eq!(put_aside["record"], place, "{put_aside}");
    let cause = put_aside["error"].as_str().or(put_aside["cause"].as_str());
    let cause = cause.context("no cause")?;
    assert!(
        cause.contains("answered 400 Bad Request: no such thing"),
        "{cause}"
    );
    Ok(())
}

/// In trouble until all others have come: were one of them to wait for such a
/// record, it would wait for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_tried_again_holds_no_other_of_its_partition() -> Result<()> {
    const RECORDS: usize = 1000;
    const TROUBLED: [&str; 4] = ["id-000350", "id-000450", "id-000550", "id-000750"];
    let stage = Stage::set("http-holds", PARTITIONS).await?;
    produce_ids(&stage, RECORDS).await?;
    let others = Mutex::new(HashSet::new());
    let receiver = Receiver::start(move |arrival| {
        let mut others = others.lock();
        match TROUBLED.iter().find(|id| arrival.path.ends_with(*id)) {
            Some(id) if others.len() < RECORDS - TROUBLED.len() => trouble(id),
            Some(_) => Reply::ok(),
            None => {
                others.insert(arrival.path.clone());
                Reply::ok()
            }
        }
    })
    .await?;
    let mut connector = to(&receiver, &stage, 4);
    connector["http.request.timeout.ms"] = json!("1000");
    // Else it would be rejected, and tried again by nobody.
    connector["retry.on.status.codes"] = json!("400");
    let worker = stage.worker(&connector)?;
    let accepted = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", 2 * MINUTE, accepted).await?;
    nothing_came_twice(&status);
    consumed(&stage, &worker).await?;

    let arrivals = receiver.arrivals();
    let tally = Tally::from_iter(arrivals.iter().map(|it| id(&stage, it)));
    tally.at_least_once(ids(RECORDS))?;
    let again = ids(RECORDS).filter(|id| tally.count(id) > 1);
    assert_eq!(again.collect::<Vec<_>>(), TROUBLED);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_tolerance_the_connector_fails_over_a_rejected_record_and_names_it() -> Result<()> {
    const RECORDS: usize = 200;
    let stage = Stage::set("http-refused", PARTITIONS).await?;
    produce_ids(&stage, RECORDS).await?;
    let receiver = Receiver::start(|arrival| match arrival.path.ends_with("id-000100") {
        true => Reply::status(422),
        false => Reply::ok(),
    })
    .await?;
    let worker = stage.worker(&to(&receiver, &stage, 4))?;
    let failed = |status: &Value| status["state"] == "FAILED" && status["in_flight"] == 1;
    let status = wait_for_status(&worker, "it fails", MINUTE, failed).await?;
    assert_eq!(
        (&status["held"], &status["released"]),
        (&json!(1), &json!(0))
    );
    let log = log(&worker)?;
    let errors = lines_of(&log, "ERROR");
    let cause = errors[0]["error"].as_str().context("no cause")?;
    let place = format!("{}-{}@{}", stage.name, 100 % PARTITIONS, 100 / PARTITIONS);
    assert!(cause.contains(&place) && cause.contains("422"), "{cause}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_wait_under_their_locks_for_an_endpoint_that_is_away() -> Result<()> {
    const RECORDS: usize = 500;
    let stage = Stage::set("http-away", PARTITIONS).await?;
    produce_ids(&stage, RECORDS).await?;
    let away = Receiver::start(|_| Reply::ok()).await?;
    let address = away.address();
    let mut connector = to(&away, &stage, 8);
    connector["share.record.lock.duration.ms"] = json!("3000");
    away.stop().await;
    let worker = stage.worker(&connector)?;
    // For some lives of a lock.
    let held = |status: &Value| {
        let count = |field| number(status, field).unwrap_or_default();
        count("in_flight") > 0 && count("renewed") > 5 * count("in_flight")
    };
    let status = wait_for_status(&worker, "locks are renewed", MINUTE, held).await?;
    assert_eq!(
        (&status["state"], &status["accepted"]),
        (&json!("RUNNING"), &json!(0))
    );

    let receiver = Receiver::start_at(address, |_| Reply::ok()).await?;
    let accepted = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, accepted).await?;
    nothing_came_twice(&status);
    assert_eq!(status["retries"], 0, "no record is to blame: {status}");
    consumed(&stage, &worker).await?;
    let arrivals = receiver.arrivals();
    Tally::from_iter(arrivals.iter().map(|it| id(&stage, it))).exactly_once(ids(RECORDS))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_one_bad_record_of_a_batch_is_found_and_the_others_are_taken_once() -> Result<()> {
    const RECORDS: usize = 1000;
    let bad = "id-000500";
    let stage = Stage::set("http-batch", 1).await?;
    let records = json_records(RECORDS, 1, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let receiver = Receiver::start(move |arrival| match arrival.text().contains(bad) {
        true => Reply::status(400),
        false => Reply::ok(),
    })
    .await?;
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(receiver.url("/bulk"));
    connector["batching.enabled"] = json!("true");
    connector["errors.tolerance"] = json!("all");
    let worker = stage.worker(&connector)?;
    let settled = |status: &Value| status["accepted"] == RECORDS - 1 && status["rejected"] == 1;
    let status = wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    nothing_came_twice(&status);
    consumed(&stage, &worker).await?;

    let arrivals = receiver.arrivals();
    let mut taken = Tally::default();
    let mut sizes = BTreeMap::new();
    for batch in arrivals.iter().filter(|it| !it.text().contains(bad)) {
        let records: Vec<Value> = serde_json::from_slice(&batch.body)?;
        taken.extend(records.iter().filter_map(|it| it["id"].as_str()));
        *sizes.entry(records.len()).or_insert(0) += 1;
    }
    taken.exactly_once(ids(RECORDS).filter(|id| id != bad))?;
    assert!(
        arrivals.len() < RECORDS / 4,
        "batches, not records: {sizes:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_sink_logs_every_record() -> Result<()> {
    const RECORDS: usize = 100;
    let stage = Stage::set("log", 1).await?;
    let records = ids(RECORDS).map(|id| NewRecord::value(id.as_str()).key(id));
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let worker = stage.worker(&stage.connector("log", 2))?;
    let accepted = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are accepted", MINUTE, accepted).await?;
    consumed(&stage, &worker).await?;
    let mut lines = log(&worker)?;
    lines.retain(|line| line["message"] == "record" && line["key"] == line["value"]);
    let values = lines.iter().filter_map(|line| line["value"].as_str());
    Tally::from_iter(values).exactly_once(ids(RECORDS))
}
