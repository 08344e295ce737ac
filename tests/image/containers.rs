//! Workers in containers of the image, by podman and runc.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_test_support::worker::Worker;
use tempfile::TempDir;

/// Where the archive is.
const ARCHIVE: &str = "SLUICE_TEST_IMAGE";
const IMAGE: &str = "localhost/sluice:latest";
/// A container whose test was killed ends by itself.
const AT_MOST_SECONDS: &str = "600";

/// The image, in a store that is gone with it.
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// Takes it out of its archive.
    pub fn load() -> Result<Self> {
        let archive = std::env::var_os(ARCHIVE).map(PathBuf::from);
        let archive =
            archive.with_context(|| format!("{ARCHIVE} is not set: run `./test image`"))?;
        let folder = tempfile::tempdir()?;
        let image = Self { folder };
        image.run(&[&"load", &"--input", &archive])?;
        Ok(image)
    }

    fn podman(&self) -> Command {
        let below = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("podman");
        command.arg("--root").arg(below("store"));
        command.arg("--runroot").arg(below("run"));
        command.arg("--tmpdir").arg(below("tmp"));
        // What works on any file system, without systemd, with either kind of
        // control groups.
        command.args(["--storage-driver", "vfs"]);
        command.args(["--cgroup-manager", "cgroupfs"]);
        command.args(["--runtime", "runc", "--events-backend", "none"]);
        command
    }

    fn run(&self, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<String> {
        let mut command = self.podman();
        for argument in arguments {
            command.arg(argument);
        }
        let output = command.output().context("cannot start podman")?;
        ensure!(
            output.status.success(),
            "{command:?} gave {}",
            told(&output)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What the image says of itself.
    pub fn inspect(&self) -> Result<Value> {
        let printed = self.run(&[&"image", &"inspect", &IMAGE])?;
        let images: Value = serde_json::from_str(&printed)?;
        Ok(images[0].clone())
    }

    /// A container with a read-only root that gets these variables and nothing
    /// else.
    pub fn start(&self, name: &str, variables: &[(&str, String)]) -> Result<Container<'_>> {
        let mut arguments = ["--network", "host", "--read-only"]
            .map(str::to_owned)
            .to_vec();
        for (key, value) in variables {
            arguments.extend(["--env".to_owned(), format!("{key}={value}")]);
        }
        self.start_with(name, &arguments)
    }

    /// A container with these arguments of `docker run`, before the image.
    pub fn start_with(&self, name: &str, arguments: &[String]) -> Result<Container<'_>> {
        let mut command = self.podman();
        command.args(["run", "--name", name, "--pull", "never"]);
        command.args(["--timeout", AT_MOST_SECONDS]);
        // By default it asks for more than a container around it may give.
        command.args([
            "--ulimit",
            "nofile=4096:4096",
            "--ulimit",
            "nproc=4096:4096",
        ]);
        command.args(arguments).arg(IMAGE);
        Ok(Container {
            image: self,
            name: name.to_owned(),
            worker: Worker::start_by(command)?,
        })
    }
}

/// A worker in a container; both are gone when it is dropped.
pub struct Container<'a> {
    image: &'a Image,
    name: String,
    /// By podman, which hands signals, output and the exit code through.
    pub worker: Worker,
}

impl Container<'_> {
    /// The worker's process, as the machine sees it.
    pub fn proc(&self) -> Result<PathBuf> {
        let format = "{{.State.Pid}}";
        let pid = self
            .image
            .run(&[&"inspect", &"--format", &format, &self.name])?;
        Ok(Path::new("/proc").join(pid.trim()))
    }

    /// Runs the image's health check.
    pub fn check_health(&self) -> Result<()> {
        let printed = self.image.run(&[&"healthcheck", &"run", &self.name])?;
        ensure!(!printed.contains("unhealthy"), "{printed}");
        Ok(())
    }

    /// What a command of the program in it prints.
    pub fn ask(&self, command: &str) -> Result<String> {
        self.image.run(&[&"exec", &self.name, &"/sluice", &command])
    }

    /// Stops it by the signal that the image names, with so long to drain.
    pub fn stop(&self, seconds: &str) -> Result<()> {
        self.image
            .run(&[&"stop", &"--time", &seconds, &self.name])?;
        Ok(())
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let removed = self
            .image
            .run(&[&"rm", &"--force", &"--time", &"0", &self.name]);
        if let Err(error) = removed {
            eprintln!("container {} is left behind: {error:#}", self.name);
        }
    }
}

fn told(output: &Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}: {}{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    )
}
