//! What a worker's log tells over time, by the clock of the log.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sluice_test_support::worker::Worker;
pub use sluice_test_support::worker_log::{log, seconds_between};

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
