//! A log that is compacted after it was read.

use anyhow::{Result, ensure};
use serde_json::Value;
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::{NewRecord, ids, json_records, produce};
use sluice_test_support::wait::eventually;

use super::case::PATIENCE;
use super::site::Site;
use crate::crew::Member;
use crate::stage::{Stage, wait_for_status};

/// As many records as there are keys, each a version newer than the last ones.
fn version(number: usize) -> impl Iterator<Item = NewRecord> + Send + 'static {
    const KEYS: usize = 100;
    json_records((number + 1) * KEYS, 1, 100)
        .skip(number * KEYS)
        .zip(0..KEYS)
        .map(|(record, key)| record.key(format!("key-{key}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_were_compacted_away_after_they_had_been_given_back_are_no_hole() -> Result<()>
{
    let site = Site::alone().await?;
    let stage = Stage::on(site.kafka, "compacted", 1, 1).await?;
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    stage.admin.alter_topic(&stage.name, &settings).await?;
    let servers = stage.kafka.bootstrap_servers();
    produce(servers, &stage.name, version(0)).await?;
    // The broker keeps in mind what it gave out.
    let hoarder = Member::forgetting(&stage, "hoarder", &[("latency.ms", "600000")]).await?;
    hoarder.wait_for("in_flight", PATIENCE, |n| n > 0).await?;
    hoarder.worker.kill()?;

    let mut versions = 1;
    eventually(
        "the first version is compacted away",
        PATIENCE,
        async || {
            // Each rolls the segment before, which can be cleaned then.
            produce(servers, &stage.name, version(versions)).await?;
            versions += 1;
            let left = read_topic(servers, &stage.name).await?;
            let old = left.iter().filter(|record| record.offset < 100).count();
            ensure!(old == 0, "{old} are left");
            Ok::<_, anyhow::Error>(())
        },
    )
    .await?;
    let worker = stage.worker(&stage.to_null(2))?;
    stage.wait_until_consumed(PATIENCE).await?;
    let settled = |status: &Value| status["in_flight"] == 0 && status["trouble"] == "";
    wait_for_status(&worker, "all is settled", PATIENCE, settled).await?;
    let newest = ids(versions * 100).skip((versions - 1) * 100);
    let missing = Tally::from_json_lines(&stage.file(), "/id")?.missing(newest);
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    Ok(())
}
