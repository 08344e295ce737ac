//! The workers of a run, over all their lives.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sluice_test_support::process::Signal;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::WorkerOptions;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::cluster::{PARTITIONS, TOPIC};
use super::fate::{add_rules, latency_us};
use super::life::Life;
use super::schedule::{LOCK, TASKS, VETERAN, WORKERS};
use super::verdict::Delivery;
use crate::api::Api;
use crate::stage::BINARY;

pub const GROUP: &str = "share-chaos";
pub const DELIVERY_LIMIT: u16 = 10;
/// `share.max.in.flight.records`.
const WINDOW: u64 = 200;
/// Of the producer, in records.
pub const BATCH: &str = "20";
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
/// Exit codes of a worker that drained, and of one that had to release.
const ENDS: [i32; 2] = [0, 75];

/// Its window, and a batch of each partition.
pub fn in_flight_limit() -> Result<u64> {
    Ok(WINDOW + BATCH.parse::<u64>()? * u64::try_from(PARTITIONS)?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Frozen,
    /// Was told to end, and may take its time.
    Ends,
    Dead,
}

pub struct Cast {
    seed: u64,
    servers: String,
    folder: TempDir,
    clock: Instant,
    lives: [Vec<Life>; WORKERS],
    states: [State; WORKERS],
    /// The veteran's resident bytes.
    pub memory: Vec<(Duration, u64)>,
}

impl Cast {
    /// Starts all workers and waits until they run.
    pub async fn start(seed: u64, servers: &str, clock: Instant) -> Result<Self> {
        let mut cast = Self {
            seed,
            servers: servers.to_owned(),
            folder: tempfile::tempdir()?,
            clock,
            lives: [const { Vec::new() }; WORKERS],
            states: [State::Dead; WORKERS],
            memory: Vec::new(),
        };
        for worker in 0..WORKERS {
            cast.begin(worker)?;
        }
        for worker in 0..WORKERS {
            let life = cast.life(worker)?;
            eventually("the worker runs", START, async || {
                let status = life.status()?.context("no status yet")?;
                ensure!(status["state"] == "RUNNING", "{status}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        Ok(cast)
    }

    /// Starts a worker that has ended; false as long as it has not.
    pub fn begin(&mut self, worker: usize) -> Result<bool> {
        if self.states[worker] == State::Ends {
            let ended = self.life(worker)?.worker.exit_status()?;
            let Some(status) = ended else {
                return Ok(false);
            };
            let code = status.code();
            ensure!(
                code.is_some_and(|code| ENDS.contains(&code)),
                "worker {worker} ended with {status}: {}",
                self.life(worker)?.worker.output()?
            );
        }
        let number = self.lives[worker].len();
        let file = self.folder.path().join(format!("{worker}-{number}.txt"));
        let mut connector = json!({
            "name": TOPIC,
            "connector.class": "null",
            "topics": TOPIC,
            "tasks.max": TASKS.to_string(),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "consumer.override.group.protocol": "share",
            "record.file": file,
            "record.latency.us": latency_us(self.seed, worker, number).to_string(),
            "max.put.records": "50",
            "share.max.in.flight.records": WINDOW.to_string(),
            "share.record.lock.duration.ms": LOCK.as_millis().to_string(),
            "share.delivery.count.limit": DELIVERY_LIMIT.to_string(),
        });
        add_rules(&mut connector);
        let options = WorkerOptions::new(BINARY)
            .property("bootstrap.servers", &self.servers)
            .property("log.format", "json")
            .property("status.log.interval.ms", "100")
            .connector(TOPIC, &connector);
        self.lives[worker].push(Life::begin(&options, file)?);
        self.states[worker] = State::Runs;
        Ok(true)
    }

    pub fn kill(&mut self, worker: usize) -> Result<()> {
        self.life(worker)?.worker.kill()?;
        self.states[worker] = State::Dead;
        Ok(())
    }

    pub fn terminate(&mut self, worker: usize) -> Result<()> {
        self.signal(worker, Signal::TERM, State::Ends)
    }

    pub fn freeze(&mut self, worker: usize) -> Result<()> {
        self.signal(worker, Signal::STOP, State::Frozen)
    }

    pub fn thaw(&mut self, worker: usize) -> Result<()> {
        self.signal(worker, Signal::CONT, State::Runs)
    }

    fn signal(&mut self, worker: usize, signal: Signal, then: State) -> Result<()> {
        self.life(worker)?.worker.signal(signal)?;
        self.states[worker] = then;
        Ok(())
    }

    /// False as long as the worker cannot do it, since it has just started.
    pub async fn restart_task(&self, worker: usize, task: usize) -> Result<bool> {
        let api = Api::of(&self.life(worker)?.worker).await?;
        let path = format!("/connectors/{TOPIC}/tasks/{task}/restart");
        let answer = timeout(ANSWER, api.text(Method::POST, &path)).await;
        let (status, body) = answer.with_context(|| format!("no answer to {path}"))??;
        ensure!(!status.is_server_error(), "{path} is {status}: {body}");
        Ok(status == StatusCode::NO_CONTENT)
    }

    /// Looks at what there is to see of the workers.
    pub fn look(&mut self) -> Result<()> {
        let clock = self.clock;
        for (worker, lives) in self.lives.iter_mut().enumerate() {
            let Some(life) = lives.last_mut() else {
                continue;
            };
            life.look(|| clock.elapsed());
            let died = self.states[worker] == State::Runs && !life.lives()?;
            ensure!(
                !died,
                "worker {worker} died by itself: {}",
                life.worker.output()?
            );
        }
        let bytes = self.life(VETERAN)?.resident_bytes()?;
        self.memory.push((clock.elapsed(), bytes));
        Ok(())
    }

    /// How much each worker that runs has delivered in its present life.
    pub fn progress(&self) -> BTreeMap<(usize, usize), u64> {
        let runs = (0..WORKERS).filter(|worker| self.states[*worker] == State::Runs);
        let progress = runs.filter_map(|worker| {
            let life = self.lives[worker].last()?;
            Some(((worker, self.lives[worker].len()), life.delivered()))
        });
        progress.collect()
    }

    /// Records that a worker told to be in flight last.
    pub fn in_flight(&self, worker: usize) -> Result<u64> {
        if self.states[worker] == State::Dead {
            return Ok(0);
        }
        let status = self.life(worker)?.status()?;
        Ok(status.map_or(0, |status: Value| status["in_flight"].as_u64().unwrap_or(0)))
    }

    /// Ends all workers as an operator does, and tells which did not end well.
    pub async fn stop(&mut self) -> Result<Vec<String>> {
        let mut troubles = Vec::new();
        for worker in 0..WORKERS {
            let status = self.life(worker)?.worker.stop(END).await?;
            self.states[worker] = State::Dead;
            if status.code() != Some(0) {
                troubles.push(format!("worker {worker} ended with {status}"));
            }
        }
        Ok(troubles)
    }

    /// All deliveries by id, in the order of time.
    pub fn deliveries(&self) -> Result<BTreeMap<String, Vec<Delivery>>> {
        let mut deliveries = BTreeMap::new();
        for (worker, lives) in self.lives.iter().enumerate() {
            for life in lives {
                life.add_deliveries(worker, &mut deliveries)?;
            }
        }
        let each = deliveries.values_mut();
        each.for_each(|of_one: &mut Vec<Delivery>| of_one.sort_by_key(|one| one.until));
        Ok(deliveries)
    }

    pub fn most_in_flight(&self) -> Result<u64> {
        let mut most = 0;
        for life in self.lives.iter().flatten() {
            most = most.max(life.most_in_flight()?);
        }
        Ok(most)
    }

    /// Copies the workers' logs to where they outlive the test.
    pub fn keep_logs(&self) -> Result<std::path::PathBuf> {
        let folder = tempfile::Builder::new()
            .prefix("sluice-chaos-")
            .tempdir()?
            .keep();
        for (worker, lives) in self.lives.iter().enumerate() {
            for (number, life) in lives.iter().enumerate() {
                std::fs::copy(life.log(), folder.join(format!("{worker}-{number}.log")))?;
            }
        }
        Ok(folder)
    }

    fn life(&self, worker: usize) -> Result<&Life> {
        self.lives[worker].last().context("it was never started")
    }
}
