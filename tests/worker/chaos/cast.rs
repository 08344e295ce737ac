//! The workers of a run, over all their lives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use sluice_test_support::kafka::Kafka;
use sluice_test_support::process::Signal;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::WorkerOptions;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::cluster::TOPIC;
use super::connectors::{Role, connector, connector_of, in_flight_limit};
use super::endpoint::Endpoint;
use super::footprint::Footprint;
use super::life::Life;
use super::mood::Mood;
use super::schedule::{VETERAN, WORKERS};
use super::setting::Setting;
use super::verdict::Delivery;
use crate::api::Api;
use crate::history::number;
use crate::stage::BINARY;

const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
/// Exit codes of a worker that drained, and of one that had to release.
const ENDS: [i32; 2] = [0, 75];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Frozen,
    /// Was told to end, and may take its time.
    Ends,
    Dead,
}

pub struct Cast {
    setting: Setting,
    endpoint: Endpoint,
    kafka: Arc<Kafka>,
    /// A copy: a build while the run goes on would take the original away, and
    /// workers would start as others than they ended.
    binary: PathBuf,
    folder: TempDir,
    clock: Instant,
    lives: [Vec<Life>; WORKERS],
    states: [State; WORKERS],
}

impl Cast {
    /// Starts all workers and waits until they run.
    pub async fn start(setting: &Setting, kafka: Arc<Kafka>, clock: Instant) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let binary = folder.path().join("sluice");
        std::fs::copy(BINARY, &binary)?;
        let mut cast = Self {
            setting: setting.clone(),
            endpoint: Endpoint::start(folder.path()).await?,
            kafka,
            binary,
            folder,
            clock,
            lives: [const { Vec::new() }; WORKERS],
            states: [State::Dead; WORKERS],
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
        let role = Role {
            worker,
            life: number,
            file: &file,
        };
        let options = WorkerOptions::new(&self.binary)
            .property("bootstrap.servers", self.servers(worker)?)
            .property("log.format", "json")
            .property("status.log.interval.ms", "100")
            .connector(TOPIC, &connector(&self.setting, &self.endpoint, &role)?);
        self.lives[worker].push(Life::begin(&options, file)?);
        self.states[worker] = State::Runs;
        Ok(true)
    }

    fn servers(&self, worker: usize) -> Result<&str> {
        match worker {
            VETERAN => self.kafka.proxied_bootstrap_servers(),
            _ => Ok(self.kafka.bootstrap_servers()),
        }
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

    /// False as long as there is none.
    pub fn take_file(&mut self, worker: usize) -> Result<bool> {
        let clock = self.clock;
        let life = self.lives[worker].last_mut();
        let life = life.context("it was never started")?;
        life.take_file(|| clock.elapsed())
    }

    pub fn give_file_back(&self, worker: usize) -> Result<()> {
        self.life(worker)?.give_file_back()
    }

    /// Whether some worker that runs has told that it keeps to this limit of
    /// deliveries.
    pub fn follows(&self, limit: u16) -> Result<bool> {
        for worker in 0..WORKERS {
            if self.states[worker] == State::Runs
                && let Some(status) = self.life(worker)?.status()?
                && status["delivery_limit"] == limit
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub fn set_endpoint(&self, mood: Mood, lasts: Duration) {
        self.endpoint.set(mood, lasts);
    }

    pub fn is_done_with_worn(&self, records: usize) -> bool {
        self.endpoint.is_done_with_worn(records)
    }

    /// False as long as the worker cannot do it, since it has just started.
    pub async fn restart_task(&self, worker: usize, task: usize) -> Result<bool> {
        let api = Api::of(&self.life(worker)?.worker).await?;
        let path = format!("/connectors/{}/tasks/{task}/restart", connector_of(worker));
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

    /// Records that a worker told to be in flight last; as many as may be if it
    /// told nothing yet.
    pub fn in_flight(&self, worker: usize) -> Result<u64> {
        if self.states[worker] == State::Dead {
            return Ok(0);
        }
        match self.life(worker)?.status()? {
            Some(status) => number(&status, "in_flight"),
            None => in_flight_limit(),
        }
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

    /// Of all lives.
    pub fn footprints(&self) -> Result<Vec<Footprint>> {
        let mut footprints = Vec::new();
        for (worker, lives) in self.lives.iter().enumerate() {
            for (life, seen) in lives.iter().enumerate() {
                footprints.push(Footprint {
                    worker,
                    life,
                    memory: seen.memory().to_vec(),
                    credit: seen.credit()?,
                });
            }
        }
        Ok(footprints)
    }

    /// Copies the workers' logs to where they outlive the test.
    pub fn keep_logs(&self) -> Result<PathBuf> {
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
