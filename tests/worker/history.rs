//! What a worker's log tells over time, by the clock of the log.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sluice_test_support::worker::Worker;

/// The lines of the log so far, oldest first.
pub fn log(worker: &Worker) -> Result<Vec<Value>> {
    let text = worker.stderr()?;
    // The newest line may be half written.
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

/// The status lines of a worker's only connector, oldest first.
pub fn statuses(worker: &Worker) -> Result<Vec<Value>> {
    let mut lines = log(worker)?;
    lines.retain(|line| line["message"] == "status");
    Ok(lines)
}

/// Lines of one level.
pub fn lines_of<'a>(log: &'a [Value], level: &str) -> Vec<&'a Value> {
    log.iter().filter(|line| line["level"] == level).collect()
}

/// The warning for the only record that was put aside.
pub fn put_aside(log: &[Value]) -> Result<&Value> {
    let told = lines_of(log, "WARN")
        .into_iter()
        .filter(|line| line["message"] == "record put aside");
    match told.collect::<Vec<_>>()[..] {
        [one] => Ok(one),
        ref others => bail!("one warning is wanted, there are {}: {log:?}", others.len()),
    }
}

/// A number of a status line.
pub fn number(line: &Value, field: &str) -> Result<u64> {
    line[field]
        .as_u64()
        .with_context(|| format!("no number {field} in {line}"))
}

/// Seconds from one line to a later one, also over midnight.
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
