//! A connector at work while something happens to its broker.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::StatusCode;
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::ids;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::history::{log, number, statuses};
use crate::stage::{Stage, status, wait_for_status};

/// The longest that anything here may take on a slow machine. A broker was seen
/// to refuse a partition for over a minute after others were restarted.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Short, so that a lock that nobody knows of is soon over.
pub const LOCK_MS: &str = "3000";

/// The connector's worker, and what to look at.
pub struct Case<'a> {
    stage: &'a Stage,
    pub worker: Worker,
    api: Api,
    /// Status lines before this one belong to an earlier event.
    seen: usize,
}

/// A connector that tells what it delivers in the stage's file, and always has
/// records in flight.
pub fn connector(stage: &Stage) -> Value {
    let mut connector = stage.to_null(4);
    connector["record.latency.us"] = json!("2000");
    connector["share.record.lock.duration.ms"] = json!(LOCK_MS);
    connector
}

impl<'a> Case<'a> {
    pub async fn start(stage: &'a Stage, connector: &Value) -> Result<Self> {
        Self::with(stage, &stage.worker_options(connector)).await
    }

    /// Starts the worker, and waits until it delivers.
    pub async fn with(stage: &'a Stage, options: &WorkerOptions) -> Result<Self> {
        let worker = Worker::start(options)?;
        let api = Api::of(&worker).await?;
        let at_work = |status: &Value| status["accepted"].as_u64() > Some(0) && is_well(status);
        wait_for_status(&worker, "it is at work", PATIENCE, at_work).await?;
        Ok(Self {
            stage,
            worker,
            api,
            seen: 0,
        })
    }

    /// What the user sees: a trouble with these words in a status line and, for
    /// as long as it lasts, in the status by REST. The connector runs on.
    pub async fn is_troubled_by(&mut self, words: &[&str]) -> Result<()> {
        self.was_troubled_by(words).await?;
        let path = format!("/connectors/{}/status", self.stage.name);
        let told = |code, body: &Value| {
            let trouble = body["sluice"]["trouble"].as_str();
            code == StatusCode::OK
                && body["connector"]["state"] == "RUNNING"
                && trouble.is_some_and(|trouble| has(trouble, words))
        };
        self.api.wait_for(&path, PATIENCE, told).await?;
        Ok(())
    }

    /// The same for a trouble that may have given way to another one between two
    /// status lines: the log has each of them, and the status has had one.
    pub async fn was_troubled_by(&mut self, words: &[&str]) -> Result<()> {
        let from = self.seen;
        self.was_told_of(words).await?;
        eventually("the status shows a trouble", PATIENCE, async || {
            let since = statuses(&self.worker)?.split_off(from);
            let shown = since.iter().any(|status| status["trouble"] != "");
            ensure!(shown, "none in {} lines", since.len());
            Ok(())
        })
        .await
    }

    /// The same for a trouble that may have passed already between two status
    /// lines.
    pub async fn was_told_of(&mut self, words: &[&str]) -> Result<()> {
        let from = self.seen;
        self.seen = eventually("the trouble is told", PATIENCE, async || {
            let (mut statuses, mut troubles) = (0, Vec::new());
            for line in log(&self.worker)? {
                let is_status = line["message"] == "status";
                statuses += usize::from(is_status);
                let told = match is_status {
                    true => &line["trouble"],
                    false => &line["cause"],
                };
                let told = told.as_str().unwrap_or_default();
                if statuses > from && has(told, words) {
                    return Ok(statuses - 1);
                }
                if statuses > from && troubles.last().is_none_or(|last| last != told) {
                    troubles.push(told.to_owned());
                }
            }
            anyhow::bail!("{words:?} not told, but {troubles:?}")
        })
        .await?;
        Ok(())
    }

    /// Waits until nothing troubles it and records are accepted anew.
    pub async fn recovers(&mut self) -> Result<Value> {
        let before = self.count("accepted")?;
        let more = |status: &Value| status["accepted"].as_u64() > Some(before) && is_well(status);
        let status = wait_for_status(&self.worker, "it recovers", PATIENCE, more)
            .await
            .with_context(|| self.stage.kafka.log_tail())?;
        self.seen = statuses(&self.worker)?.len();
        Ok(status)
    }

    /// Waits until nothing troubles it, whatever comes.
    pub async fn is_well_again(&mut self) -> Result<Value> {
        wait_for_status(&self.worker, "it recovers", PATIENCE, is_well).await
    }

    pub fn count(&self, field: &str) -> Result<u64> {
        number(&status(&self.worker)?, field)
    }

    pub fn tally(&self) -> Result<Tally> {
        Tally::from_json_lines(&self.stage.file(), "/id")
    }

    /// Waits until the first `count` ids have arrived.
    pub async fn wait_for_ids(&self, count: usize) -> Result<()> {
        eventually("the ids arrive", PATIENCE, async || {
            let missing = self.tally()?.missing(ids(count));
            ensure!(
                missing.is_empty(),
                "{} of {count} are missing, {:?} among them; status {}",
                missing.len(),
                missing.first(),
                status(&self.worker)?
            );
            Ok(())
        })
        .await
    }

    /// The end of a test: the group has no lag, every id arrived, what came
    /// twice was open when its lock was lost, and the worker ends well.
    pub async fn ends_well(self, records: usize) -> Result<()> {
        self.stage.wait_until_consumed(PATIENCE).await?;
        self.loses_nothing(records).await
    }

    /// The same without a look at the lag.
    pub async fn loses_nothing(self, records: usize) -> Result<()> {
        self.wait_for_ids(records).await?;
        let settled = |status: &Value| status["in_flight"] == 0 && is_well(status);
        let status = wait_for_status(&self.worker, "all is settled", PATIENCE, settled).await?;
        let tally = self.tally()?;
        tally.at_least_once(ids(records))?;
        let open = number(&status, "lost")? + number(&status, "unknown")?;
        ensure!(
            tally.duplicates() as u64 <= open,
            "{} came twice, {open} were open: {status}",
            tally.duplicates()
        );
        assert_eq!(status["rejected"], 0, "{status}");
        let ended = self.worker.stop(PATIENCE).await?;
        assert_eq!(ended.code(), Some(0), "{}", self.worker.output()?);
        Ok(())
    }
}

pub fn is_well(status: &Value) -> bool {
    status["state"] == "RUNNING" && status["trouble"] == ""
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().all(|word| text.contains(word))
}
