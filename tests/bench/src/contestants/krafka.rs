//! The share consumer of krafka, on whose connections Sluice's own runs: poll,
//! acknowledge, commit; a consumer for each task. It runs as a program of its
//! own, so that what it uses can be told.

use std::env::current_exe;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use krafka::share_consumer::AcknowledgementMode;
use serde::{Deserialize, Serialize};
use sluice_test_support::kafka::Kafka;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::Measured;
use super::peer::Peer;

/// The command of this program that the peer is started by.
pub const COMMAND: &str = "krafka-peer";
const POLL: Duration = Duration::from_secs(1);
const TELLS_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub struct Options {
    /// What to do, as JSON.
    file: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Loop {
    bootstrap_servers: String,
    group: String,
    topic: String,
    tasks: usize,
    record_latency_us: u64,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Krafka<'a> {
    pub kafka: &'a Kafka,
    pub topic: &'a str,
    pub tasks: usize,
    pub record_latency_us: u64,
    /// Settings of the group.
    pub group: &'a [(&'a str, &'a str)],
    pub turn: &'a str,
}

impl Krafka<'_> {
    pub async fn measure(&self, records: usize, within: Duration) -> Result<Measured> {
        let group = format!("krafka-{}", self.turn);
        let mut settings = vec![("share.auto.offset.reset", "earliest")];
        settings.extend(self.group);
        self.kafka
            .admin()
            .await?
            .alter_group(&group, &settings)
            .await?;
        let what = Loop {
            bootstrap_servers: self.kafka.bootstrap_servers().to_owned(),
            group,
            topic: self.topic.to_owned(),
            tasks: self.tasks,
            record_latency_us: self.record_latency_us,
        };
        let mut command = Command::new(current_exe()?);
        command.arg(COMMAND);
        let files = [("loop.json", serde_json::to_string(&what)?)];
        let peer = Peer::start(COMMAND, command, &files)?;
        peer.measure(records, within).await
    }
}

/// Runs until it is killed.
pub async fn run(options: &Options) -> Result<()> {
    let what: Loop = serde_json::from_str(&std::fs::read_to_string(&options.file)?)?;
    let taken = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    tasks.spawn(tell(Arc::clone(&taken)));
    for _ in 0..what.tasks {
        tasks.spawn(consume(what.clone(), Arc::clone(&taken)));
    }
    // None of them ends by itself.
    tasks.join_next().await.context("no task")??
}

async fn tell(taken: Arc<AtomicU64>) -> Result<()> {
    let mut ticks = interval(TELLS_EVERY);
    let (mut out, mut told) = (std::io::stdout(), None);
    loop {
        ticks.tick().await;
        let now = taken.load(Ordering::Relaxed);
        if told.replace(now) != Some(now) {
            let milliseconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
            writeln!(out, "taken {milliseconds} {now}")?;
            out.flush()?;
        }
    }
}

async fn consume(what: Loop, taken: Arc<AtomicU64>) -> Result<()> {
    let kafka = krafka::Kafka::builder(&what.bootstrap_servers)
        .connect()
        .await?;
    let consumer = kafka.share_consumer(&what.group);
    let consumer = consumer.acknowledgement_mode(AcknowledgementMode::Explicit);
    let consumer = consumer.build().await?;
    consumer.subscribe([&what.topic]).await?;
    loop {
        let records = consumer.poll(POLL).await?;
        if records.is_empty() {
            continue;
        }
        let many = records.len() as u64;
        if what.record_latency_us > 0 {
            // Once for all, as Sluice's null sink does: timers have a grain.
            sleep(Duration::from_micros(what.record_latency_us * many)).await;
        }
        for record in &records {
            consumer.ack(record)?;
        }
        for (_, outcome) in consumer.commit().await? {
            outcome?;
        }
        taken.fetch_add(many, Ordering::Relaxed);
    }
}
