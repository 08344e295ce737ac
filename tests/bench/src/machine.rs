//! What the figures depend on besides the programs: machine and versions.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;
use serde_json::json;
use sluice_test_support::java::KAFKA_VERSION;
use sluice_test_support::worker::run_command;
use tokio::process::Command;

use crate::report::Fact;

/// The machine, the programs' versions.
pub async fn facts(binary: &Path) -> Result<Vec<Fact>> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let program = binary.to_string_lossy();
    let sluice = run_command(&program, &["--version"]).await?;
    Ok(vec![
        ("cores", json!(std::thread::available_parallelism()?.get())),
        ("cpu", json!(cpu_model(&read("/proc/cpuinfo")))),
        ("memory_mb", json!(memory_mb(&read("/proc/meminfo")))),
        ("kernel", json!(read("/proc/sys/kernel/osrelease").trim())),
        ("sluice", json!(sluice.trim())),
        ("binary", json!(program)),
        ("kafka", json!(KAFKA_VERSION)),
        ("java", json!(java_version().await?)),
    ])
}

/// Seconds that all processors together were busy so far, with whatever: a
/// machine that is used up spoils what is measured on it.
pub fn busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks = busy_ticks(&stat).context("/proc/stat has another form than expected")?;
    Ok(ticks as f64 / clock_ticks_per_second() as f64)
}

/// All but idling and waiting for disks; what other machines on the same
/// hardware took counts. Behind these are parts of the first ones.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields
        .split_ascii_whitespace()
        .take(8)
        .map_while(|it| it.parse().ok())
        .collect();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(ticks.iter().sum::<u64>() - idle)
}

/// Not every architecture names its model.
fn cpu_model(cpuinfo: &str) -> &str {
    value_of(cpuinfo, "model name").unwrap_or(std::env::consts::ARCH)
}

fn memory_mb(meminfo: &str) -> Option<u64> {
    let kilobytes = value_of(meminfo, "MemTotal")?.split(' ').next()?;
    Some(kilobytes.parse::<u64>().ok()? / 1024)
}

/// Of the first line `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
}

async fn java_version() -> Result<String> {
    let mut command = Command::new("java");
    command.arg("-version").stdin(Stdio::null());
    let output = command.output().await.context("cannot start java")?;
    // There, not on standard output, since the first Java.
    let printed = String::from_utf8_lossy(&output.stderr);
    Ok(printed.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_memory_are_read_by_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast 9000\nprocessor\t: 1\nmodel name\t: x\n";
        assert_eq!(cpu_model(cpuinfo), "Fast 9000");
        let meminfo = "MemTotal:       16384000 kB\nMemFree:         1 kB\n";
        assert_eq!(memory_mb(meminfo), Some(16_000));
    }

    #[test]
    fn a_processor_that_idles_or_waits_for_a_disk_is_not_busy() {
        let stat = "cpu  10 1 20 4000 300 2 3 4 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(40));
        assert_eq!(busy_ticks("intr 1 2 3\n"), None);
    }

    #[test]
    fn an_unnamed_cpu_is_told_by_its_architecture_and_unknown_memory_not_at_all() {
        assert_eq!(cpu_model("processor : 0\n"), std::env::consts::ARCH);
        assert_eq!(memory_mb("MemFree: 1 kB\n"), None);
    }
}
