//! Three workers under load, into sinks of different kinds, struck by a schedule:
//! kill -9, SIGTERM, frozen for longer than their locks, tasks restarted,
//! connections cut, brokers killed and stopped, the group's settings changed;
//! the sink away for a while, slow, silent, failing and panicking, its file taken
//! away. Nothing may be lost, put aside against the plan, or delivered again
//! without a cause, and no worker may take more than its share.
//!
//! `SLUICE_CHAOS_SEED` runs a schedule again. `SLUICE_CHAOS_SINKS` names other
//! sinks than the seed does: `http`, or one for each worker, `http,file,file`.

mod broker_books;
mod cast;
mod cluster;
mod connectors;
mod deed;
mod duplicates;
mod endpoint;
mod fate;
mod footprint;
mod life;
mod mood;
mod run;
mod schedule;
mod setting;
mod topics;
mod verdict;
mod worn;

use std::time::Duration;

use anyhow::{Context, Result};
use setting::Setting;

/// The form of every CI run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_strikes() -> Result<()> {
    let seed = number("SLUICE_CHAOS_SEED")?.unwrap_or(1);
    run::run(&setting(seed, Duration::from_secs(105), 1)?).await
}

/// By `./test chaos`, with three brokers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes"]
async fn nothing_is_lost_whatever_strikes_for_minutes() -> Result<()> {
    let seed = number("SLUICE_CHAOS_SEED")?.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let length = Duration::from_secs(60 * minutes()?);
    run::run(&setting(seed, length, 3)?).await
}

fn setting(seed: u64, length: Duration, nodes: usize) -> Result<Setting> {
    let setting = Setting::of(seed, length, nodes);
    match text("SLUICE_CHAOS_SINKS")? {
        Some(names) => setting.into_sinks(&names).context("SLUICE_CHAOS_SINKS"),
        None => Ok(setting),
    }
}

/// How long the long forms take.
pub fn minutes() -> Result<u64> {
    Ok(number("SLUICE_CHAOS_MINUTES")?.unwrap_or(10))
}

fn number(variable: &str) -> Result<Option<u64>> {
    let Some(text) = text(variable)? else {
        return Ok(None);
    };
    let number = text.parse().ok();
    let number = number.with_context(|| format!("{variable}={text:?} is no number"))?;
    Ok(Some(number))
}

fn text(variable: &str) -> Result<Option<String>> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let text = value.into_string();
    let text = text.map_err(|value| anyhow::anyhow!("{variable}={value:?} is no text"))?;
    Ok(Some(text))
}
