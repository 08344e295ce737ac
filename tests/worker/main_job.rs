//! The main job: every record of a topic into the sink, with more tasks than
//! partitions.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};

use crate::stage::{Stage, wait_for_status};

const RECORDS: usize = 100_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_on_twelve_partitions_deliver_every_record() -> Result<()> {
    let stage = Stage::set("orders", 12).await?;
    let records = json_records(RECORDS, 12, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let worker = stage.worker(&stage.to_file(50))?;
    let accepted = |status: &serde_json::Value| status["accepted"] == RECORDS;
    let minute = Duration::from_secs(60);
    let status = wait_for_status(&worker, "all are confirmed", minute, accepted).await?;
    assert_eq!(status["in_flight"], 0);
    assert_eq!(status["redelivered"], 0);
    stage
        .admin
        .wait_until_consumed(&stage.group(), &stage.name, Duration::from_secs(10))
        .await?;
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(RECORDS))?;
    let ended = worker.stop(Duration::from_secs(10)).await?;
    assert_eq!(ended.code(), Some(0));
    Ok(())
}
