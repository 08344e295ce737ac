//! Workers of one group do not slow each other down.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::produce::{json_records, produce};

use crate::crew::{Member, delivery_rate};
use crate::stage::Stage;

const PARTITIONS: i32 = 12;
const PATIENCE: Duration = Duration::from_secs(60);
/// What a record takes: by far the most of the work, on any machine.
const QUICK: (&str, &str) = ("record.latency.us", "2000");
const SLOW: (&str, &str) = ("record.latency.us", "20000");

/// A fast worker at work on a topic of its own.
async fn fast_one(stem: &str) -> Result<(Stage, Member)> {
    let stage = Stage::set(stem, PARTITIONS).await?;
    let backlog = json_records(60_000, PARTITIONS, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, backlog).await?;
    let fast = Member::forgetting(&stage, "fast", &[QUICK]).await?;
    let warm = |delivered| delivered > 4000;
    fast.wait_for("delivered", PATIENCE, warm).await?;
    Ok((stage, fast))
}

/// Both rates are of the same time, so that whatever else the machine does slows
/// down both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_worker_takes_nothing_from_a_fast_one_on_the_same_partitions() -> Result<()> {
    let ((alone, one), (stage, other)) = tokio::try_join!(fast_one("alone"), fast_one("beside"))?;
    let slow = Member::forgetting(&stage, "slow", &[SLOW]).await?;
    slow.wait_for("delivered", PATIENCE, |n| n > 0).await?;
    // If that one hoarded, the fast one would live for a while on what it has.
    delivery_rate(&other.worker, &stage.name, 4000).await?;
    let before = slow.count("delivered")?;
    let (alone, beside) = tokio::try_join!(
        delivery_rate(&one.worker, &alone.name, 10_000),
        delivery_rate(&other.worker, &stage.name, 10_000)
    )?;
    let slow_one_did = slow.count("delivered")? - before;
    assert!(
        beside > 0.9 * alone,
        "{alone:.0}/s alone, {beside:.0}/s beside a slow one"
    );
    assert!(slow_one_did > 0);
    assert!(one.count("in_flight")? > 0, "the load was over");
    assert!(other.count("in_flight")? > 0, "the load was over");
    Ok(())
}
