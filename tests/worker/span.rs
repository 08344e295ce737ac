//! The span law: one open record at the head of a partition lets only so many
//! offsets behind it be in flight or done.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_test_support::produce::{json_records, produce_with};

use crate::history::{number, seconds_between, statuses};
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 20_000;
const BATCH: u64 = 100;
const HOLD: Duration = Duration::from_secs(5);

struct Seen {
    /// Accepted while the first record was open.
    during: u64,
    /// Accepted a second while it was open, and after it.
    rate_during: f64,
    rate_after: f64,
    /// The widest span shown.
    span: u64,
}

/// One partition, whose first record takes `HOLD`.
async fn hold_the_first_record(stem: &str, locks: Option<u64>) -> Result<Seen> {
    let stage = Stage::set(stem, 1).await?;
    let records = json_records(RECORDS, 1, 100);
    let servers = stage.kafka.bootstrap_servers();
    // The broker looks at the span before it gives out a batch, not inside it.
    let batches = ("batch.num.messages", &*BATCH.to_string());
    produce_with(servers, &stage.name, records, &[batches]).await?;
    let mut connector = stage.connector("null", 4);
    connector["slow.match"] = json!("offset=0");
    connector["slow.ms"] = json!(HOLD.as_millis().to_string());
    if let Some(locks) = locks {
        connector["share.partition.max.record.locks"] = json!(locks.to_string());
    }
    let worker = stage.worker(&connector)?;
    let all = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, "all are accepted", MINUTE, all).await?;

    let history = statuses(&worker)?;
    let pinned_by = format!("{}-0@0", stage.name);
    let pinned: Vec<&Value> = history
        .iter()
        .filter(|line| line["pinned_by"] == pinned_by)
        .collect();
    let first = pinned.first().context("no line names the pinning offset")?;
    let last = pinned.last().context("no line names the pinning offset")?;
    let end = history.iter().find(|line| all(line)).context("no end")?;
    let during = number(last, "accepted")?;
    let mut spans = pinned.iter().map(|line| number(line, "span"));
    let span = spans.try_fold(0, |widest, span| Ok::<_, anyhow::Error>(span?.max(widest)))?;
    assert!(number(last, "pinned_ms")? >= 4_000, "{last}");
    let after = (RECORDS as u64 - during) as f64;
    let seen = Seen {
        during,
        rate_during: during as f64 / seconds_between(first, last)?,
        rate_after: after / seconds_between(last, end)?,
        span,
    };
    eprintln!(
        "locks {locks:?}: {} records in the hold, {:.0} a second; {:.0} a second after it; span {}",
        seen.during, seen.rate_during, seen.rate_after, seen.span
    );
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_record_stops_its_partition_at_the_span_and_is_named() -> Result<()> {
    let narrow = hold_the_first_record("narrow", None).await?;
    let wide = hold_the_first_record("wide", Some(4000)).await?;
    for (seen, locks) in [(&narrow, 2000), (&wide, 4000)] {
        let bounds = locks * 9 / 10..=locks + BATCH;
        assert!(bounds.contains(&seen.during), "{} of {locks}", seen.during);
        assert!(bounds.contains(&seen.span), "{} of {locks}", seen.span);
        assert!(
            seen.rate_after > 2.0 * seen.rate_during,
            "{} and {}",
            seen.rate_after,
            seen.rate_during
        );
    }
    // Twice the span, and so about twice the records in the same hold.
    let (narrow, wide) = (narrow.rate_during, wide.rate_during);
    assert!(wide > 1.5 * narrow, "{wide} and {narrow} a second");
    Ok(())
}
