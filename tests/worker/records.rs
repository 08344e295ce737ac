//! Every record on its own: a slow one, a deadly one, a killed task.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce_with};
use sluice_test_support::worker::Worker;

use crate::history::{lines_of, log, number, put_aside, seconds_between, statuses};
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const CHUNK: usize = 500;
/// Rounds without a slow record, until broker and worker run warm.
const WARM_UP: usize = 6;
/// Rounds with one, each after one without.
const ROUNDS: usize = 5;
const ALL_ROUNDS: usize = WARM_UP + 2 * ROUNDS;
const SLOW: Duration = Duration::from_secs(5);

/// Produces some of the ids as one batch of the producer, so that one fetch
/// gets them all. The record of `slow` has a key that says so.
async fn produce_some(stage: &Stage, ids: Range<usize>, slow: Option<usize>) -> Result<()> {
    let records = json_records(ids.end, 1, 100).enumerate().skip(ids.start);
    let records = records.map(move |(number, record)| match slow {
        Some(slow) if slow == number => record.key("slow"),
        _ => record,
    });
    let servers = stage.kafka.bootstrap_servers();
    let sent = produce_with(servers, &stage.name, records, &[("linger.ms", "200")]).await?;
    ensure!(sent == ids.len(), "{sent} records of {ids:?} were produced");
    Ok(())
}

/// Waits until all of `ids`, and those before them, are confirmed.
async fn confirmed(worker: &Worker, ids: &Range<usize>) -> Result<Value> {
    let all = |status: &Value| status["accepted"] == ids.end && status["in_flight"] == 0;
    wait_for_status(worker, "a round is confirmed", MINUTE, all).await
}

