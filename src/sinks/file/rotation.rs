//! When a file is complete, and what it is called then.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use tokio::time::Instant;

/// How large and how old a file may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) bytes: Option<u64>,
    pub(super) age: Option<Duration>,
}

impl Limits {
    pub(super) const fn any(&self) -> bool {
        self.bytes.is_some() || self.age.is_some()
    }
}

/// What a file holds, against the limits.
#[derive(Debug)]
pub(super) struct Rotation {
    limits: Limits,
    size: u64,
    /// When its first line came. A file without lines never grows old.
    begun: Option<Instant>,
}

impl Rotation {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            size: 0,
            begun: None,
        }
    }

    pub(super) const fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn wrote(&mut self, bytes: u64, now: Instant) {
        self.size += bytes;
        self.begun.get_or_insert(now);
    }

    pub(super) fn begin_anew(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Whether the file is complete before so many bytes are added.
    pub(super) fn is_due(&self, adding: u64, now: Instant) -> bool {
        let large = self
            .limits
            .bytes
            .is_some_and(|limit| self.size + adding > limit);
        let old = self.deadline().is_some_and(|deadline| deadline <= now);
        self.begun.is_some() && (large || old)
    }

    /// When the file will be too old.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.begun? + self.limits.age?)
    }
}

/// What a complete file is called: names sort by time.
pub(super) fn rotated_name(path: &Path, now: SystemTime, sequence: u32) -> PathBuf {
    let utc = OffsetDateTime::from(now);
    let (date, time) = (utc.date(), utc.time());
    let mut name = OsString::from(path);
    name.push(format!(
        ".{:04}{:02}{:02}T{:02}{:02}{:02}Z-{sequence:06}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second(),
    ));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(bytes: Option<u64>, millis: Option<u64>) -> Limits {
        Limits {
            bytes,
            age: millis.map(Duration::from_millis),
        }
    }

    #[test]
    fn file_is_complete_before_it_grows_too_large() {
        let now = Instant::now();
        let mut rotation = Rotation::new(limits(Some(100), None));
        assert!(!rotation.is_due(500, now), "an empty file takes any put");
        rotation.wrote(60, now);
        assert!(!rotation.is_due(40, now));
        assert!(rotation.is_due(41, now));
    }

    #[test]
    fn age_counts_from_the_first_line() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut rotation = Rotation::new(limits(None, Some(100)));
        assert_eq!(rotation.deadline(), None);
        assert!(!rotation.is_due(0, after(1_000)));
        rotation.wrote(1, after(1_000));
        rotation.wrote(1, after(1_050));
        assert_eq!(rotation.deadline(), Some(after(1_100)));
        assert!(!rotation.is_due(0, after(1_099)));
        assert!(rotation.is_due(0, after(1_100)));
        rotation.begin_anew();
        assert!(!rotation.is_due(0, after(9_000)));
    }

    #[test]
    fn without_limits_a_file_is_never_complete() {
        let now = Instant::now();
        let mut rotation = Rotation::new(limits(None, None));
        rotation.wrote(u64::from(u32::MAX), now);
        assert!(!rotation.is_due(1, now + Duration::from_secs(1_000_000)));
    }

    #[test]
    fn name_has_time_and_sequence() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_764_479_045);
        let name = rotated_name(Path::new("/data/out.log"), time, 7);
        assert_eq!(name, Path::new("/data/out.log.20251130T050405Z-000007"));
    }
}
