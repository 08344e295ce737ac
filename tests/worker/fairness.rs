//! Workers of one group do not slow each other down.

use std::time::Duration;

use anyhow::Result;
use sluice_test_support::produce::{json_records, produce};

use crate::crew::{Member, delivery_rate};
use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_worker_takes_nothing_from_a_fast_one_on_the_same_partitions() -> Result<()> {
    let stage = Stage::set("fair", 12).await?;
    let backlog = json_records(60_000, 12, 100);
    produce(stage.kafka.bootstrap_servers(), &stage.name, backlog).await?;
    let fast = Member::forgetting(&stage, "fast", &[("record.latency.us", "1000")]).await?;
    let warm = |delivered| delivered > 4000;
    let patience = Duration::from_secs(30);
    fast.wait_for("delivered", patience, warm).await?;
    let alone = delivery_rate(&fast.worker, &stage.name, 12_000).await?;

    let slow = Member::forgetting(&stage, "slow", &[("record.latency.us", "10000")]).await?;
    slow.wait_for("delivered", patience, |n| n > 0).await?;
    // If that one hoarded, the fast one would live for a while on what it has.
    delivery_rate(&fast.worker, &stage.name, 4000).await?;
    let before = slow.count("delivered")?;
    let beside = delivery_rate(&fast.worker, &stage.name, 12_000).await?;
    let slow_one_did = slow.count("delivered")? - before;
    assert!(
        beside > 0.9 * alone,
        "{alone:.0}/s alone, {beside:.0}/s beside a slow one"
    );
    assert!(slow_one_did > 0);
    assert!(fast.count("in_flight")? > 0, "the load was over");
    Ok(())
}
