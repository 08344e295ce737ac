//! More tasks, more workers: more records a second, and none lost or delivered
//! again on the way.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::crew::{Member, START, arrivals, delivery_rate, file_rate, status_of, sum, tally};
use crate::history::{log, number};
use crate::load::Load;
use crate::stage::Stage;

const PARTITIONS: i32 = 12;
const STOP: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// Two connectors in a worker read the same topic: one into a sink in which
/// each record takes two milliseconds, so that tasks are what it lacks; and one
/// into a file, to count ids.
struct TwoConnectors<'a> {
    stage: &'a Stage,
    slow: String,
}

impl<'a> TwoConnectors<'a> {
    fn new(stage: &'a Stage) -> Self {
        let slow = format!("{}-slow", stage.name);
        Self { stage, slow }
    }

    async fn start(&self, tasks: usize) -> Result<Worker> {
        let mut slow = self.stage.connector("null", tasks);
        slow["name"] = json!(self.slow);
        slow["record.latency.us"] = json!("2000");
        let options = self.stage.worker_options(&self.stage.to_file(tasks));
        let worker = Worker::start(&options.connector(&self.slow, &slow))?;
        for connector in [&self.slow, &self.stage.name] {
            eventually("all tasks run", START, async || {
                let status = status_of(&worker, connector)?;
                ensure!(status["tasks_running"] == tasks, "status is {status}");
                Ok(())
            })
            .await?;
        }
        Ok(worker)
    }

    fn group(&self) -> String {
        format!("share-{}", self.slow)
    }
}

/// What the tasks of the slow sink said at their end: how many records they
/// took.
fn taken(worker: &Worker) -> Result<u64> {
    let log = log(worker)?;
    let ends = log
        .iter()
        .filter(|line| line["message"] == "null sink closed");
    ends.map(|line| number(line, "records")).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_tasks_raise_the_rate_and_lose_nothing() -> Result<()> {
    let stage = Stage::set("tasks", PARTITIONS).await?;
    let connectors = TwoConnectors::new(&stage);
    let load = Load::start(&stage, PARTITIONS, 2500);

    let few = connectors.start(2).await?;
    let rate_of_two = delivery_rate(&few, &connectors.slow, 2000).await?;
    assert_eq!(few.stop(STOP).await?.code(), Some(0));

    let many = connectors.start(6).await?;
    let rate_of_six = delivery_rate(&many, &connectors.slow, 6000).await?;
    assert!(
        rate_of_six > 2.0 * rate_of_two,
        "{rate_of_two:.0}/s with 2 tasks, {rate_of_six:.0}/s with 6"
    );

    let records = load.stop().await?;
    for group in [connectors.group(), stage.group()] {
        stage
            .admin
            .wait_until_consumed(&group, &stage.name, PATIENCE)
            .await?;
        let connector = group.trim_start_matches("share-");
        assert_eq!(status_of(&many, connector)?["redelivered"], 0);
    }
    assert_eq!(many.stop(STOP).await?.code(), Some(0));
    Tally::from_json_lines(&stage.file(), "/id")?.exactly_once(ids(records))?;
    assert_eq!(taken(&few)? + taken(&many)?, records as u64);
    Ok(())
}

/// So few records in flight that a worker waits for its disk most of the time:
/// what it lacks is not the processor, which all workers share here.
const WAITS_FOR_THE_DISK: &[(&str, &str)] = &[("share.max.in.flight.records", "20")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_come_in_mid_run_and_go_without_a_trace() -> Result<()> {
    const RECORDS: usize = 24_000;
    let stage = Stage::set("workers", PARTITIONS).await?;
    let records = json_records(RECORDS, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;

    let first = Member::writing(&stage, "first", WAITS_FOR_THE_DISK).await?;
    let alone = file_rate(&[&first], 3000).await?;
    let second = Member::writing(&stage, "second", WAITS_FOR_THE_DISK).await?;
    let third = Member::writing(&stage, "third", WAITS_FOR_THE_DISK).await?;
    let crew = [&first, &second, &third];
    let together = file_rate(&crew, 6000).await?;
    assert!(
        together > 1.5 * alone,
        "{alone:.0}/s alone, {together:.0}/s with two more"
    );

    for guest in [&second, &third] {
        assert_eq!(guest.worker.stop(STOP).await?.code(), Some(0));
        let log = guest.worker.stderr()?;
        assert!(log.contains("drained, all settlements confirmed"), "{log}");
        assert!(guest.tally()?.distinct() > 0);
    }
    let until_then = arrivals(&crew);
    assert!(until_then < RECORDS, "the load was over: {until_then}");

    stage.wait_until_consumed(PATIENCE).await?;
    tally(&crew)?.exactly_once(ids(RECORDS))?;
    assert_eq!(sum(&crew, "redelivered")?, 0);
    Ok(())
}

/// Under a light load a worker waits at the broker most of the time: what it
/// gets while it is being stopped is delivered like all else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_come_and_go_use_up_no_attempts() -> Result<()> {
    let stage = Stage::set("guests", PARTITIONS).await?;
    let load = Load::start(&stage, PARTITIONS, 300);
    let host = Member::writing(&stage, "host", &[]).await?;
    let mut guests = Vec::new();
    for number in 1..=5 {
        let guest = Member::writing(&stage, &format!("guest-{number}"), &[]).await?;
        guest.wait_for("accepted", PATIENCE, |n| n > 20).await?;
        assert_eq!(guest.worker.stop(STOP).await?.code(), Some(0));
        guests.push(guest);
    }
    let records = load.stop().await?;
    stage.wait_until_consumed(PATIENCE).await?;
    let crew: Vec<&Member> = guests.iter().chain([&host]).collect();
    tally(&crew)?.exactly_once(ids(records))?;
    assert_eq!(sum(&crew, "redelivered")?, 0);
    Ok(())
}
