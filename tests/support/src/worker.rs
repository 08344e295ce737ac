//! Workers as users run them: the binary with its files, signals and logs.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::{
    node::tail,
    process::{Process, Signal, Usage},
    wait::eventually,
};

const OUTPUT_TAIL_LINES: usize = 40;
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// What a worker is started with.
#[derive(Clone)]
pub struct WorkerOptions {
    binary: PathBuf,
    properties: Vec<(String, String)>,
    connectors: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl WorkerOptions {
    /// `binary` is `env!("CARGO_BIN_EXE_sluice")` in a test of the service.
    #[must_use]
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            properties: Vec::new(),
            connectors: Vec::new(),
            environment: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// A line of the worker's properties file.
    #[must_use]
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.properties.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A connector, its configuration as a JSON object.
    #[must_use]
    pub fn connector(mut self, name: &str, configuration: &serde_json::Value) -> Self {
        self.connectors
            .push((name.to_owned(), configuration.to_string()));
        self
    }

    /// An environment variable. Besides these the worker gets `PATH` only.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A further argument of `sluice run`.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Workers of one machine would otherwise all want Connect's port.
    fn with_free_port(&self) -> Vec<(String, String)> {
        let mut properties = self.properties.clone();
        if !properties.iter().any(|(key, _)| key == "listeners") {
            properties.push(("listeners".to_owned(), "http://127.0.0.1:0".to_owned()));
        }
        properties
    }

    /// `sluice run worker.properties --connector NAME.json ...`
    fn command(&self, folder: &Path) -> Result<Command> {
        let properties = folder.join("worker.properties");
        std::fs::write(&properties, properties_text(&self.with_free_port()))?;
        let mut command = Command::new(&self.binary);
        command.arg("run").arg(properties);
        for (name, configuration) in &self.connectors {
            let file = folder.join(format!("{name}.json"));
            std::fs::write(&file, configuration)
                .with_context(|| format!("cannot write {}", file.display()))?;
            command.arg("--connector").arg(file);
        }
        command.args(&self.arguments);
        alone(&mut command);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A running worker. Dropped, it is killed and its folder is gone.
#[derive(Debug)]
pub struct Worker {
    // Before the folder: fields are dropped in this order.
    process: Process,
    folder: TempDir,
}

impl Worker {
    /// Starts a worker; wait for a line of its log before relying on it.
    ///
    /// # Errors
    /// If its files cannot be written or it cannot be started.
    pub fn start(options: &WorkerOptions) -> Result<Self> {
        let folder = folder()?;
        let command = options.command(folder.path())?;
        Self::spawn(command, folder)
    }

    /// Starts a worker by another command, which hands signals and output
    /// through: a container, say.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_by(command: Command) -> Result<Self> {
        Self::spawn(command, folder()?)
    }

    fn spawn(mut command: Command, folder: TempDir) -> Result<Self> {
        command
            .current_dir(folder.path())
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?);
        let process = Process::spawn("worker", command, folder.path())?;
        Ok(Self { process, folder })
    }

    /// The folder that the worker runs in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What the worker printed so far: standard output, then standard error.
    ///
    /// # Errors
    /// If the files are gone.
    pub fn output(&self) -> Result<String> {
        Ok(self.stdout()? + &self.stderr()?)
    }

    /// # Errors
    /// If the file is gone.
    pub fn stdout(&self) -> Result<String> {
        self.read("stdout")
    }

    /// # Errors
    /// If the file is gone.
    pub fn stderr(&self) -> Result<String> {
        self.read("stderr")
    }

    fn read(&self, stream: &str) -> Result<String> {
        let bytes = std::fs::read(self.folder.path().join(stream))
            .with_context(|| format!("no {stream} of the worker"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits for a printed line that `matches`, and returns it.
    ///
    /// # Errors
    /// If none comes in time or the worker ends without; then with the end of
    /// its output.
    pub async fn wait_for_log(
        &self,
        matches: impl Fn(&str) -> bool,
        timeout: Duration,
    ) -> Result<String> {
        eventually("the worker prints the line", timeout, async || {
            // Asked before the output is read: what an ended worker printed
            // last is still looked at.
            let status = self.exit_status()?;
            let output = self.output()?;
            match (output.lines().find(|line| matches(line)), status) {
                (Some(line), _) => Ok(Ok(line.to_owned())),
                (None, Some(status)) => Ok(Err(self.failure(&format!("ended with {status}")))),
                (None, None) => Err(self.failure("still runs")),
            }
        })
        .await?
    }

    /// Waits for REST, and returns its address. The worker must log JSON.
    ///
    /// # Errors
    /// If it does not listen in time.
    pub async fn rest_url(&self) -> Result<String> {
        let listens = |line: &str| line.contains("\"REST listens\"");
        let line = self.wait_for_log(listens, LISTENS_WITHIN).await?;
        let line: serde_json::Value = serde_json::from_str(&line)?;
        let url = line["url"].as_str().context("REST listens without url")?;
        Ok(url.to_owned())
    }

    /// Waits for the worker's end.
    ///
    /// # Errors
    /// If it does not end in time; then with the end of its output.
    pub async fn wait_for_exit(&self, timeout: Duration) -> Result<ExitStatus> {
        eventually("the worker ends", timeout, async || {
            self.exit_status()?
                .ok_or_else(|| self.failure("still runs"))
        })
        .await
    }

    /// How the worker ended, if it has.
    ///
    /// # Errors
    /// If the operating system does not answer.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        self.process.exit_status()
    }

    /// Sends TERM, INT, KILL, STOP or CONT.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Kills the worker as `kill -9` does and waits for its end.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn kill(&self) -> Result<ExitStatus> {
        self.process.kill()
    }

    /// Stops the worker as an operator does and returns how it ended.
    ///
    /// # Errors
    /// If it has ended before or does not end in time.
    pub async fn stop(&self, timeout: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_for_exit(timeout).await
    }

    /// Processor time and peak memory so far; ask before it ends.
    ///
    /// # Errors
    /// If the worker has ended.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    fn failure(&self, state: &str) -> anyhow::Error {
        match self.output() {
            Ok(output) => {
                let output = tail(&output, OUTPUT_TAIL_LINES);
                anyhow::anyhow!("the worker {state} and printed:\n{output}")
            }
            Err(error) => error,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#}", self.failure("was dropped"));
        }
    }
}

fn folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("sluice-worker-").tempdir();
    folder.context("no folder for a worker")
}

