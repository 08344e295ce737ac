//! What the file sink is told.

use std::path::PathBuf;

use sluice_actors::ports::sink::TaskContext;

use crate::config::definition::{Key, Kind, Preset, Reader};
use crate::sinks::file::line::{Format, Newlines};
use crate::sinks::file::rotation::Limits;

const FILE: &str = "file";
const FORMAT: &str = "format";
const NEWLINES: &str = "newlines";
const ROTATE_BYTES: &str = "rotate.bytes";
const ROTATE_MS: &str = "rotate.ms";

const JSON: &str = "json";
const ESCAPE: &str = "escape";

/// The keys of the file sink.
pub const KEYS: &[Key] = &[
    Key {
        name: FILE,
        kind: Kind::Text,
        preset: Preset::Required,
        doc: "The path of the file. ${connector}, ${task} and ${worker} are filled in; missing \
              folders are made. Tasks and workers may share a path on a local file system.",
    },
    Key {
        name: FORMAT,
        kind: Kind::Choice(&["raw", JSON]),
        preset: Preset::Value("raw"),
        doc: "raw: the value as text or bytes, as Connect's FileStreamSink writes it (null for a \
              tombstone), structs and maps as JSON. json: an object with topic, partition, \
              offset, timestamp, key, value and headers; bytes are base64.",
    },
    Key {
        name: NEWLINES,
        kind: Kind::Choice(&["keep", ESCAPE]),
        preset: Preset::Value("keep"),
        doc: "What raw does with newlines inside a value. keep: the value takes several lines. \
              escape: newline, carriage return and backslash become \\n, \\r and \\\\.",
    },
    Key {
        name: ROTATE_BYTES,
        kind: Kind::Size,
        preset: Preset::Value("0"),
        doc: "Before a file grows beyond this it is renamed to FILE.TIME-SEQUENCE, complete and \
              synced, and a new one is begun; 0 is never. Needs ${task} and ${worker} in the path.",
    },
    Key {
        name: ROTATE_MS,
        kind: Kind::DurationMs,
        preset: Preset::Value("0"),
        doc: "So long after its first line a file is renamed as by rotate.bytes; 0 is never.",
    },
];

/// A file sink's settings.
#[derive(Debug)]
pub struct FileConfig {
    file: String,
    pub(super) format: Format,
    pub(super) limits: Limits,
}

impl FileConfig {
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let newlines = match reader.choice(NEWLINES) {
            ESCAPE => Newlines::Escape,
            _ => Newlines::Keep,
        };
        let format = match reader.choice(FORMAT) {
            JSON => Format::Json,
            _ => Format::Raw(newlines),
        };
        let config = Self {
            file: reader.text(FILE),
            format,
            limits: Limits {
                bytes: Some(reader.size(ROTATE_BYTES) as u64).filter(|bytes| *bytes > 0),
                age: Some(reader.duration(ROTATE_MS)).filter(|age| !age.is_zero()),
            },
        };
        config.check_file(reader);
        config
    }

    fn check_file(&self, reader: &mut Reader<'_>) {
        let mut names = Vec::new();
        let filled = fill(&self.file, |name| {
            names.push(name.to_owned());
            String::new()
        });
        if let Err(message) = filled {
            return reader.fault(FILE, message);
        }
        if self.file.ends_with('/') {
            reader.fault(
                FILE,
                format!("{:?} is a folder; add a file name", self.file),
            );
        }
        if !self.limits.any() {
            return;
        }
        for name in ["task", "worker"] {
            if !names.iter().any(|used| used == name) {
                reader.fault(
                    FILE,
                    format!(
                        "needs ${{{name}}} in the path for rotation: a file that others still \
                         write to cannot be completed; add it, or leave out {ROTATE_BYTES} and \
                         {ROTATE_MS}"
                    ),
                );
            }
        }
    }

    /// The file of a task.
    pub(super) fn path(&self, context: &TaskContext) -> Result<PathBuf, String> {
        let path = fill(&self.file, |name| match name {
            "connector" => file_name(&context.connector),
            "worker" => file_name(&context.worker),
            _ => context.task.to_string(),
        })?;
        Ok(PathBuf::from(path))
    }
}

/// Fills in what stands in `${}`.
fn fill(template: &str, mut value: impl FnMut(&str) -> String) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| format!("{template:?} has ${{ without }}"))?;
        if !["connector", "task", "worker"].contains(&name) {
            return Err(format!(
                "${{{name}}} is unknown; there are ${{connector}}, ${{task}} and ${{worker}}"
            ));
        }
        filled.push_str(before);
        filled.push_str(&value(name));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// A name as part of a path: it cannot lead to another folder.
fn file_name(name: &str) -> String {
    let safe = name.replace(['/', '\0'], "_");
    match safe.as_str() {
        "." | ".." => safe.replace('.', "_"),
        _ => safe,
    }
}
