//! Records in a sink that buffers: accepted after its flush, or after their put
//! if that is said; a crash in between loses nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce, produce_with};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tokio::time::Instant;

use crate::history::{lines_of, log};
use crate::stage::{Stage, lines, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(60);
/// Time brings a flush after a third of it.
const LOCK_MS: &str = "60000";
const BY_TIME: Duration = Duration::from_secs(20);
const RECORDS: usize = 120;

async fn stage_with_records(stem: &str) -> Result<Stage> {
    let stage = Stage::set(stem, 1).await?;
    let group = [("share.record.lock.duration.ms", LOCK_MS)];
    stage.admin.alter_group(&stage.group(), &group).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 1, 100)).await?;
    Ok(stage)
}

/// A worker of one task that flushes as rarely as it may, with these settings
/// more.
fn lazy(stage: &Stage, settings: &[(&str, &str)]) -> Result<Worker> {
    let mut connector = stage.to_file_of("lazy", 1);
    connector["share.flush.idle.ms"] = json!("600000");
    connector["max.put.records"] = json!("10");
    connector["share.max.in.flight.records"] = json!("1000");
    for (key, value) in settings {
        connector[*key] = json!(value);
    }
    let options = stage.worker_options(&connector);
    Worker::start(&options.property("offset.flush.interval.ms", "600000"))
}

async fn wait_until_written(stage: &Stage) -> Result<()> {
    eventually("all are written", PATIENCE, async || {
        let written = lines(&stage.file_of("lazy"));
        ensure!(written == RECORDS, "{written} of {RECORDS}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_put_and_flush_loses_nothing_and_repeats_what_was_not_flushed() -> Result<()>
{
    let stage = stage_with_records("unflushed").await?;
    let worker = lazy(&stage, &[("share.flush.records", "50")])?;
    wait_until_written(&stage).await?;
    let flushed = |status: &Value| status["accepted"].as_u64() >= Some(100);
    let status = wait_for_status(&worker, "two flushes", PATIENCE, flushed).await?;
    worker.kill()?;
    let accepted = status["accepted"].as_u64().context("no count")? as usize;
    ensure!(accepted < RECORDS, "all were flushed before the kill");

    let next = stage.worker(&stage.to_file_of("next", 1))?;
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(next.stop(PATIENCE).await?.code(), Some(0));
    let again = Tally::from_json_lines(&stage.file_of("next"), "/id")?;
    again.exactly_once(ids(RECORDS).skip(accepted))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_after_the_put_nothing_comes_again_flushed_or_not() -> Result<()> {
    let stage = stage_with_records("after-put").await?;
    let worker = lazy(&stage, &[("share.acknowledge.after", "put")])?;
    let began = Instant::now();
    let all = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    ensure!(began.elapsed() < BY_TIME, "they waited for a flush");
    worker.kill()?;
    stage.wait_until_consumed(PATIENCE).await?;
    Tally::from_json_lines(&stage.file_of("lazy"), "/id")?.exactly_once(ids(RECORDS))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_span_that_is_used_up_brings_the_flush() -> Result<()> {
    const LOCKS: usize = 100;
    const MANY: usize = 2000;
    let stage = Stage::set("span-flush", 1).await?;
    let group = [("share.record.lock.duration.ms", LOCK_MS)];
    stage.admin.alter_group(&stage.group(), &group).await?;
    let records = json_records(MANY, 1, 100);
    let batches = ("batch.num.messages", "20");
    produce_with(
        stage.kafka.bootstrap_servers(),
        &stage.name,
        records,
        &[batches],
    )
    .await?;
    let locks = LOCKS.to_string();
    let worker = lazy(&stage, &[("share.partition.max.record.locks", &locks)])?;
    let began = Instant::now();
    let all = |status: &Value| status["accepted"] == MANY;
    wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    // By time alone, each span's worth would have waited that long.
    let by_time = BY_TIME * (MANY / LOCKS) as u32;
    ensure!(began.elapsed() < by_time / 4, "{:?}", began.elapsed());
    Tally::from_json_lines(&stage.file_of("lazy"), "/id")?.exactly_once(ids(MANY))?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_more_than_the_group_may_lock_is_refused() -> Result<()> {
    let stage = Stage::set("cannot-fit", 2).await?;
    let settings = [
        ("share.flush.records", "201"),
        ("share.partition.max.record.locks", "100"),
    ];
    let worker = lazy(&stage, &settings)?;
    let ended = worker.wait_for_exit(PATIENCE).await?;
    assert_eq!(ended.code(), Some(69), "{}", worker.output()?);
    let log = log(&worker)?;
    let errors = lines_of(&log, "ERROR");
    let cause = errors.iter().find_map(|line| line["error"].as_str());
    let cause = cause.context("no cause")?;
    ensure!(
        cause.starts_with("share.flush.records 201 is more than"),
        "{cause}"
    );
    ensure!(cause.contains("100 in each of 2 partitions"), "{cause}");
    Ok(())
}
