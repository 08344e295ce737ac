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

/// A file of deliveries, and how it grew.
struct Told {
    file: PathBuf,
    looks: Vec<Look>,
}

pub struct Life {
    pub worker: Worker,
    told: Told,
    /// Files that were taken away, as they were then: what the worker wrote
    /// after that was delivered to nobody.
    taken: Vec<Told>,
    /// Resident bytes over time.
    memory: Vec<(Duration, u64)>,
}

impl Life {
    pub fn begin(options: &WorkerOptions, file: PathBuf) -> Result<Self> {
        Ok(Self {
            worker: Worker::start(options)?,
            told: Told::new(file),
            taken: Vec::new(),
            memory: Vec::new(),
        })
    }

    pub fn lives(&self) -> Result<bool> {
        Ok(self.worker.exit_status()?.is_none())
    }

    /// Bytes of deliveries so far.
    pub fn delivered(&self) -> u64 {
        let taken = self.taken.iter().filter_map(|told| told.looks.last());
        taken.map(|look| look.bytes).sum::<u64>() + self.told.bytes()
    }

    /// Notes how far the file is, and what the worker takes.
    pub fn look(&mut self, now: impl Fn() -> Duration) {
        self.told.look(&now, Told::bytes);
        let bytes = self.resident_bytes();
        self.memory.extend(bytes.map(|bytes| (now(), bytes)));
    }

    /// Deletes the worker's file, and leaves in its place what nobody can open;
    /// false as long as there is no file.
    pub fn take_file(&mut self, now: impl Fn() -> Duration) -> Result<bool> {
        let taken = self.told.take(self.taken.len(), now)?;
        let is_taken = taken.is_some();
        self.taken.extend(taken);
        Ok(is_taken)
    }

    /// Lets the worker have a file there again.
    pub fn give_file_back(&self) -> Result<()> {
        Ok(std::fs::remove_file(&self.told.file)?)
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

    /// Adds each line of the files by its id.
    pub fn add_deliveries(
        &self,
        worker: usize,
        deliveries: &mut BTreeMap<String, Vec<Delivery>>,
    ) -> Result<()> {
        for told in self.taken.iter().chain([&self.told]) {
            if !told.file.exists() {
                continue;
            }
            for (id, (from, until)) in seen(&read(&told.file)?, &told.looks)? {
                let delivery = Delivery {
                    worker,
                    from,
                    until,
                };
                deliveries.entry(id).or_default().push(delivery);
            }
        }
        Ok(())
    }
}

impl Told {
    const fn new(file: PathBuf) -> Self {
        Self {
            file,
            looks: Vec::new(),
        }
    }

    /// Since a flush looks for the file after it has synced, what was flushed
    /// by then is in the copy that is kept.
    fn take(&mut self, number: usize, now: impl Fn() -> Duration) -> Result<Option<Self>> {
        let path = self.file.clone();
        let Ok(file) = File::open(&path) else {
            return Ok(None);
        };
        let to_itself = path.with_extension(format!("link-{number}"));
        std::os::unix::fs::symlink(&path, &to_itself)?;
        std::fs::rename(&to_itself, &path)?;
        let length = file.metadata()?.len();
        let copy = path.with_extension(format!("taken-{number}"));
        std::io::copy(&mut file.take(length), &mut File::create(&copy)?)?;
        let mut taken = std::mem::replace(self, Self::new(path));
        taken.look(&now, |_| length);
        taken.file = copy;
        Ok(Some(taken))
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |file| file.len())
    }

    fn look(&mut self, now: impl Fn() -> Duration, bytes: impl FnOnce(&Self) -> u64) {
        let before = now();
        let bytes = bytes(self);
        let after = now();
        // Of looks that saw the same, the last one tells when it grew.
        match self.looks.last_mut() {
            Some(last) if last.bytes == bytes => last.before = before,
            _ => self.looks.push(Look {
                before,
                after,
                bytes,
            }),
        }
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
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

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
    fn what_is_written_to_a_file_that_was_taken_is_not_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Told::new(folder.path().join("0-0.txt"));
        let now = || Duration::from_millis(5);
        assert!(told.take(0, now).unwrap().is_none(), "there is no file");
        let mut writer = File::create(&told.file).unwrap();
        writer.write_all(b"{\"id\":\"a\"}\n").unwrap();
        let taken = told.take(0, now).unwrap().unwrap();
        writer.write_all(b"{\"id\":\"b\"}\n").unwrap();
        let seen = seen(&read(&taken.file).unwrap(), &taken.looks).unwrap();
        let ids: Vec<_> = seen.iter().map(|(id, _)| &**id).collect();
        assert_eq!(ids, ["a"]);
        File::create(&told.file).unwrap_err();
        assert_eq!(told.bytes(), 0);
        assert_eq!(writer.metadata().unwrap().nlink(), 0, "it was deleted");
        std::fs::remove_file(&told.file).unwrap();
        File::create(&told.file).unwrap();
    }

    #[test]
    fn a_line_that_nobody_saw_come_is_an_error() {
        seen(b"{\"id\":\"a\"}\n", &[look(10, 0)]).unwrap_err();
    }
}
