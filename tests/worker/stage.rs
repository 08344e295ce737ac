//! What most of these tests begin with: a topic with records, a worker, its
//! status.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::kafka::Kafka;
use sluice_test_support::topics::{Admin, unique_name};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

const ASSIGNED_WITHIN: Duration = Duration::from_secs(30);

/// One test's connector, mostly on the shared broker.
pub struct Stage {
    pub kafka: &'static Kafka,
    pub admin: Admin,
    /// The connector and its topic.
    pub name: String,
    folder: TempDir,
}

impl Stage {
    pub async fn set(stem: &str, partitions: i32) -> Result<Self> {
        Self::on(Kafka::shared().await?, stem, partitions, 1).await
    }

    /// The same on another cluster, the topic with so many replicas.
    pub async fn on(
        kafka: &'static Kafka,
        stem: &str,
        partitions: i32,
        replicas: i16,
    ) -> Result<Self> {
        let admin = kafka.admin().await?;
        let name = unique_name(stem);
        admin
            .create_topic_with(&name, partitions, replicas, &[])
            .await?;
        Ok(Self {
            kafka,
            admin,
            name,
            folder: tempfile::tempdir()?,
        })
    }

    pub fn group(&self) -> String {
        format!("share-{}", self.name)
    }

    /// Waits until the connector's group has nothing left to do in its topic.
    pub async fn wait_until_consumed(&self, patience: Duration) -> Result<()> {
        let group = self.group();
        self.admin
            .wait_until_consumed(&group, &self.name, patience)
            .await
    }

    /// Where the sinks write.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("out.txt")
    }

    /// A connector that writes each value as a line.
    pub fn to_file(&self, tasks: usize) -> Value {
        let mut config = self.connector("file", tasks);
        config["file"] = json!(self.file());
        config
    }

    /// The same into a file that no other worker writes to.
    pub fn to_file_of(&self, worker: &str, tasks: usize) -> Value {
        let mut config = self.connector("file", tasks);
        config["file"] = json!(self.file_of(worker));
        config
    }

    pub fn file_of(&self, worker: &str) -> PathBuf {
        self.folder.path().join(format!("{worker}.txt"))
    }

    /// A connector into the null sink that tells each delivered value in the
    /// file, as a line.
    pub fn to_null(&self, tasks: usize) -> Value {
        let mut config = self.connector("null", tasks);
        config["record.file"] = json!(self.file());
        config
    }

    /// A connector of string values into some sink.
    pub fn connector(&self, class: &str, tasks: usize) -> Value {
        json!({
            "name": self.name,
            "connector.class": class,
            "tasks.max": tasks.to_string(),
            "topics": self.name,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.override.group.protocol": "share",
        })
    }

    /// Waits until so many members of the group are assigned partitions.
    pub async fn wait_for_assigned_members(&self, members: usize) -> Result<()> {
        let group = self.group();
        let arguments = [
            "--bootstrap-server",
            self.kafka.bootstrap_servers(),
            "--describe",
            "--members",
            "--group",
            &group,
        ];
        let assignment = format!("{}:", self.name);
        eventually("all members are assigned", ASSIGNED_WITHIN, async || {
            let printed = run_tool(SHARE_GROUP_COMMAND, &arguments).await?;
            let assigned = printed.lines().filter(|line| line.contains(&assignment));
            anyhow::ensure!(assigned.count() == members, "{printed}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// A worker with this one connector and a quick status log.
    pub fn worker(&self, connector: &Value) -> Result<Worker> {
        Worker::start(&self.worker_options(connector))
    }

    pub fn worker_options(&self, connector: &Value) -> WorkerOptions {
        self.worker_options_at(self.kafka.bootstrap_servers(), connector)
    }

    /// The same at another listener of the cluster.
    pub fn worker_options_at(&self, servers: &str, connector: &Value) -> WorkerOptions {
        WorkerOptions::new(BINARY)
            .property("bootstrap.servers", servers)
            .property("log.format", "json")
            .property("status.log.interval.ms", "50")
            .connector(&self.name, connector)
    }
}

/// How many lines a file has; none if it is not there.
pub fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.iter().filter(|b| **b == b'\n').count())
}

/// The newest status line of a worker's only connector.
pub fn status(worker: &Worker) -> Result<Value> {
    let log = worker.stderr()?;
    let newest = log
        .lines()
        .rev()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|line| line["message"] == "status");
    newest.with_context(|| format!("no status line in {log}"))
}

/// Waits until the status is as wanted.
pub async fn wait_for_status(
    worker: &Worker,
    what: &str,
    timeout: Duration,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually(what, timeout, async || {
        let status = status(worker)?;
        if wanted(&status) {
            Ok(status)
        } else {
            anyhow::bail!("status is {status}")
        }
    })
    .await
}
