//! Workers that share a group. Each writes to a file of its own, so that it
//! shows who delivered what.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::counting::Tally;
use sluice_test_support::produce::ids;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tokio::time::Instant;

use crate::history::{number, statuses};
use crate::stage::{Stage, lines, status, wait_for_status};

pub const START: Duration = Duration::from_secs(20);

/// A worker whose connector is a member of the stage's group.
pub struct Member {
    pub worker: Worker,
    file: PathBuf,
}

impl Member {
    /// Starts a worker that writes to a file, with these settings more, and
    /// waits until it runs.
    pub async fn writing(stage: &Stage, name: &str, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start(stage, name, stage.to_file_of(name, 4), settings).await
    }

    /// Starts one with a null sink, whose settings say what it does.
    pub async fn forgetting(stage: &Stage, name: &str, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start(stage, name, stage.connector("null", 4), settings).await
    }

    /// Starts one that takes its time before it writes, so that it has
    /// something in flight for as long as there are records.
    pub async fn lingering(stage: &Stage, name: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let mut connector = stage.connector("null", 4);
        connector["record.file"] = json!(stage.file_of(name));
        connector["record.latency.us"] = json!("500");
        Self::start(stage, name, connector, settings).await
    }

    async fn start(
        stage: &Stage,
        name: &str,
        mut connector: Value,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        for (key, value) in settings {
            connector[*key] = Value::from(*value);
        }
        let member = Self {
            worker: stage.worker(&connector)?,
            file: stage.file_of(name),
        };
        let running = |status: &Value| status["state"] == "RUNNING";
        wait_for_status(&member.worker, "it runs", START, running).await?;
        Ok(member)
    }

    /// What the newest status line says.
    pub fn count(&self, field: &str) -> Result<u64> {
        number(&status(&self.worker)?, field)
    }

    /// Waits until a count of the status is as wanted.
    pub async fn wait_for(
        &self,
        field: &str,
        timeout: Duration,
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Value> {
        let wanted = |status: &Value| status[field].as_u64().is_some_and(&wanted);
        wait_for_status(&self.worker, field, timeout, wanted).await
    }

    pub fn tally(&self) -> Result<Tally> {
        tally(&[self])
    }
}

/// What arrived in the files of these members, taken together.
pub fn tally(members: &[&Member]) -> Result<Tally> {
    let mut arrived = Vec::new();
    for member in members {
        arrived.extend(std::fs::read(&member.file)?);
    }
    let lines = arrived.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    Ok(Tally::from_json_values(lines, "/id"))
}

/// How many lines these members have written.
pub fn arrivals(members: &[&Member]) -> usize {
    members.iter().map(|member| lines(&member.file)).sum()
}

/// Waits until the first `count` ids are in the files of these members.
pub async fn wait_for_ids(members: &[&Member], count: usize, timeout: Duration) -> Result<()> {
    eventually("the ids arrive", timeout, async || {
        let missing = tally(members)?.missing(ids(count));
        ensure!(
            missing.is_empty(),
            "{} of {count} are missing, {:?} among them",
            missing.len(),
            missing.first()
        );
        Ok(())
    })
    .await
}

/// The sum of a count over these members.
pub fn sum(members: &[&Member], field: &str) -> Result<u64> {
    members.iter().map(|member| member.count(field)).sum()
}

/// Records a second, over the time in which these members write so many lines.
pub async fn file_rate(members: &[&Member], lines: usize) -> Result<f64> {
    rate(lines as u64, || Ok(arrivals(members) as u64)).await
}

/// Records a second, over the time in which a connector delivers so many.
pub async fn delivery_rate(worker: &Worker, connector: &str, records: u64) -> Result<f64> {
    rate(records, || {
        number(&status_of(worker, connector)?, "delivered")
    })
    .await
}

async fn rate(records: u64, count: impl Fn() -> Result<u64>) -> Result<f64> {
    let minute = Duration::from_secs(60);
    let (first, began) = (count()?, Instant::now());
    let last = eventually("so many are delivered", minute, async || {
        let now = count()?;
        ensure!(now >= first + records, "{} of {records}", now - first);
        Ok(now)
    })
    .await?;
    Ok((last - first) as f64 / began.elapsed().as_secs_f64())
}

/// The newest status line of one of a worker's connectors.
pub fn status_of(worker: &Worker, connector: &str) -> Result<Value> {
    let mut lines = statuses(worker)?;
    lines.retain(|line| line["connector"] == connector);
    lines.pop().context("no status line yet")
}
