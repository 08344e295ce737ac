//! An operator changes a group's settings while a worker holds its records: the
//! brokers keep to what is set at once, and the worker must follow.

use std::time::Duration;

use anyhow::{Result, ensure};
use krafka::admin::{ConfigOp, ConfigResource, IncrementalAlterConfigsOptions};
use serde_json::{Value, json};
use sluice_test_support::consume::{Received, read_topic};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::receiver::Reply;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::history::{lines_of, log, number, statuses};
use crate::service::Service;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const LIMIT: &str = "share.delivery.count.limit";
const RENEWAL: &str = "share.renew.acknowledge.enable";
const LETTERS: &str = "errors.deadletterqueue.topic.name";
/// So few that they may be to blame themselves when they all fail.
const RECORDS: usize = 12;

/// Lets the group's settings be read so often.
fn read_often(connector: &mut Value) {
    connector["consumer.override.metadata.max.age.ms"] = json!("300");
}

/// Waits until each record but one has come so often since `before` had come.
async fn wait_for_all_but_one(service: &Service, before: usize, times: usize) -> Result<()> {
    eventually("the records are tried on", MINUTE, async || {
        let tried = {
            let arrivals = service.receiver.arrivals();
            let bodies = arrivals.iter().skip(before).map(|it| &*it.body);
            Tally::from_json_values(bodies, "/id")
        };
        let often = ids(RECORDS).filter(|id| tried.count(id) >= times);
        let often = often.count();
        ensure!(often >= RECORDS - 1, "{often} came {times} times");
        Ok(())
    })
    .await
}

/// Records that have been delivered once, by a worker that was killed, and a
/// worker that holds some of them for a service that is down. The group lets
/// each be delivered ten times.
async fn second_delivery(stem: &str, keys: &[(&str, &str)]) -> Result<(Stage, Service, Worker)> {
    let stage = Stage::set(stem, 2).await?;
    let settings = [(LIMIT, "10"), ("share.record.lock.duration.ms", "5000")];
    stage.admin.alter_group(&stage.group(), &settings).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;

    let mut hoarder = stage.connector("null", 2);
    hoarder["latency.ms"] = json!("600000");
    hoarder["share.max.in.flight.records"] = json!("1000");
    let first = stage.worker(&hoarder)?;
    let has_all = |status: &Value| status["in_flight"] == RECORDS;
    wait_for_status(&first, "it has them all", MINUTE, has_all).await?;
    first.kill()?;

    let service = Service::up().await?;
    service.answers(Reply::status(503));
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(service.receiver.url("/"));
    connector["errors.retry.delay.max.ms"] = json!("500");
    read_often(&mut connector);
    for (key, value) in keys {
        connector[*key] = json!(value);
    }
    let second = stage.worker(&connector)?;
    let holds = |status: &Value| {
        status["redelivered"].as_u64() > Some(0)
            && status["outage"] != ""
            && status["delivery_limit"] == 10
    };
    wait_for_status(&second, "it holds some", MINUTE, holds).await?;
    Ok((stage, service, second))
}

/// The operator changes the limit, and the worker says so.
async fn change_limit(stage: &Stage, worker: &Worker, from: u16, to: u16) -> Result<Value> {
    let changed = [(LIMIT, &*to.to_string())];
    stage.admin.alter_group(&stage.group(), &changed).await?;
    let follows = |status: &Value| status["delivery_limit"] == to;
    let status = wait_for_status(worker, "it follows", MINUTE, follows).await?;
    let log = log(worker)?;
    let told = format!("the group's settings have changed: {LIMIT} is {to} now, it was {from}");
    let warned = lines_of(&log, "WARN");
    let told = warned
        .iter()
        .filter(|line| line["message"] == told.as_str());
    assert_eq!(told.count(), 1, "{warned:?}");
    Ok(status)
}

