//! Tells outside the worker which records were delivered, so that tests need
//! not believe its own figures.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use sluice_actors::ports::sink::SinkError;
use sluice_actors::record::SinkRecord;

use crate::sinks::file::line::{Format, Newlines};

/// One task's handle of a file that all tasks append to.
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    pub(super) fn open(path: &Path) -> Result<Self, SinkError> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|error| fault(path, &error))?,
        })
    }

    /// Appends the values by one write: those of other tasks do not come
    /// between the lines. It is not worth a thread of its own.
    pub(super) fn append<'a>(
        &mut self,
        records: impl Iterator<Item = &'a SinkRecord>,
    ) -> Result<(), SinkError> {
        let mut lines = Vec::new();
        for record in records {
            Format::Raw(Newlines::Escape)
                .write(&mut lines, record)
                .map_err(|error| fault(&self.path, &format!("{}: {error}", record.id())))?;
        }
        let written = self.file.write_all(&lines);
        written.map_err(|error| fault(&self.path, &error))
    }
}

fn fault(path: &Path, error: &dyn std::fmt::Display) -> SinkError {
    SinkError::Fatal(format!("cannot write record.file {}: {error}", path.display()).into())
}
