//! The task's side of a file: opens, writes, syncs and rotates it. Blocks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tokio::time::Instant;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;

use crate::sinks::file::append::LineLog;
use crate::sinks::file::folder::{folder_of, open_for_append, sync_folder};
use crate::sinks::file::line::Format;
use crate::sinks::file::rotation::{Limits, Rotation, rotated_name};

/// A buffer that a huge put made larger is not kept.
const KEPT_BUFFER: usize = 4 * 1024 * 1024;

pub(super) struct Writer {
    path: PathBuf,
    format: Format,
    file: Option<LineLog<File>>,
    rotation: Rotation,
    sequence: u32,
    /// The lines of one put, after the newline that may have to end a torn
    /// line.
    lines: Vec<u8>,
    /// Why lines of earlier puts may not last: the next flush must say so,
    /// even though its own sync would succeed.
    lost: Option<Cause>,
}

/// Where the file is that lines were written to.
enum Whereabouts {
    AtItsPath,
    /// Renamed, by a tool that rotates logs: its lines are there.
    Elsewhere,
    /// Its lines are gone.
    Deleted,
}

impl Writer {
    pub(super) const fn new(path: PathBuf, format: Format, limits: Limits) -> Self {
        Self {
            path,
            format,
            file: None,
            rotation: Rotation::new(limits),
            sequence: 0,
            lines: Vec::new(),
            lost: None,
        }
    }

    /// Opens the file. With rotation, what an earlier life left behind is
    /// completed first.
    pub(super) fn open(&mut self) -> Result<(), SinkError> {
        self.open_file()?;
        if self.rotation.limits().any() && self.holds_lines()? {
            self.rotate()?;
            self.open_file()?;
        }
        Ok(())
    }

    /// Appends the records' lines with one write call. A record that has no
    /// line is rejected.
    pub(super) fn put(
        &mut self,
        records: &[SinkRecord],
        report: &Report,
        now: Instant,
    ) -> Result<(), SinkError> {
        self.encode(records, report);
        let bytes = self.lines.len() as u64 - 1;
        if bytes == 0 {
            return Ok(());
        }
        if self.rotation.is_due(bytes, now) {
            self.rotate()?;
        }
        self.open_file()?;
        // Counted before: a write that fails leaves bytes, too.
        self.rotation.wrote(bytes, now);
        match self.file.as_mut().map(|file| file.append(&self.lines)) {
            Some(Err(error)) => Err(trouble("write to", &self.path, &error)),
            _ => Ok(()),
        }
    }

    fn encode(&mut self, records: &[SinkRecord], report: &Report) {
        self.lines.clear();
        self.lines.shrink_to(KEPT_BUFFER);
        self.lines.push(b'\n');
        for (place, record) in records.iter().enumerate() {
            if let Err(cause) = self.format.write(&mut self.lines, record) {
                let id = record.id();
                report.reject(place, format!("{id} cannot be written as a line: {cause}"));
            }
        }
    }

    /// Makes all lines last.
    pub(super) fn flush(&mut self) -> Result<(), SinkError> {
        if let Some(cause) = self.lost.take() {
            return Err(SinkError::Retry(cause));
        }
        match self.sync()? {
            Whereabouts::AtItsPath => Ok(()),
            Whereabouts::Elsewhere => {
                self.forget_file();
                Ok(())
            }
            Whereabouts::Deleted => {
                self.forget_file();
                Err(SinkError::Retry(self.deleted()))
            }
        }
    }

    /// Completes the file if its time has come, and says when the next look
    /// is due.
    pub(super) fn rotate_when_due(&mut self, now: Instant) -> Result<Option<Instant>, SinkError> {
        if self.rotation.is_due(0, now) {
            self.rotate()?;
        }
        Ok(self.rotation.deadline())
    }

    /// Lets go of the file; with rotation it is completed.
    pub(super) fn close(&mut self) -> Result<(), SinkError> {
        if self.rotation.limits().any() && self.holds_lines()? {
            self.rotate()?;
        }
        self.forget_file();
        Ok(())
    }

    /// Syncs the file and gives it a name of its own. The next put begins
    /// another.
    fn rotate(&mut self) -> Result<(), SinkError> {
        let whereabouts = self
            .sync()
            .inspect_err(|error| self.lost = Some(error.to_string().into()))?;
        match whereabouts {
            Whereabouts::AtItsPath => self.rename()?,
            Whereabouts::Elsewhere => {}
            Whereabouts::Deleted => self.lost = Some(self.deleted()),
        }
        self.forget_file();
        Ok(())
    }

    /// Never over another file: an instance of this task that was given up
    /// may rotate at the same time.
    fn rename(&mut self) -> Result<(), SinkError> {
        let now = SystemTime::now();
        let renamed = loop {
            self.sequence = self.sequence.wrapping_add(1);
            let name = rotated_name(&self.path, now, self.sequence);
            match renameat_with(CWD, &self.path, CWD, name, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                // The other one was faster.
                Err(Errno::NOENT) => return Ok(()),
                renamed => break renamed.map_err(io::Error::from),
            }
        };
        renamed
            .and_then(|()| sync_folder(folder_of(&self.path)))
            .map_err(|error| trouble("rotate", &self.path, &error))
    }

