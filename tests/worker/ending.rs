//! How a worker ends: drained, cut short, or at once. What was open comes again.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::process::Signal;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tokio::time::Instant;

use crate::history::log;
use crate::stage::{Stage, lines, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 200;
const HELD: &str = "id-000050";
const HOLD: Duration = Duration::from_secs(60);

/// A topic with records.
async fn with_records(stem: &str, records: usize) -> Result<Stage> {
    let stage = Stage::set(stem, 1).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(records, 1, 100)).await?;
    Ok(stage)
}

/// A worker whose sink has delivered all records but the one that takes a
/// minute, with so long to drain.
async fn holding_one(stage: &Stage, drain: Duration) -> Result<Worker> {
    let mut connector = stage.to_null(2);
    connector["slow.match"] = json!(format!("value={HELD}"));
    connector["slow.ms"] = json!(HOLD.as_millis().to_string());
    let drain = drain.as_millis().to_string();
    let options = stage
        .worker_options(&connector)
        .property("task.shutdown.graceful.timeout.ms", &drain);
    let worker = Worker::start(&options)?;
    let held = |status: &Value| status["accepted"] == RECORDS - 1 && status["in_flight"] == 1;
    wait_for_status(&worker, "one record is open", MINUTE, held).await?;
    let tally = Tally::from_json_lines(&stage.file(), "/id")?;
    tally.exactly_once(ids(RECORDS).filter(|id| id != HELD))?;
    Ok(worker)
}

/// Another worker gets what the one before left open, and it alone.
async fn the_held_one_comes_again(stage: &Stage) -> Result<()> {
    let next = stage.worker(&stage.to_null(2))?;
    let accepted = |status: &Value| status["accepted"] == 1 && status["in_flight"] == 0;
    let status = wait_for_status(&next, "it came again", MINUTE, accepted).await?;
    assert_eq!(status["redelivered"], 1, "{status}");
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(next.stop(MINUTE).await?.code(), Some(0));
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))
}

fn logged(worker: &Worker, message: &str) -> Result<Vec<Value>> {
    let mut lines = log(worker)?;
    lines.retain(|line| line["message"] == message);
    Ok(lines)
}

async fn drains_by(signal: Signal, name: &str) -> Result<()> {
    const MANY: usize = 3000;
    let stage = with_records(&format!("drain-{}", name.to_lowercase()), MANY).await?;
    let mut connector = stage.to_null(2);
    // Some are done and some open when the signal comes.
    connector["record.latency.us"] = json!("2000");
    let worker = stage.worker(&connector)?;
    eventually("some are delivered", MINUTE, async || {
        let delivered = lines(&stage.file());
        if delivered > 0 { Ok(()) } else { Err("none") }
    })
    .await?;
    worker.signal(signal)?;
    let ended = worker.wait_for_exit(MINUTE).await?;
    assert_eq!(ended.code(), Some(0), "{}", worker.output()?);
    let [draining] = &logged(&worker, "draining")?[..] else {
        panic!("{}", worker.output()?);
    };
    assert_eq!(draining["signal"], name);
    let before = lines(&stage.file());
    assert!(before < MANY, "it drained what it had, not the topic");

    let next = stage.worker(&stage.to_null(2))?;
    stage.wait_until_consumed(MINUTE).await?;
    assert_eq!(next.stop(MINUTE).await?.code(), Some(0));
    // A record delivered but not confirmed would have come again.
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(MANY))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigint_drains_like_sigterm() -> Result<()> {
    drains_by(Signal::TERM, "SIGTERM").await?;
    drains_by(Signal::INT, "SIGINT").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_cut_short_ends_75_and_its_open_record_comes_again() -> Result<()> {
    let stage = with_records("cut", RECORDS).await?;
    let worker = holding_one(&stage, Duration::from_secs(1)).await?;
    let began = Instant::now();
    let ended = worker.stop(HOLD / 2).await?;
    assert_eq!(ended.code(), Some(75), "{}", worker.output()?);
    assert!(began.elapsed() >= Duration::from_secs(1), "not waited for");
    let [cut] = &logged(&worker, "drain cut short, some records come again")?[..] else {
        panic!("{}", worker.output()?);
    };
    assert_eq!(cut["released"], 1, "{cut}");
    the_held_one_comes_again(&stage).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_drain_at_once_with_130() -> Result<()> {
    ends_at_once(Signal::TERM, "twice-term").await?;
    ends_at_once(Signal::INT, "twice-int").await
}

async fn ends_at_once(first: Signal, stem: &str) -> Result<()> {
    let stage = with_records(stem, RECORDS).await?;
    // A drain that would outlast the test.
    let worker = holding_one(&stage, HOLD).await?;
    worker.signal(first)?;
    let draining = |line: &str| line.contains("\"draining\"");
    worker.wait_for_log(draining, MINUTE).await?;
    assert_eq!(worker.exit_status()?, None, "it drains");
    worker.signal(Signal::INT)?;
    let ended = worker.wait_for_exit(HOLD / 4).await?;
    assert_eq!(ended.code(), Some(130), "{}", worker.output()?);
    the_held_one_comes_again(&stage).await
}
