//! The main job: every record of a topic into the sink, with more tasks than
//! partitions.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};

use crate::stage::{Stage, wait_for_status};

const RECORDS: usize = 100_000;
const TASKS: usize = 50;
const PARTITIONS: i32 = 12;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_on_twelve_partitions_deliver_every_record() -> Result<()> {
    let stage = Stage::set("orders", PARTITIONS).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let worker = stage.worker(&stage.to_file(TASKS))?;
    let accepted = |status: &Value| status["accepted"] == RECORDS;
    let status = wait_for_status(&worker, "all are confirmed", MINUTE, accepted).await?;
    assert_eq!(status["in_flight"], 0);
    assert_eq!(status["redelivered"], 0);
    stage.wait_until_consumed(Duration::from_secs(10)).await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    let ended = worker.stop(Duration::from_secs(10)).await?;
    assert_eq!(ended.code(), Some(0));
    Ok(())
}

/// A slow endpoint sees as many requests at once as there are tasks, of a topic
/// with a quarter of the partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_delivers_at_the_same_time_though_there_are_fewer_partitions() -> Result<()> {
    const RECORDS: usize = 20 * TASKS;
    let stage = Stage::set("parallel", PARTITIONS).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let slow = |_: &_| Reply::After(Duration::from_millis(200), Box::new(Reply::ok()));
    let receiver = Receiver::start(slow).await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(receiver.url("/"));
    let worker = stage.worker(&connector)?;
    let accepted = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are confirmed", MINUTE, accepted).await?;
    assert_eq!(receiver.most_under_way(), TASKS);
    Ok(())
}
