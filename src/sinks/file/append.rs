//! Whole lines at the end of a file that others append to as well.
//!
//! One write call appends one put, and `O_APPEND` keeps the writes of all
//! tasks and workers apart without a lock (a lock would stop all of them when
//! its holder is frozen). What is left to care for is a write that breaks off
//! inside a line, as on a full disk: the next line must not be lost to the torn
//! one. Who tore a line knows it and begins on a fresh one. Who did not (the
//! writer is gone, or is another) sees it after the fact, by the byte before
//! its own: to look beforehand would be to see writes that are still growing.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;

const NEWLINE: u8 = b'\n';

/// A file that is only written to at its end.
pub(super) trait Log {
    /// Appends as much as one write call takes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// The byte before the last `written` bytes that this handle appended.
    fn byte_before(&mut self, written: usize) -> io::Result<Option<u8>>;
}

impl Log for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn byte_before(&mut self, written: usize) -> io::Result<Option<u8>> {
        // An appending write leaves the position at the end of what it wrote,
        // wherever that landed.
        let end = self.stream_position()?;
        let Some(before) = end.checked_sub(written as u64 + 1) else {
            return Ok(None);
        };
        let mut byte = [0];
        // Nothing is read where the file was cut by someone else.
        let read = self.read_at(&mut byte, before)?;
        Ok((read == 1).then_some(byte[0]))
    }
}

/// The end of a log, and whether we tore a line there.
#[derive(Debug)]
pub(super) struct LineLog<L> {
    log: L,
    torn: bool,
}

impl<L: Log> LineLog<L> {
    pub(super) const fn new(log: L) -> Self {
        Self { log, torn: false }
    }

    pub(super) fn get(&self) -> &L {
        &self.log
    }

    /// Appends whole lines. They come with a newline in front, which is
    /// written if a torn line must be ended first.
    ///
    /// After an error some of the lines may be there, and the last one torn.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut rest = lines;
        while rest.len() > 1 {
            let skip = usize::from(!self.torn);
            let written = match self.log.append(&rest[skip..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                written => written?,
            };
            let done = &rest[..skip + written];
            self.torn = done.last() != Some(&NEWLINE);
            if skip == 1 && self.landed_in_a_line(written)? {
                // A torn line swallowed our first one: that one again.
                if done.len() == rest.len() {
                    rest = first_line(rest);
                }
                continue;
            }
            // What stays of a torn line is ended, and the line written again.
            let whole = done.iter().rposition(|byte| *byte == NEWLINE);
            rest = &rest[whole.unwrap_or_default()..];
        }
        Ok(())
    }

    fn landed_in_a_line(&mut self, written: usize) -> io::Result<bool> {
        let before = self.log.byte_before(written)?;
        Ok(before.is_some_and(|byte| byte != NEWLINE))
    }
}

/// The first line, with the newlines around it.
fn first_line(lines: &[u8]) -> &[u8] {
    let mut newlines = lines
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == NEWLINE);
    newlines.nth(1).map_or(lines, |(end, _)| &lines[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A log with room for so many bytes at each call, and other writers.
    #[derive(Default)]
    struct Disk {
        bytes: Vec<u8>,
        /// What the next calls take; no entry takes all.
        room: VecDeque<io::Result<usize>>,
        /// What another writer appends just before the next call.
        others: VecDeque<&'static str>,
        calls: usize,
    }

    impl Log for Disk {
        fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            let others = self.others.pop_front().unwrap_or_default();
            self.bytes.extend_from_slice(others.as_bytes());
            let room = self.room.pop_front().unwrap_or(Ok(bytes.len()))?;
            let taken = room.min(bytes.len());
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn byte_before(&mut self, written: usize) -> io::Result<Option<u8>> {
            let place = (self.bytes.len() - written).checked_sub(1);
            Ok(place.map(|place| self.bytes[place]))
        }
    }

    fn log(start: &str) -> LineLog<Disk> {
        let disk = Disk {
            bytes: start.into(),
            ..Disk::default()
        };
        LineLog::new(disk)
    }

    fn text(log: &LineLog<Disk>) -> &str {
        std::str::from_utf8(&log.get().bytes).unwrap()
    }

    fn full() -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_put_is_one_write() {
        let mut log = log("old\n");
        log.append(b"\none\ntwo\n").unwrap();
        assert_eq!(text(&log), "old\none\ntwo\n");
        assert_eq!(log.get().calls, 1);
    }

    #[test]
    fn line_that_a_torn_one_of_an_earlier_life_swallowed_comes_again() {
        let mut log = log("old\nto");
        log.append(b"\none\ntwo\n").unwrap();
        log.append(b"\nthree\n").unwrap();
        let lines: Vec<_> = text(&log).lines().collect();
        assert_eq!(lines, ["old", "toone", "two", "one", "three"]);
    }

    #[test]
    fn short_write_goes_on_with_the_torn_line() {
        for room in 1..9 {
            let mut log = log("");
            log.log.room.push_back(Ok(room));
            log.append(b"\none\ntwo\n").unwrap();
            let lines: Vec<_> = text(&log).lines().collect();
            assert!(
                lines.contains(&"one") && lines.contains(&"two"),
                "{lines:?}"
            );
            let whole = lines.iter().filter(|line| line.len() == 3).count();
            assert!(whole <= 3, "a whole line came twice at {room}: {lines:?}");
        }
    }

    #[test]
    fn whole_lines_of_a_short_write_are_not_written_again() {
        let mut log = log("");
        log.log.room.push_back(Ok(6));
        log.append(b"\none\ntwo\n").unwrap();
        assert_eq!(text(&log), "one\ntw\ntwo\n");
    }

    #[test]
    fn full_disk_is_an_error_and_the_next_write_is_on_a_fresh_line() {
        let mut log = log("");
        log.log.room.extend([Ok(2), full(), full()]);
        let error = log.append(b"\none\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(text(&log), "on");
        assert!(log.append(b"\none\n").is_err());
        log.append(b"\none\n").unwrap();
        assert_eq!(text(&log), "on\none\n");
    }

    #[test]
    fn line_that_anothers_torn_one_swallowed_comes_again() {
        for room in 1..9 {
            let mut log = log("");
            log.log.others.push_back("torn");
            log.log.room.push_back(Ok(room));
            log.append(b"\none\ntwo\n").unwrap();
            let lines: Vec<_> = text(&log).lines().collect();
            assert!(
                lines.contains(&"one") && lines.contains(&"two"),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn write_that_takes_nothing_is_an_error_and_an_interrupted_one_is_not() {
        let mut log = log("");
        log.log
            .room
            .extend([Err(io::ErrorKind::Interrupted.into()), Ok(0)]);
        let error = log.append(b"\none\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        assert_eq!(log.get().calls, 2);
    }
}