/// KIP-1302's way of giving back at once, which archives a record at the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_lowered_under_open_records_archives_none_of_them() -> Result<()> {
    let keys = [("share.retriable", "release")];
    let (stage, service, worker) = second_delivery("lowered", &keys).await?;
    change_limit(&stage, &worker, 10, 2).await?;
    // One is taken, or it would go on as the outage that it was. By the old limit
    // all others would go back now, and be gone.
    service.answers(Reply::status(500));
    let before = service.receiver.count();
    service.spares_one();
    wait_for_all_but_one(&service, before, 2).await?;
    service.answers(Reply::ok());
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, all).await?;
    for field in ["released", "lost", "rejected"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    service.tally().exactly_once(ids(RECORDS))?;
    stage.wait_until_consumed(MINUTE).await?;
    change_limit(&stage, &worker, 2, 7).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_tolerated_is_put_aside_on_the_last_attempt_by_the_lowered_limit() -> Result<()> {
    let keys = [
        ("errors.tolerance", "all"),
        ("errors.retry.timeout", "0"),
        ("errors.log.enable", "true"),
    ];
    let (stage, service, worker) = second_delivery("lowered-aside", &keys).await?;
    change_limit(&stage, &worker, 10, 2).await?;
    // One is taken, or it would go on as the outage that it was.
    service.answers(Reply::status(500));
    service.spares_one();
    let all = |status: &Value| status["rejected"] == RECORDS - 1 && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are put aside", MINUTE, all).await?;
    assert_eq!(status["released"], 0, "{status}");
    let mut told = log(&worker)?;
    told.retain(|line| {
        let cause = line["error"].as_str().unwrap_or_default();
        line["message"] == "record put aside" && cause.starts_with("on its last delivery attempt")
    });
    assert_eq!(told.len(), RECORDS - 1, "{told:?}");
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// Many looks at the settings, each of which could have let it fetch.
const LOOKS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_renewal_what_is_open_comes_again_and_nothing_is_fetched_until_it_is_allowed()
-> Result<()> {
    let stage = Stage::set("no-renewal", 2).await?;
    let group = stage.group();
    let lock = [("share.record.lock.duration.ms", "3000")];
    stage.admin.alter_group(&group, &lock).await?;
    let service = Service::up().await?;
    service.answers(Reply::status(500));
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(service.receiver.url("/"));
    connector["errors.retry.delay.max.ms"] = json!("500");
    read_often(&mut connector);
    let worker = stage.worker(&connector)?;
    let servers = stage.kafka.bootstrap_servers();
    let mut records: Vec<_> = json_records(2 * RECORDS, 2, 100).collect();
    let later = records.split_off(RECORDS);
    produce(servers, &stage.name, records).await?;
    let holds = |status: &Value| {
        status["in_flight"] == RECORDS && status["renewed"].as_u64() >= Some(RECORDS as u64)
    };
    let status = wait_for_status(&worker, "it holds them", MINUTE, holds).await?;
    assert_eq!(status["redelivered"], 0, "{status}");

    let renewal = async |is_on: &str| stage.admin.alter_group(&group, &[(RENEWAL, is_on)]).await;
    renewal("false").await?;
    let waits = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        let is_told = trouble.contains(RENEWAL) && trouble.contains(&group);
        is_told && status["window"] == 0 && status["in_flight"] == 0
    };
    let status = wait_for_status(&worker, "their locks end", MINUTE, waits).await?;
    assert!(number(&status, "lost")? >= RECORDS as u64, "{status}");
    produce(servers, &stage.name, later).await?;
    let seen = statuses(&worker)?.len();
    let since = eventually("it waits on", MINUTE, async || {
        let since = statuses(&worker)?.split_off(seen);
        ensure!(since.len() > LOOKS, "{} looks", since.len());
        Ok::<_, anyhow::Error>(since)
    })
    .await?;
    let fetched = since.iter().find(|status| !waits(status));
    assert!(fetched.is_none(), "{fetched:?}");

    service.answers(Reply::ok());
    renewal("true").await?;
    let goes_on = |status: &Value| status["accepted"] == 2 * RECORDS && status["trouble"] == "";
    let status = wait_for_status(&worker, "it goes on", MINUTE, goes_on).await?;
    // Each time that a lock ended was an attempt.
    assert_eq!(status["redelivered"], status["lost"], "{status}");
    assert_eq!(
        (&status["rejected"], &status["released"]),
        (&json!(0), &json!(0))
    );
    service.tally().exactly_once(ids(2 * RECORDS))?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// Takes a setting away from a group.
async fn unset(stage: &Stage, key: &str) -> Result<()> {
    let group = ConfigResource::group(stage.group());
    let changes = [(group, vec![ConfigOp::delete(key)])];
    let options = IncrementalAlterConfigsOptions::default();
    let client = stage.admin.client();
    for result in client
        .incremental_alter_configs(changes, options)
        .await?
        .into_values()
    {
        result?;
    }
    Ok(())
}

async fn wait_for_letters(servers: &str, topic: &str, count: usize) -> Result<Vec<Received>> {
    eventually("the brokers write the letters", MINUTE, async || {
        let letters = read_topic(servers, topic).await?;
        ensure!(letters.len() >= count, "{} so far", letters.len());
        Ok::<_, anyhow::Error>(letters)
    })
    .await
}

/// Of so many records, the sink rejects the one whose id ends with 7.
const REJECTED: usize = 1;

/// What an operator does to the brokers' letters of a group, and undoes.
struct Change<'a> {
    stem: &'a str,
    key: &'a str,
    /// `None` takes the setting away.
    value: Option<&'a str>,
    /// What the trouble says besides key and group.
    words: &'a [&'a str],
}

