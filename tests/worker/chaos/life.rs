//! One life of a worker, from its start to its end, and what can be seen of it
//! from outside: its file of delivered records, its log, its memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::worker::{Worker, WorkerOptions};

use super::footprint::Credit;
use super::verdict::Delivery;
use crate::history::{number, statuses};

/// The newest status line is in the last of so many bytes of the log.
const LOG_TAIL: u64 = 16 * 1024;

/// The length of the file of deliveries at a time.
#[derive(Clone, Copy, Debug)]
struct Look {
    before: Duration,
    after: Duration,
    bytes: u64,
}

pub struct Life {
    pub worker: Worker,
    file: PathBuf,
    looks: Vec<Look>,
    /// Resident bytes over time.
    memory: Vec<(Duration, u64)>,
}

impl Life {
    pub fn begin(options: &WorkerOptions, file: PathBuf) -> Result<Self> {
        Ok(Self {
            worker: Worker::start(options)?,
            file,
            looks: Vec::new(),
            memory: Vec::new(),
        })
    }

    pub fn lives(&self) -> Result<bool> {
        Ok(self.worker.exit_status()?.is_none())
    }

    /// Bytes of deliveries so far.
    pub fn delivered(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |file| file.len())
    }

    /// Notes how far the file is, and what the worker takes.
    pub fn look(&mut self, now: impl Fn() -> Duration) {
        let before = now();
        let bytes = self.delivered();
        let look = Look {
            before,
            after: now(),
            bytes,
        };
        // Of looks that saw the same, the last one tells when it grew.
        match self.looks.last_mut() {
            Some(last) if last.bytes == bytes => last.before = before,
            _ => self.looks.push(look),
        }
        let bytes = self.resident_bytes();
        self.memory.extend(bytes.map(|bytes| (before, bytes)));
    }

    /// None once the worker has ended.
    fn resident_bytes(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.worker.pid()));
        let status = status.ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kilobytes * 1024)
    }

    pub fn memory(&self) -> &[(Duration, u64)] {
        &self.memory
    }

    /// The newest status line, once there is one. It does not read the whole
    /// log, which is long.
    pub fn status(&self) -> Result<Option<Value>> {
        let mut log = File::open(self.log())?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
        let mut tail = Vec::new();
        log.read_to_end(&mut tail)?;
        let lines = tail.split(|byte| *byte == b'\n').rev();
        let mut lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        Ok(lines.find(|line| line["message"] == "status"))
    }

    pub fn log(&self) -> PathBuf {
        self.worker.folder().join("stderr")
    }

    /// What all status lines told.
    pub fn credit(&self) -> Result<Vec<Credit>> {
        let mut credit = Vec::new();
        for line in statuses(&self.worker)? {
            credit.push(Credit {
                in_flight: number(&line, "in_flight")?,
                window: number(&line, "window")?,
            });
        }
        Ok(credit)
    }

    /// Adds each line of the file by its id.
    pub fn add_deliveries(
        &self,
        worker: usize,
        deliveries: &mut BTreeMap<String, Vec<Delivery>>,
    ) -> Result<()> {
        if !self.file.exists() {
            return Ok(());
        }
        for (id, look) in seen(&read(&self.file)?, &self.looks)? {
            let (from, until) = look;
            let delivery = Delivery {
                worker,
                from,
                until,
            };
            deliveries.entry(id).or_default().push(delivery);
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The ids of whole lines, with the time between the looks before and after
/// each.
fn seen(file: &[u8], looks: &[Look]) -> Result<Vec<(String, (Duration, Duration))>> {
    let mut seen = Vec::new();
    let (mut end, mut looks, mut from) = (0, looks.iter().peekable(), Duration::ZERO);
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        end += line.len() as u64;
        while let Some(look) = looks.next_if(|look| look.bytes < end) {
            from = look.before;
        }
        let until = looks.peek().map(|look| look.after);
        let until = until.context("nobody looked after the last delivery")?;
        let Some(line) = line.strip_suffix(b"\n") else {
            continue;
        };
        let value: Value = serde_json::from_slice(line)?;
        let id = value["id"].as_str();
        let id = id.with_context(|| format!("a delivery without id: {value}"))?;
        ensure!(from <= until, "time ran backwards at {id}");
        seen.push((id.to_owned(), (from, until)));
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn look(before: u64, bytes: u64) -> Look {
        Look {
            before: Duration::from_millis(before),
            after: Duration::from_millis(before + 1),
            bytes,
        }
    }

    #[test]
    fn a_line_was_written_between_the_looks_that_missed_and_saw_it() {
        let line = "{\"id\":\"a\"}\n";
        let bytes = line.len() as u64;
        let file = format!("{line}{line}{{\"id\":");
        let looks = [look(10, 0), look(20, bytes), look(30, 2 * bytes + 6)];
        let seen = seen(file.as_bytes(), &looks).unwrap();
        let ms = Duration::from_millis;
        let times: Vec<_> = seen.into_iter().map(|(_, times)| times).collect();
        assert_eq!(times, [(ms(10), ms(21)), (ms(20), ms(31))]);
    }

    #[test]
    fn a_line_that_nobody_saw_come_is_an_error() {
        seen(b"{\"id\":\"a\"}\n", &[look(10, 0)]).unwrap_err();
    }
}
