//! One Kafka node: broker and controller in one JVM.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;

use crate::{
    java::java,
    process::{Process, Signal},
    settings::{KafkaOptions, SCRAM},
};

const LOG_TAIL_LINES: usize = 40;

/// Below the range that Linux takes outgoing connections' ports from, so that
/// a node that is down for a while finds its port free when it comes back.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// Where one node listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) plaintext: u16,
    pub(crate) controller: u16,
    pub(crate) sasl_ssl: u16,
    pub(crate) sasl_plaintext: u16,
    pub(crate) ssl: u16,
    pub(crate) proxied: u16,
    /// Of the proxy in front of it.
    pub(crate) proxy: u16,
}

impl Ports {
    pub(crate) fn pick() -> Result<Self> {
        // Held until all are picked, or the same could be picked twice.
        let held = (0..7).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let mut ports = [0; 7];
        for (port, listener) in ports.iter_mut().zip(&held) {
            *port = listener.local_addr()?.port();
        }
        let [
            plaintext,
            controller,
            sasl_ssl,
            sasl_plaintext,
            ssl,
            proxied,
            proxy,
        ] = ports;
        Ok(Self {
            plaintext,
            controller,
            sasl_ssl,
            sasl_plaintext,
            ssl,
            proxied,
            proxy,
        })
    }
}

/// A port that is free, outside of those that systems give out by themselves;
/// taken as long as the listener is held.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<TcpListener> {
    let width = u64::from(PORTS.end - PORTS.start);
    for attempt in 0..1000 {
        // Each state is seeded anew at random.
        let offset = RandomState::new().hash_one(attempt) % width;
        let port = PORTS.start + u16::try_from(offset)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener);
        }
    }
    bail!("no free port found in {PORTS:?}")
}

/// A node's folder and how to start it there.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: usize,
    cluster_folder: PathBuf,
    folder: PathBuf,
    jvm_options: Vec<String>,
    process: Mutex<Option<Process>>,
}

impl Node {
    pub(crate) fn new(
        id: usize,
        cluster_folder: PathBuf,
        jvm_options: Vec<String>,
        properties: &[(String, String)],
    ) -> Result<Self> {
        let folder = cluster_folder.join(format!("node-{id}"));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut text = format!("log.dirs={}\n", folder.join("data").display());
        for (key, value) in properties {
            text.push_str(&format!("{key}={value}\n"));
        }
        std::fs::write(folder.join("server.properties"), text)?;
        Ok(Self {
            id,
            cluster_folder,
            folder,
            jvm_options,
            process: Mutex::new(None),
        })
    }

    /// The command that prepares the node's data folder.
    pub(crate) fn format(&self, options: &KafkaOptions) -> Result<Command> {
        let mut command = java("kafka.tools.StorageTool", &[])?;
        let properties = self.folder.join("server.properties");
        command.args(format_arguments(
            &cluster_id(&self.cluster_folder),
            &properties,
            options,
        ));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Starts the node; a running one is ended first.
    pub(crate) fn start(&self) -> Result<()> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let mut command = java("kafka.Kafka", &self.jvm_options)?;
        command
            .arg(self.folder.join("server.properties"))
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut process = self.process.lock();
        process.take();
        *process = Some(Process::spawn(
            format!("Kafka node {}", self.id),
            command,
            &self.cluster_folder,
        )?);
        Ok(())
    }

    pub(crate) fn kill(&self) {
        self.process.lock().take();
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        match &*self.process.lock() {
            Some(process) => process.signal(signal),
            None => bail!("Kafka node {} does not run", self.id),
        }
    }

    /// The process id, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.lock().as_ref().map(Process::pid)
    }

    pub(crate) fn has_ended(&self) -> Result<bool> {
        match &*self.process.lock() {
            Some(process) => Ok(process.exit_status()?.is_some()),
            None => Ok(true),
        }
    }

    /// An error with the end of its log if the node has died by itself.
    pub(crate) fn check_alive(&self) -> Result<()> {
        let status = match &*self.process.lock() {
            Some(process) => process.exit_status()?,
            None => None,
        };
        match status {
            Some(status) => bail!(
                "Kafka node {} ended with {status}:\n{}",
                self.id,
                self.log_tail()
            ),
            None => Ok(()),
        }
    }

    pub(crate) fn log_tail(&self) -> String {
        match std::fs::read_to_string(self.log_file()) {
            Ok(log) => tail(&log, LOG_TAIL_LINES),
            Err(error) => format!("no log: {error}"),
        }
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("node.log")
    }
}

/// In base64 an id may begin with a dash. The tool takes such an argument for
/// an option, unless it is one with its option.
fn format_arguments(cluster_id: &str, properties: &Path, options: &KafkaOptions) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "format".into(),
        "--ignore-formatted".into(),
        format!("--cluster-id={cluster_id}").into(),
        "--config".into(),
        properties.into(),
    ];
    for feature in &options.features {
        arguments.extend(["--feature".into(), feature.into()]);
    }
    for (name, password) in &options.users {
        for mechanism in SCRAM {
            let user = format!("{mechanism}=[name=\"{name}\",password=\"{password}\"]");
            arguments.extend(["--add-scram".into(), user.into()]);
        }
    }
    arguments
}

/// Each cluster has its own, as Kafka wants it: 16 bytes in base64.
fn cluster_id(folder: &Path) -> String {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, folder).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    URL_SAFE_NO_PAD.encode([hash(0), hash(1)].concat())
}

/// The last `count` lines of `text`.
pub(crate) fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_one_node_differ_and_lie_below_the_ephemeral_range() {
        for _ in 0..50 {
            let ports = Ports::pick().unwrap();
            let mut all = vec![
                ports.plaintext,
                ports.controller,
                ports.sasl_ssl,
                ports.sasl_plaintext,
                ports.ssl,
                ports.proxied,
                ports.proxy,
            ];
            assert!(all.iter().all(|port| PORTS.contains(port)), "{ports:?}");
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 7, "{ports:?}");
        }
    }

    #[test]
    fn a_cluster_id_that_begins_with_a_dash_is_no_option() {
        let options = KafkaOptions::new().user("alice", "alice-secret");
        let properties = Path::new("/node/server.properties");
        let arguments = format_arguments("-9dQ", properties, &options);
        let is_option = |argument: &&OsString| argument.as_encoded_bytes().starts_with(b"-");
        let options: Vec<_> = arguments.iter().filter(is_option).collect();
        assert_eq!(
            options,
            [
                "--ignore-formatted",
                "--cluster-id=-9dQ",
                "--config",
                "--add-scram",
                "--add-scram"
            ]
        );
    }

    #[test]
    fn the_tail_of_a_text_is_its_last_lines() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 2), "a");
    }
}
