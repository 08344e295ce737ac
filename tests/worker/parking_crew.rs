//! Workers that share a parking topic: what one of them held until it was due is
//! taken by the other when that one is killed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::produce::ids;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::history::number;
use crate::parking::{Endpoint, Others, fill, id, is_failing, parked_of, parking};
use crate::stage::{Stage, status, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
/// Every third one fails.
const COUNT: usize = 60;
const FAILING: u64 = COUNT as u64 / 3;
/// Many times what it takes to find out who holds what.
const BACKOFF: Duration = Duration::from_secs(20);
/// Headers have whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(10);

struct Pair([Worker; 2]);

impl Pair {
    async fn start(stage: &Stage, connector: &Value) -> Result<Self> {
        let pair = Self([stage.worker(connector)?, stage.worker(connector)?]);
        for worker in &pair.0 {
            let running = |status: &Value| status["state"] == "RUNNING";
            wait_for_status(worker, "it runs", MINUTE, running).await?;
        }
        Ok(pair)
    }

    fn counts(&self, field: &str) -> Result<Vec<u64>> {
        let counts = self.0.iter().map(|it| number(&status(it)?, field));
        counts.collect()
    }

    async fn wait_for_sum(&self, field: &str, wanted: u64) -> Result<()> {
        eventually(field, 2 * MINUTE, async || {
            let counts = self.counts(field)?;
            ensure!(counts.iter().sum::<u64>() >= wanted, "{counts:?}");
            Ok(())
        })
        .await
    }

    /// Waits until one of them holds records while all others are done; returns
    /// that one, the other, and how many it holds.
    async fn holder(self) -> Result<(Worker, Worker, u64)> {
        let held = eventually("one holds parked records", MINUTE, async || {
            let held = self.counts("in_flight")?;
            ensure!(held.iter().any(|records| *records > 0), "none does");
            Ok(held)
        })
        .await?;
        let [one, other] = self.0;
        Ok(match held[0] >= held[1] {
            true => (one, other, held[0]),
            false => (other, one, held[1]),
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_worker_held_until_it_was_due_is_delivered_once_by_the_other() -> Result<()> {
    let stage = Stage::set("parked-crew", 1).await?;
    let endpoint = Endpoint::start(is_failing).await?;
    let mut connector = parking(&stage, &endpoint);
    connector["share.park.after.ms"] = json!("0");
    connector["share.park.backoff.ms"] = json!(BACKOFF.as_millis().to_string());
    let pair = Pair::start(&stage, &connector).await?;
    fill(&stage, COUNT).await?;
    let others = Others::start(&stage);
    pair.wait_for_sum("parked", FAILING).await?;
    let rest = COUNT as u64 - FAILING + others.stop().await? as u64;
    pair.wait_for_sum("accepted", rest).await?;
    // What is in flight from here on waits for its time.
    let (victim, survivor, held) = pair.holder().await?;
    victim.kill()?;
    endpoint.mend();
    let parked = parked_of(&stage);
    let admin = &stage.admin;
    admin
        .wait_until_consumed(&parked, &parked, 2 * MINUTE)
        .await?;
    endpoint.taken().exactly_once(ids(COUNT))?;
    stage.wait_until_consumed(MINUTE).await?;
    // At most as often as they failed.
    let tries = tries(&endpoint);
    let copies = admin.end_offsets(&parked).await?[&0] as u64;
    assert!(
        (FAILING..=tries - FAILING).contains(&copies),
        "{copies} copies after {tries} tries"
    );
    check_names_and_times(&stage, &endpoint)?;
    let idle = |status: &Value| status["in_flight"] == 0;
    let status = wait_for_status(&survivor, "nothing is left", MINUTE, idle).await?;
    let redelivered = number(&status, "redelivered")?;
    // One attempt of each that the dead one held, and none is archived.
    assert!(
        redelivered > 0 && (held..=FAILING).contains(&redelivered),
        "{redelivered} came again, {held} were held: {status}"
    );
    for field in ["rejected", "released", "lost"] {
        assert_eq!(status[field], 0, "{field} of {status}");
    }
    assert_eq!(survivor.stop(MINUTE).await?.code(), Some(0));
    Ok(())
}

/// How often those came that fail at first.
fn tries(endpoint: &Endpoint) -> u64 {
    let arrivals = endpoint.receiver.arrivals();
    arrivals.iter().filter(|it| is_failing(id(it))).count() as u64
}

/// Each that failed came by its first name, and its last try not before it was
/// due.
fn check_names_and_times(stage: &Stage, endpoint: &Endpoint) -> Result<()> {
    let arrivals = endpoint.receiver.arrivals();
    for (offset, name) in ids(COUNT).enumerate().filter(|(_, id)| is_failing(id)) {
        let tries: Vec<_> = arrivals.iter().filter(|it| id(it) == name).collect();
        let [.., failed, taken] = tries[..] else {
            anyhow::bail!("{name} was tried {} times", tries.len());
        };
        let waited = taken.at - failed.at;
        ensure!(waited + ROUNDING >= BACKOFF, "{name} waited {waited:?}");
        let key = taken.header("idempotency-key").context("no key")?;
        assert_eq!(key, format!("{}-0-{offset}", stage.name));
        let value: Value = serde_json::from_slice(&taken.body)?;
        let origin = ["topic", "partition", "offset"].map(|field| value[field].clone());
        assert_eq!(
            origin,
            [json!(stage.name), json!(0), json!(offset)],
            "{value}"
        );
    }
    Ok(())
}
