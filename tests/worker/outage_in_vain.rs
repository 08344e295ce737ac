//! A sink that is down and says so of no put as such: it answers each with an
//! error that may pass, or none. An outage as any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{ids, json_records, produce_with};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::worker::Worker;
use tokio::time::{Instant, sleep_until};

use crate::api::Api;
use crate::load::Load;
use crate::service::Service;
use crate::stage::{Stage, wait_for_status};

const PATIENCE: Duration = Duration::from_secs(180);
/// Longer than anything that a loaded machine does to a running worker.
const LOCK: Duration = Duration::from_secs(2);
const PARTITIONS: i32 = 2;
const TASKS: usize = 4;
/// As many as have to fail before the sink is taken to be down.
const MANY: u64 = 16;
/// What may be in hand, unless it is said otherwise.
const WINDOW: u64 = 400;
/// What the broker may give out beyond it: batches as they were produced.
const BATCHES: u64 = 50;

#[derive(Clone)]
struct Outage {
    stem: &'static str,
    reply: Reply,
    retry_timeout_ms: Option<&'static str>,
    window: u64,
    per_second: usize,
    /// How many may be given back, since there were not too many yet.
    released: u64,
    words: &'static str,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_gateway_for_ten_lock_times_archives_nothing_whatever_the_retry_timeout() -> Result<()>
{
    let outage = Outage {
        stem: "bad-gateway",
        reply: Reply::status(502),
        retry_timeout_ms: None,
        window: WINDOW,
        per_second: 100,
        released: 0,
        words: "records and more failed in a row",
    };
    let (second, none) = (Some("1000"), Some("0"));
    tokio::try_join!(
        nothing_is_lost_in(outage.clone()),
        nothing_is_lost_in(Outage {
            stem: "bad-gateway-second",
            retry_timeout_ms: second,
            ..outage.clone()
        }),
        nothing_is_lost_in(Outage {
            stem: "bad-gateway-none",
            retry_timeout_ms: none,
            released: MANY,
            ..outage.clone()
        }),
        nothing_is_lost_in(Outage {
            stem: "bad-gateway-narrow",
            retry_timeout_ms: none,
            // Of both partitions together fewer than that.
            window: MANY / 4,
            per_second: 20,
            released: MANY / 2,
            ..outage.clone()
        }),
    )?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_never_answers_for_ten_lock_times_archives_nothing() -> Result<()> {
    let outage = Outage {
        stem: "silent",
        reply: Reply::Hang,
        retry_timeout_ms: None,
        window: WINDOW,
        per_second: 100,
        // What the first put of each task had that hung twice.
        released: 10 * TASKS as u64,
        words: "puts in a row took longer",
    };
    tokio::try_join!(
        nothing_is_lost_in(outage.clone()),
        nothing_is_lost_in(Outage {
            stem: "silent-none",
            retry_timeout_ms: Some("0"),
            ..outage.clone()
        }),
    )?;
    Ok(())
}

async fn start(stage: &Stage, outage: &Outage, service: &Service) -> Result<Worker> {
    let lock = LOCK.as_millis().to_string();
    let group = [
        ("share.record.lock.duration.ms", lock.as_str()),
        ("share.delivery.count.limit", "5"),
    ];
    stage.admin.alter_group(&stage.group(), &group).await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(service.receiver.url("/orders"));
    connector["http.request.timeout.ms"] = json!("600000");
    connector["share.delivery.timeout.ms"] = json!("4000");
    connector["errors.retry.delay.max.ms"] = json!("2000");
    connector["max.put.records"] = json!("10");
    connector["errors.tolerance"] = json!("all");
    connector["share.max.in.flight.records"] = json!(outage.window.to_string());
    if let Some(timeout) = outage.retry_timeout_ms {
        connector["errors.retry.timeout"] = json!(timeout);
    }
    stage.worker(&connector)
}

async fn nothing_is_lost_in(outage: Outage) -> Result<()> {
    let stage = Stage::set(outage.stem, PARTITIONS).await?;
    let service = Service::up().await?;
    let worker = start(&stage, &outage, &service).await?;
    let api = Api::of(&worker).await?;
    let load = Load::start(&stage, PARTITIONS, outage.per_second);
    let some = |status: &Value| status["accepted"].as_u64() > Some(100);
    wait_for_status(&worker, "it delivers", PATIENCE, some).await?;

    service.answers(outage.reply.clone());
    let is_down = |status: &Value| {
        let cause = status["outage"].as_str();
        cause.is_some_and(|it| it.contains(outage.words))
    };
    let down = wait_for_status(&worker, "the outage shows", PATIENCE, is_down).await?;
    let (_, health) = api.get("/health").await?;
    let told = &health["sluice"]["connectors"][&stage.name];
    ensure!(told["health"] == "bad", "{health}");
    sleep_until(Instant::now() + 10 * LOCK).await;
    let later = |status: &Value| status["outage_ms"].as_u64() > Some(15_000);
    let status = wait_for_status(&worker, "it lasts", PATIENCE, later).await?;
    let number = |status: &Value, name: &str| status[name].as_u64().context(name.to_owned());
    let after = number(&status, "in_flight")?;
    let most = outage.window + BATCHES;
    ensure!(after <= most, "{after} in flight, of at most {most}");
    let sent = load.sent() as u64;
    ensure!(most < sent / 2, "{sent} would be no more than the window");
    for name in ["released", "rejected", "lost"] {
        let (before, after) = (number(&down, name)?, number(&status, name)?);
        ensure!(before == after, "{before} {name}, then {after}: {status}");
    }
    let released = number(&status, "released")?;
    ensure!(released <= outage.released, "{status}");
    ensure!(number(&status, "redelivered")? <= released, "{status}");

    service.answers(Reply::ok());
    let records = service.takes_all(load, &stage, PATIENCE).await?;
    let settled = |status: &Value| status["accepted"] == records && status["outage"] == "";
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, settled).await?;
    for none in ["rejected", "lost", "unknown"] {
        ensure!(status[none] == 0, "{none} in {status}");
    }
    api.wait_for("/health", PATIENCE, |code, _| code == StatusCode::OK)
        .await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}

/// They fail by themselves, and the service is well: so many look like an outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_record_behind_hundreds_that_fail_is_delivered_soon() -> Result<()> {
    const BAD: usize = 300;
    const GOOD: usize = 20;
    let stage = Stage::set("hundreds-fail", 1).await?;
    let records = json_records(BAD + GOOD, 1, 100);
    // The broker gives out whole batches.
    let small = &[("batch.num.messages", "1")];
    produce_with(stage.kafka.bootstrap_servers(), &stage.name, records, small).await?;
    let all: Vec<String> = ids(BAD + GOOD).collect();
    let (bad, good) = all.split_at(BAD);
    let is_mended = Arc::new(AtomicBool::new(false));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (fail, until, takes) = (bad.to_vec(), Arc::clone(&is_mended), Arc::clone(&taken));
    let receiver = Receiver::start(move |arrival| {
        let text = arrival.text();
        let fails = fail.iter().any(|id| text.contains(id.as_str()));
        if fails && !until.load(Ordering::SeqCst) {
            return Reply::status(502);
        }
        takes.lock().push(arrival.body.clone());
        Reply::ok()
    })
    .await?;
    let mut connector = stage.connector("http", TASKS);
    connector["http.url"] = json!(receiver.url("/orders"));
    connector["errors.retry.delay.max.ms"] = json!("2000");
    connector["max.put.records"] = json!("10");
    let worker = stage.worker(&connector)?;
    let is_down = |status: &Value| {
        let cause = status["outage"].as_str();
        cause.is_some_and(|it| it.contains("failed in a row"))
    };
    wait_for_status(&worker, "an outage", PATIENCE, is_down).await?;
    // One by one it would be ten minutes.
    let others = |status: &Value| status["accepted"] == good.len();
    wait_for_status(&worker, "all good ones", PATIENCE, others).await?;
    ensure!(taken.lock().len() == good.len(), "the good ones alone");

    is_mended.store(true, Ordering::SeqCst);
    let settled = |status: &Value| status["accepted"] == all.len();
    let status = wait_for_status(&worker, "all are accepted", PATIENCE, settled).await?;
    for none in ["released", "rejected", "lost", "redelivered"] {
        ensure!(status[none] == 0, "{none} in {status}");
    }
    let bodies = taken.lock().clone();
    let tally = Tally::from_json_values(bodies.iter().map(|body| &**body), "/id");
    tally.exactly_once(all)?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
