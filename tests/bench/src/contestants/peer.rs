//! Peers: programs that say on standard output what they have taken.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sluice_test_support::process::{Process, Usage};
use sluice_test_support::wait::eventually;
use tempfile::TempDir;

use super::{Measured, Series, rate};

/// A JVM that finds its classes, joins a group and begins.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// A running peer. Dropped, it is killed and its folder is gone.
#[derive(Debug)]
pub struct Peer {
    // Before the folder: fields are dropped in this order.
    process: Process,
    folder: TempDir,
}

impl Peer {
    /// Starts `command`. `files` are written to a folder that it runs in, and
    /// their paths are its last arguments.
    pub fn start(name: &str, mut command: Command, files: &[(&str, String)]) -> Result<Self> {
        let folder = TempDir::with_prefix("sluice-bench-peer-")?;
        command
            .current_dir(folder.path())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?);
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::write(&file, text)?;
            command.arg(file);
        }
        let process = Process::spawn(name, command, folder.path())?;
        Ok(Self { process, folder })
    }

    /// What it says it has taken.
    pub fn taken(&self) -> Result<Series> {
        if let Some(status) = self.process.exit_status()? {
            bail!("a peer ended with {status}: {}", self.said()?);
        }
        let printed = fs::read_to_string(self.folder.path().join("stdout"))?;
        Ok(printed.lines().filter_map(taken).collect())
    }

    fn said(&self) -> Result<String> {
        Ok(fs::read_to_string(self.folder.path().join("stderr"))?)
    }

    /// Waits until it has taken so many.
    pub async fn has_taken(&self, records: u64, within: Duration) -> Result<Series> {
        eventually("a peer takes records", within, async || {
            let taken = self.taken()?;
            let so_far = taken.last().map_or(0, |(_, records)| *records);
            ensure!(so_far >= records, "{so_far} so far; {}", self.said()?);
            Ok(taken)
        })
        .await
    }

    /// Measures it from its first record to its last.
    pub async fn measure(&self, records: usize, within: Duration) -> Result<Measured> {
        self.has_taken(1, BEGINS_WITHIN).await?;
        let begun = self.process.usage()?;
        let taken = self.has_taken(records as u64, within).await?;
        let ended = self.process.usage()?;
        let rate = rate(&taken).context("too few records to tell a rate")?;
        Ok(measured(rate, records, begun, ended))
    }
}

pub fn measured(rate: f64, records: usize, begun: Usage, ended: Usage) -> Measured {
    let cpu = ended.cpu.saturating_sub(begun.cpu);
    Measured {
        rate,
        cpu_micros_per_record: cpu.as_secs_f64() * 1e6 / records as f64,
        peak_rss_mb: ended.peak_rss_bytes as f64 / (1024.0 * 1024.0),
    }
}

/// `taken MILLISECONDS RECORDS`
fn taken(line: &str) -> Option<(f64, u64)> {
    let (milliseconds, records) = line.strip_prefix("taken ")?.split_once(' ')?;
    let milliseconds: f64 = milliseconds.parse().ok()?;
    Some((milliseconds / 1000.0, records.parse().ok()?))
}

/// As `java.util.Properties` reads them; neither side has characters that it
/// would take for something else.
pub fn properties(settings: &[(String, String)]) -> String {
    let lines = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_told_by_lines_of_their_own() {
        assert_eq!(taken("taken 1500 30"), Some((1.5, 30)));
        for other in ["taken soon", "[main] WARN taken 1 2", "taken 1 x"] {
            assert_eq!(taken(other), None, "{other}");
        }
    }

    #[test]
    fn cpu_counts_from_the_first_record_on() {
        let usage = |cpu, peak_rss_bytes| Usage {
            cpu: Duration::from_millis(cpu),
            peak_rss_bytes,
        };
        let measured = measured(5.0, 1000, usage(400, 0), usage(900, 2 << 20));
        assert!((measured.cpu_micros_per_record - 500.0).abs() < 1e-9);
        assert!((measured.peak_rss_mb - 2.0).abs() < 1e-9);
    }
}