/// Lines of a Java properties file.
fn properties_text(properties: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in properties {
        let value = value.replace('\\', r"\\").replace('\n', r"\n");
        text.push_str(&format!("{key}={value}\n"));
    }
    text
}

/// Leaves the path as the only variable: others that begin with `SLUICE_` would
/// be settings of the worker's.
fn alone(command: &mut Command) {
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
}

/// Runs the binary to its end: `check`, `plugins`, `migrate` and the like.
///
/// # Errors
/// If it cannot be started or fails; then with what it printed.
pub async fn run_command(binary: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(arguments);
    alone(&mut command);
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot start {binary}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{arguments:?} ended with {}: {printed}{complaint}",
            output.status
        );
    }
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_gets_its_files_by_name() {
        let options = WorkerOptions::new("sh")
            .property("bootstrap.servers", "127.0.0.1:1")
            .property("path", r"C:\temp")
            .connector("orders", &serde_json::json!({"topics": "orders"}));
        let folder = tempfile::tempdir().unwrap();
        let command = options.command(folder.path()).unwrap();
        let arguments: Vec<_> = command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect();
        let path = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(
            arguments,
            [
                "run",
                &path("worker.properties"),
                "--connector",
                &path("orders.json")
            ]
        );
        assert_eq!(
            std::fs::read_to_string(path("worker.properties")).unwrap(),
            "bootstrap.servers=127.0.0.1:1\npath=C:\\\\temp\nlisteners=http://127.0.0.1:0\n"
        );
        assert_eq!(
            std::fs::read_to_string(path("orders.json")).unwrap(),
            r#"{"topics":"orders"}"#
        );
    }
}
