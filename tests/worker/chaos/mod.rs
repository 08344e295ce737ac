//! Three workers under load, into sinks of different kinds, struck by a schedule:
//! kill -9, SIGTERM, frozen for longer than their locks, tasks restarted,
//! connections cut, brokers killed and stopped, the sink away for a while, slow,
//! failing and panicking. Nothing may be lost, put aside against the plan, or
//! delivered again without a cause, and no worker may take more than its share.
//!
//! `SLUICE_CHAOS_SEED` runs a schedule again.

mod broker_books;
mod cast;
mod cluster;
mod connectors;
mod duplicates;
mod endpoint;
mod fate;
mod footprint;
mod life;
mod run;
mod schedule;
mod topics;
mod verdict;

use std::time::Duration;

use anyhow::{Context, Result};
use connectors::Setting;
use connectors::SinkKind::{File, Http, Null};

/// What becomes of records that the sink refuses for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutAside {
    /// They are rejected, and so archived by the broker.
    Rejected,
    /// They get dead letters of the worker's, and the broker archives nothing.
    Letters,
}

/// The form of every CI run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_strikes() -> Result<()> {
    let seed = number("SLUICE_CHAOS_SEED")?.unwrap_or(1);
    let setting = Setting {
        seed,
        length: Duration::from_secs(105),
        nodes: 1,
        put_aside: PutAside::Letters,
        sinks: [Null, Http, Null],
        parking: parking(seed),
    };
    run::run(&setting).await
}

/// By `./test chaos`, with three brokers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn nothing_is_lost_whatever_strikes_for_minutes() -> Result<()> {
    let seed = number("SLUICE_CHAOS_SEED")?.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let setting = Setting {
        seed,
        length: Duration::from_secs(60 * minutes()?),
        nodes: 3,
        put_aside: match seed % 4 {
            0 => PutAside::Rejected,
            _ => PutAside::Letters,
        },
        sinks: [File, Http, Null],
        parking: parking(seed),
    };
    run::run(&setting).await
}

/// Whether records are parked that fail for a while at the endpoint.
const fn parking(seed: u64) -> bool {
    !seed.is_multiple_of(3)
}

/// How long the long forms take.
pub fn minutes() -> Result<u64> {
    Ok(number("SLUICE_CHAOS_MINUTES")?.unwrap_or(10))
}

fn number(variable: &str) -> Result<Option<u64>> {
    let Some(text) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    let number = number.with_context(|| format!("{variable}={text:?} is no number"))?;
    Ok(Some(number))
}
