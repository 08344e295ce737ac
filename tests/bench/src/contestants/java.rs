//! Peers in Java: compiled once a run, then started.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sluice_test_support::java::kafka_libs;
use tempfile::TempDir;

use super::peer::Peer;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java");

/// The compiled peers. Dropped, they are gone.
#[derive(Debug)]
pub struct Classes {
    folder: TempDir,
    jars: Vec<PathBuf>,
}

impl Classes {
    /// Compiles what lies in `java/`.
    pub fn compile() -> Result<Self> {
        let folder = TempDir::with_prefix("sluice-bench-classes-")?;
        let jars = jars(&kafka_libs()?)?;
        let sources = Path::new(SOURCES);
        let mut compiler = Command::new("java");
        // The module is part of every Java that can run a source file.
        compiler
            .args(["-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none"])
            .arg("-cp")
            .arg(class_path(&jars)?)
            .arg("-d")
            .arg(folder.path())
            .args(java_files(&sources.join("sluice/bench"))?);
        let output = compiler.output().context("cannot start java")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "peers do not compile: {complaint}");
        // Connect finds plugins by it.
        let services = "META-INF/services";
        fs::create_dir_all(folder.path().join(services))?;
        let plugins = "META-INF/services/org.apache.kafka.connect.sink.SinkConnector";
        fs::copy(sources.join(plugins), folder.path().join(plugins))?;
        Ok(Self { folder, jars })
    }

    /// Starts `class`; `files` are written to its folder, and their paths are
    /// its arguments.
    pub fn start(&self, class: &str, heap_mb: u32, files: &[(&str, String)]) -> Result<Peer> {
        let mut command = Command::new("java");
        let mut class_path = class_path(&self.jars)?;
        class_path.push(":");
        class_path.push(self.folder.path());
        command
            .arg(format!("-Xmx{heap_mb}m"))
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-cp")
            .arg(class_path)
            .arg(class);
        Peer::start(class, command, files)
    }
}

fn jars(libs: &Path) -> Result<Vec<PathBuf>> {
    files(libs, "jar")
}

fn java_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, "java")
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == extension) {
            files.push(path);
        }
    }
    files.sort();
    ensure!(!files.is_empty(), "no .{extension} in {}", folder.display());
    Ok(files)
}

fn class_path(jars: &[PathBuf]) -> Result<OsString> {
    std::env::join_paths(jars).context("a folder of jars has a colon in its name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_what_is_looked_for_is_told() {
        let empty = TempDir::new().unwrap();
        let refused = files(empty.path(), "jar").unwrap_err().to_string();
        assert!(refused.contains("no .jar in "), "{refused}");
    }
}