    fn sync(&self) -> Result<Whereabouts, SinkError> {
        let Some(file) = self.file.as_ref().map(LineLog::get) else {
            return Ok(Whereabouts::AtItsPath);
        };
        file.sync_data()
            .and_then(|()| self.whereabouts(file))
            .map_err(|error| trouble("sync", &self.path, &error))
    }

    fn whereabouts(&self, file: &File) -> io::Result<Whereabouts> {
        let ours = file.metadata()?;
        if ours.nlink() == 0 {
            return Ok(Whereabouts::Deleted);
        }
        match fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                Ok(Whereabouts::AtItsPath)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Whereabouts::Elsewhere),
        }
    }

    fn deleted(&self) -> Cause {
        let path = self.path.display();
        format!("{path} was deleted before it was flushed; its lines are written again").into()
    }

    fn open_file(&mut self) -> Result<(), SinkError> {
        if self.file.is_none() {
            let opened =
                open_for_append(&self.path).map_err(|error| trouble("open", &self.path, &error))?;
            self.file = Some(LineLog::new(opened));
        }
        Ok(())
    }

    fn holds_lines(&self) -> Result<bool, SinkError> {
        let Some(file) = self.file.as_ref().map(LineLog::get) else {
            return Ok(false);
        };
        file.metadata()
            .map(|metadata| metadata.len() > 0)
            .map_err(|error| trouble("look at", &self.path, &error))
    }

    fn forget_file(&mut self) {
        self.file = None;
        self.rotation.begin_anew();
    }
}

/// What a failed call means for the task. What an operator must mend is
/// fatal; a full disk and whatever else may pass is not.
fn trouble(doing: &str, path: &Path, error: &io::Error) -> SinkError {
    use io::ErrorKind;
    let cause = format!("cannot {doing} {}: {error}", path.display()).into();
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => SinkError::Fatal(cause),
        _ => SinkError::Unavailable(cause),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::text_record;
    use crate::sinks::file::line::Newlines;

    fn writer(path: &Path) -> Writer {
        Writer::new(
            path.to_owned(),
            Format::Raw(Newlines::Keep),
            Limits::default(),
        )
    }

    fn put(writer: &mut Writer, text: &str) {
        let report = Report::new(1);
        writer
            .put(&[text_record(0, text)], &report, Instant::now())
            .unwrap();
    }

    #[test]
    fn trouble_that_may_pass_is_never_fatal() {
        for kind in [
            io::ErrorKind::StorageFull,
            io::ErrorKind::QuotaExceeded,
            io::ErrorKind::FileTooLarge,
            io::ErrorKind::Other,
        ] {
            let error = trouble("write to", Path::new("/data/out"), &kind.into());
            let SinkError::Unavailable(cause) = error else {
                panic!("{error:?}");
            };
            assert!(cause.starts_with("cannot write to /data/out: "), "{cause}");
        }
        let denied = io::ErrorKind::PermissionDenied.into();
        let error = trouble("open", Path::new("/data/out"), &denied);
        assert!(matches!(error, SinkError::Fatal(_)));
    }

    #[test]
    fn lines_of_a_file_that_was_deleted_are_not_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut writer = writer(&path);
        put(&mut writer, "one");
        fs::remove_file(&path).unwrap();
        let error = writer.flush().unwrap_err();
        assert!(error.to_string().contains("was deleted"), "{error}");
        put(&mut writer, "one");
        writer.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }

    #[test]
    fn file_that_was_renamed_is_flushed_and_a_new_one_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("out"), folder.path().join("out.1"));
        let mut writer = writer(&path);
        put(&mut writer, "one");
        fs::rename(&path, &moved).unwrap();
        writer.flush().unwrap();
        put(&mut writer, "two");
        writer.flush().unwrap();
        assert_eq!(fs::read_to_string(&moved).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn file_that_was_lost_at_rotation_fails_the_next_flush_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut writer = writer(&path);
        put(&mut writer, "one");
        fs::remove_file(&path).unwrap();
        writer.rotate().unwrap();
        put(&mut writer, "two");
        assert!(writer.flush().is_err());
        writer.flush().unwrap();
    }

    #[test]
    fn rotated_files_of_two_instances_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let (mut one, mut other) = (writer(&path), writer(&path));
        for (round, writer) in [&mut one, &mut other].into_iter().enumerate() {
            put(writer, &format!("line {round}"));
            writer.rotate().unwrap();
        }
        put(&mut one, "line 2");
        fs::remove_file(&path).unwrap();
        one.rename().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn encode_buffer_is_used_again_but_not_kept_huge() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder.path().join("out"));
        put(&mut writer, &"x".repeat(1000));
        let buffer = writer.lines.as_ptr();
        put(&mut writer, "y");
        assert_eq!(writer.lines.as_ptr(), buffer);
        put(&mut writer, &"x".repeat(2 * KEPT_BUFFER));
        put(&mut writer, "y");
        assert!(writer.lines.capacity() <= KEPT_BUFFER);
    }
}
