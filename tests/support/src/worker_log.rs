//! What a worker's log tells, if it logs JSON, by the clock of the log.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::worker::Worker;

/// The lines of the log so far, oldest first.
///
/// # Errors
/// If the log is gone.
pub fn log(worker: &Worker) -> Result<Vec<Value>> {
    let text = worker.stderr()?;
    // The newest line may be half written.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// Seconds from one line to a later one, also over midnight.
///
/// # Errors
/// If one of them has no time.
pub fn seconds_between(earlier: &Value, later: &Value) -> Result<f64> {
    const DAY: f64 = 86_400.0;
    Ok((time_of_day(later)? - time_of_day(earlier)?).rem_euclid(DAY))
}

/// Seconds since midnight.
fn time_of_day(line: &Value) -> Result<f64> {
    let parse = || {
        let (_, time) = line["timestamp"].as_str()?.split_once('T')?;
        let time = time.strip_suffix('Z')?;
        time.split(':')
            .map(|part| part.parse::<f64>().ok())
            .try_fold(0.0, |sum, part| Some(sum * 60.0 + part?))
    };
    parse().with_context(|| format!("no time in {line}"))
}
