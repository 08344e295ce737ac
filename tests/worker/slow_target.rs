//! A target that takes longer for an answer than a lock lasts, or than a put
//! may take.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::worker::Worker;

use crate::history::number;
use crate::stage::{Stage, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than anything that a loaded machine does to a running worker.
const LOCK: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(5);
const RECORDS: usize = 60;
const TASKS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_record_is_asked_for_once_and_delivered_at_its_first_attempt() -> Result<()> {
    let stage = Stage::set("slow-target", 2).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;
    let receiver = Receiver::start(|_| Reply::After(ANSWER, Box::new(Reply::ok()))).await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(receiver.url("/orders"));
    connector["share.record.lock.duration.ms"] = json!(LOCK.as_millis().to_string());
    // As many as there are, so that some wait behind others in their task.
    connector["share.max.in.flight.records"] = json!(RECORDS.to_string());
    let worker = stage.worker(&connector)?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    for none in ["redelivered", "released", "lost", "unknown", "fenced"] {
        assert_eq!(status[none], 0, "{none} of {status}");
    }
    assert_eq!(status["retries"], 0, "{status}");
    // Each lock would have ended twice before its first answer.
    let renewed = number(&status, "renewed")?;
    assert!(renewed >= 2 * RECORDS as u64, "{renewed}");
    stage.wait_until_consumed(PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), RECORDS, "as many requests as records");
    let bodies = arrivals.iter().map(|it| &*it.body);
    Tally::from_json_values(bodies, "/id").exactly_once(ids(RECORDS))
}

/// Never answered so often.
const HUNG: [(&str, usize); 2] = [("id-000005", 1), ("id-000009", 2)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_takes_too_long_goes_to_another_task_first_and_back_to_the_broker_then()
-> Result<()> {
    let stage = Stage::set("hung-target", 2).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(RECORDS, 2, 100)).await?;
    let receiver = Receiver::start(|arrival| {
        let text = arrival.text();
        match HUNG.iter().find(|(id, _)| text.contains(id)) {
            Some((_, times)) if arrival.attempt < *times => Reply::Hang,
            _ => Reply::ok(),
        }
    })
    .await?;
    let mut connector = stage.connector("http", 4);
    connector["http.url"] = json!(receiver.url("/orders"));
    connector["http.request.timeout.ms"] = json!("600000");
    connector["share.delivery.timeout.ms"] = json!("3000");
    connector["share.record.lock.duration.ms"] = json!(LOCK.as_millis().to_string());
    // Nobody waits behind them.
    connector["max.put.records"] = json!("1");
    let worker = stage.worker(&connector)?;
    let all = |status: &Value| status["accepted"] == RECORDS && status["in_flight"] == 0;
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, all).await?;
    // The one that hung twice, and nothing else, went by the broker.
    for (field, expected) in [("released", 1), ("redelivered", 1), ("lost", 0)] {
        assert_eq!(status[field], expected, "{field} of {status}");
    }
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    let arrivals = receiver.arrivals();
    let bodies = arrivals.iter().map(|it| &*it.body);
    let tally = Tally::from_json_values(bodies, "/id");
    for id in ids(RECORDS) {
        let hung = HUNG.iter().find(|(hung, _)| *hung == id);
        let expected = 1 + hung.map_or(0, |(_, times)| *times);
        assert_eq!(tally.count(&id), expected, "{id}");
    }
    Ok(())
}

/// Far longer than a settlement takes on any machine.
const LONG_POLL: Duration = Duration::from_secs(25);
const FETCH_MAX_WAIT: &str = "consumer.override.fetch.max.wait.ms";
const DRAIN: &str = "task.shutdown.graceful.timeout.ms";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_at_its_second_try_is_accepted_at_once_though_no_more_comes() -> Result<()>
{
    let stage = Stage::set("idle-target", 1).await?;
    let receiver = Receiver::start(|arrival| match arrival.attempt {
        0 => Reply::status(500),
        _ => Reply::ok(),
    })
    .await?;
    let mut connector = stage.connector("http", 2);
    connector["http.url"] = json!(receiver.url("/orders"));
    let long_poll = LONG_POLL.as_millis().to_string();
    connector[FETCH_MAX_WAIT] = json!(long_poll);
    // A fetch waits for an eighth of it at most.
    let drain = (8 * LONG_POLL).as_millis().to_string();
    let options = stage.worker_options(&connector).property(DRAIN, &drain);
    let worker = Worker::start(&options)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", PATIENCE, running).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, json_records(1, 1, 100)).await?;
    let delivered = |status: &Value| status["delivered"] == 1;
    wait_for_status(&worker, "it is delivered", PATIENCE, delivered).await?;
    let accepted = |status: &Value| status["accepted"] == 1 && status["in_flight"] == 0;
    let soon = LONG_POLL / 2;
    let status = wait_for_status(&worker, "behind no long poll", soon, accepted).await?;
    assert_eq!(
        (&status["retries"], &status["redelivered"]),
        (&json!(1), &json!(0))
    );
    // The end waits for the fetch that is under way, and for what it brings.
    let more = produce(servers, &stage.name, json_records(1, 1, 100));
    let (stopped, produced) = tokio::join!(worker.stop(PATIENCE), more);
    produced?;
    assert_eq!(stopped?.code(), Some(0));
    assert_eq!(receiver.arrivals().len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_that_may_wait_longer_than_a_drain_does_not_cut_one_short() -> Result<()> {
    let stage = Stage::set("idle", 1).await?;
    let mut connector = stage.to_file(1);
    // Longer than the 5 s of a drain, not than those of a request.
    connector[FETCH_MAX_WAIT] = json!("20000");
    let worker = stage.worker(&connector)?;
    let running = |status: &Value| status["state"] == "RUNNING";
    wait_for_status(&worker, "it runs", PATIENCE, running).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