/// Meanwhile, what would be rejected is held; then it has its letter.
async fn held_meanwhile(change: Change<'_>) -> Result<()> {
    let stage = Stage::set(change.stem, 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    let topic = format!("dlq.{}", stage.name);
    let takes = [("errors.deadletterqueue.group.enable", "true")];
    stage.admin.create_topic_with(&topic, 1, 1, &takes).await?;
    let mut connector = stage.to_null(2);
    connector["reject.match"] = json!("value=7\"");
    connector["errors.tolerance"] = json!("all");
    connector["errors.deadletterqueue.mode"] = json!("broker");
    connector[LETTERS] = json!(topic);
    read_often(&mut connector);
    let worker = stage.worker(&connector)?;
    let mut records: Vec<_> = json_records(2 * RECORDS, 1, 100).collect();
    let later = records.split_off(RECORDS);
    produce(servers, &stage.name, records).await?;
    let rejects = |status: &Value| status["rejected"] == REJECTED && status["in_flight"] == 0;
    wait_for_status(&worker, "it rejects", MINUTE, rejects).await?;
    wait_for_letters(servers, &topic, REJECTED).await?;

    let set_to = async |value| {
        let change = [(change.key, value)];
        stage.admin.alter_group(&stage.group(), &change).await
    };
    match change.value {
        Some(value) => set_to(value).await?,
        None => unset(&stage, change.key).await?,
    }
    let group = stage.group();
    let warns = |status: &Value| {
        let trouble = status["trouble"].as_str().unwrap_or_default();
        let names = [change.key, &group];
        let mut said = names.iter().chain(change.words);
        said.all(|said| trouble.contains(said))
    };
    wait_for_status(&worker, "it says what is missing", MINUTE, warns).await?;
    produce(servers, &stage.name, later).await?;
    let delivered = 2 * (RECORDS - REJECTED);
    let holds = |status: &Value| status["held"] == REJECTED && status["accepted"] == delivered;
    let status = wait_for_status(&worker, "it holds them", MINUTE, holds).await?;
    assert_eq!(status["rejected"], REJECTED, "{status}");

    let before = match change.key {
        LETTERS => &topic,
        _ => "true",
    };
    set_to(before).await?;
    let rejects = |status: &Value| {
        status["rejected"] == 2 * REJECTED && status["in_flight"] == 0 && status["trouble"] == ""
    };
    wait_for_status(&worker, "it rejects them", MINUTE, rejects).await?;
    let letters = wait_for_letters(servers, &topic, 2 * REJECTED).await?;
    // By their contents.
    let letters =
        Tally::from_json_values(letters.iter().filter_map(|it| it.value.as_deref()), "/id");
    let wanted =
        |is_rejected: bool| ids(2 * RECORDS).filter(move |id| id.ends_with('7') == is_rejected);
    letters.exactly_once(wanted(true))?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(wanted(false))?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_brokers_would_drop_is_held_until_they_write_letters_again() -> Result<()> {
    held_meanwhile(Change {
        stem: "letters-unset",
        key: LETTERS,
        value: None,
        words: &["is unset now", "--add-config"],
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_have_a_letter_without_its_contents_is_held_until_they_are_copied() -> Result<()>
{
    let off = Change {
        stem: "letters-copied",
        key: "errors.deadletterqueue.copy.record.enable",
        value: Some("false"),
        words: &["is false now", "without key and value", "--add-config"],
    };
    let unset = Change {
        stem: "letters-uncopied",
        value: None,
        ..off
    };
    tokio::try_join!(held_meanwhile(off), held_meanwhile(unset))?;
    Ok(())
}
