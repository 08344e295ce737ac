//! What does not grow with what is parked: the topic, which nothing else would
//! ever make smaller, and the log.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::produce::ids;
use sluice_test_support::receiver::Reply;
use sluice_test_support::wait::eventually;

use crate::history::{log, number, seconds_between};
use crate::parking::{Others, fill, is_failing, parked_of, parking, refusing, taken};
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
/// Every third one fails.
const COUNT: usize = 30;
const FAILING: i64 = COUNT as i64 / 3;
const PARKING: &str = "parking them";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_the_topic_nor_the_log_grows_with_what_was_parked_and_delivered() -> Result<()> {
    let stage = Stage::set("parking-trim", 1).await?;
    let service = refusing(is_failing).await?;
    let mut connector = parking(&stage, &service);
    connector["share.park.after.ms"] = json!("0");
    fill(&stage, COUNT).await?;
    let others = Others::start(&stage);
    let worker = stage.worker(&connector)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", MINUTE, running).await?;
    eventually("settled copies are deleted", MINUTE, async || {
        let (start, _) = range(&stage).await?;
        ensure!(start >= FAILING, "only {start} are");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    // Each of them is parked again and again: its last copy must be there.
    let all = COUNT + others.stop().await?;
    service.answers(Reply::ok());
    let done = |status: &Value| status["accepted"] == all && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are delivered", MINUTE, done).await?;
    taken(&service).exactly_once(ids(COUNT))?;
    // Brokers store with a settlement where the group stood before it.
    eventually("no copy but the last ones is left", MINUTE, async || {
        let (start, end) = range(&stage).await?;
        ensure!(end - start <= FAILING, "from {start} to {end}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    check_log(&log(&worker)?, number(&status, "parked")?)
}

/// The first offset in the parking topic, and its end.
async fn range(stage: &Stage) -> Result<(i64, i64)> {
    let topic = parked_of(stage);
    let start = stage.admin.start_offsets(&topic).await?;
    let end = stage.admin.end_offsets(&topic).await?;
    Ok((start[&0], end[&0]))
}

/// A line a second at most, that tell together of each time that a record was
/// parked.
fn check_log(log: &[Value], parked: u64) -> Result<()> {
    let told = |line: &&Value| {
        line["message"]
            .as_str()
            .is_some_and(|it| it.ends_with(PARKING))
    };
    let lines: Vec<&Value> = log.iter().filter(told).collect();
    let counts = lines.iter().map(|line| number(line, "records"));
    assert_eq!(counts.sum::<Result<u64>>()?, parked);
    for pair in lines.windows(2) {
        let apart = seconds_between(pair[0], pair[1])?;
        ensure!(apart > 0.9, "{apart} s between {pair:?}");
    }
    let (cause, record) = (lines[0]["error"].as_str(), lines[0]["record"].as_str());
    assert!(cause.is_some_and(|it| it.contains("500")), "{}", lines[0]);
    assert!(record.is_some_and(|it| it.contains("-0@")), "{record:?}");
    Ok(())
}