/// Seconds until so many records were confirmed, the rest of the round open.
fn seconds_until(history: &[Value], ids: &Range<usize>, accepted: usize) -> Result<f64> {
    let open = ids.end - accepted;
    let is_it = |line: &&Value| line["accepted"] == accepted && line["in_flight"] == open;
    let line = history.iter().find(is_it);
    let line = line.with_context(|| format!("no line with {accepted} accepted, {open} open"))?;
    // The newest line without any of them is from before they were acquired.
    let idle = |line: &&Value| line["accepted"] == ids.start && line["in_flight"] == 0;
    let idle = history.iter().rfind(idle).context("no line before")?;
    seconds_between(idle, line)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_record_of_5_s_the_other_499_take_no_longer_than_without_it() -> Result<()> {
    let stage = Stage::set("slow", 1).await?;
    let mut connector = stage.connector("null", 1);
    connector["slow.match"] = json!("key=slow");
    connector["slow.ms"] = json!(SLOW.as_millis().to_string());
    connector["max.put.records"] = json!(CHUNK.to_string());
    connector["share.max.in.flight.records"] = json!(CHUNK.to_string());
    let options = stage
        .worker_options(&connector)
        .property("status.log.interval.ms", "10");
    let worker = Worker::start(&options)?;

    let (mut without, mut beside) = (Vec::new(), Vec::new());
    for round in 0..ALL_ROUNDS {
        let ids = round * CHUNK..(round + 1) * CHUNK;
        let has_slow = round >= WARM_UP && !(round - WARM_UP).is_multiple_of(2);
        let slow = has_slow.then_some(ids.start + CHUNK / 2);
        produce_some(&stage, ids.clone(), slow).await?;
        let status = confirmed(&worker, &ids).await?;
        assert_eq!(status["redelivered"], 0, "{status}");
        let history = statuses(&worker)?;
        let all = seconds_until(&history, &ids, ids.end)?;
        if has_slow {
            let others = seconds_until(&history, &ids, ids.end - 1)?;
            eprintln!("499 records took {others:.3} s, the slow one beside them {all:.3} s");
            assert!(others < SLOW.as_secs_f64() / 5.0, "{others} s");
            assert!(all >= SLOW.as_secs_f64(), "{all} s");
            beside.push(others);
        } else if round >= WARM_UP {
            without.push(all);
        }
    }
    let (without, beside) = (median(without), median(beside));
    eprintln!("rounds without a slow one took {without:.3} s, the others beside one {beside:.3} s");
    assert!(beside < 0.1_f64.max(2.0 * without), "{beside} s");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    // As many puts as rounds: each had its 500 records in flight at once.
    let log = log(&worker)?;
    let closed = log
        .iter()
        .find(|line| line["message"] == "null sink closed");
    let closed = closed.context("no sink was closed")?;
    assert_eq!(closed["records"], ALL_ROUNDS * CHUNK, "{closed}");
    assert_eq!(closed["puts"], ALL_ROUNDS, "{closed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_kills_each_task_is_put_aside_alone() -> Result<()> {
    const RECORDS: usize = 10_000;
    let stage = Stage::set("deadly", 12).await?;
    let records = json_records(RECORDS, 12, 100);
    let servers = stage.kafka.bootstrap_servers();
    produce_with(servers, &stage.name, records, &[]).await?;
    let deadly = "id-005000";
    let mut connector = stage.to_null(50);
    connector["panic.match"] = json!(format!("value={deadly}"));
    connector["errors.tolerance"] = json!("all");
    connector["errors.log.enable"] = json!("true");
    connector["errors.log.include.messages"] = json!("true");
    let worker = stage.worker(&connector)?;

    let settled = |status: &Value| status["rejected"] == 1 && status["accepted"] == RECORDS - 1;
    let status = wait_for_status(&worker, "all are settled", MINUTE, settled).await?;
    for field in ["in_flight", "redelivered", "released", "lost", "unknown"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    stage.wait_until_consumed(MINUTE).await?;
    let running = |status: &Value| status["tasks_running"] == 50;
    wait_for_status(&worker, "all tasks live again", MINUTE, running).await?;

    let log = log(&worker)?;
    let mut errors = lines_of(&log, "ERROR");
    errors.retain(|line| line["message"] != "panicked");
    assert!(errors.is_empty(), "{errors:?}");
    let put_aside = put_aside(&log)?;
    // Records go round the partitions: the id's number tells its place.
    let place = format!("{}-{}@{}", stage.name, 5000 % 12, 5000 / 12);
    assert_eq!(put_aside["record"], place, "{put_aside}");
    assert_eq!(put_aside["stage"], "TASK_PUT", "{put_aside}");
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let others = ids(RECORDS).filter(|id| id != deadly);
    Tally::from_json_lines(&stage.file(), "/id")?.at_least_once(others)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_of_a_task_that_died_go_to_a_living_one_under_the_same_locks() -> Result<()> {
    const RECORDS: usize = 200;
    let stage = Stage::set("killed", 1).await?;
    let mut connector = stage.to_null(2);
    connector["panic.match"] = json!("value=id-000050,times=1");
    connector["share.max.in.flight.records"] = json!(RECORDS.to_string());
    let worker = stage.worker(&connector)?;
    let idle = |status: &Value| status["state"] == "RUNNING" && status["tasks_running"] == 2;
    wait_for_status(&worker, "both tasks wait", MINUTE, idle).await?;
    produce_some(&stage, 0..RECORDS, None).await?;

    let settled = |status: &Value| status["accepted"] == RECORDS;
    let status = wait_for_status(&worker, "all are accepted", MINUTE, settled).await?;
    for field in [
        "in_flight",
        "redelivered",
        "rejected",
        "released",
        "lost",
        "unknown",
    ] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    wait_for_status(&worker, "the dead task is replaced", MINUTE, idle).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    let log = log(&worker)?;
    let with = |message: &str| -> Vec<&Value> {
        log.iter()
            .filter(|line| line["message"] == message)
            .collect()
    };
    assert_eq!(with("task died").len(), 1, "{:?}", with("task died"));
    let [died] = with("a task died over its records")[..] else {
        panic!("a chunk goes to another task once: {log:?}");
    };
    assert_eq!(died["records"], RECORDS / 2, "its half was pending: {died}");
    // The dead task's sink is never closed, so these are the living ones.
    let closed = with("null sink closed");
    let handed = closed.iter().map(|line| number(line, "records"));
    assert_eq!(handed.sum::<Result<u64>>()?, RECORDS as u64, "{closed:?}");
    Tally::from_json_lines(&stage.file(), "/id")?.at_least_once(ids(RECORDS))
}
