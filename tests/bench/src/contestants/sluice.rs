//! A worker with the null sink, from its first to its last confirmed record.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::kafka::Kafka;
use sluice_test_support::process::Usage;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};
use tokio::time::sleep;

use super::{Measured, Series, rate};

/// In seconds.
pub const DAY: f64 = 86_400.0;
/// Often enough to tell a rate of a run of seconds.
const OFTEN_MS: u32 = 50;

/// What to run.
pub struct Case<'a> {
    pub kafka: &'a Kafka,
    pub binary: &'a Path,
    pub topic: &'a str,
    pub records: usize,
    pub tasks: usize,
    /// More keys for the connector.
    pub connector: &'a [(String, String)],
    /// Environment variables.
    pub environment: &'a [(&'a str, String)],
    pub round: &'a str,
    /// How often it tells its status, if not by default.
    pub status_interval_ms: Option<u32>,
    /// How long what it does behind its last record counts as well: exports,
    /// say.
    pub lingers: Duration,
}

impl<'a> Case<'a> {
    /// A worker that tells its status often, and nothing else of note.
    pub const fn of(kafka: &'a Kafka, binary: &'a Path, topic: &'a str) -> Self {
        Self {
            kafka,
            binary,
            topic,
            records: 0,
            tasks: 1,
            connector: &[],
            environment: &[],
            round: topic,
            status_interval_ms: Some(OFTEN_MS),
            lingers: Duration::ZERO,
        }
    }
}

/// Runs a worker over the whole topic with a share group of its own.
pub async fn measure(case: &Case<'_>) -> Result<Measured> {
    let finished = run(case).await?;
    let rate = rate(&finished.confirmed);
    Ok(Measured {
        rate: rate.context("too few status lines to tell a rate; more records")?,
        cpu_micros_per_record: finished.usage.cpu.as_secs_f64() * 1e6 / case.records as f64,
        peak_rss_mb: finished.usage.peak_rss_bytes as f64 / (1024.0 * 1024.0),
    })
}

/// A worker that has confirmed all records and stopped.
pub struct Finished {
    /// Seconds and records, from its status lines.
    pub confirmed: Series,
    pub usage: Usage,
    /// All that it logged.
    pub log: String,
}

/// Runs a worker until all records are confirmed, and stops it.
pub async fn run(case: &Case<'_>) -> Result<Finished> {
    let (worker, group) = start(case)?;
    let timeout = Duration::from_secs(120);
    eventually("all records are confirmed", timeout, async || {
        let log = worker.stderr()?;
        let confirmed = confirmed(&log).last().map_or(0, |(_, records)| *records);
        let trouble = || {
            log.lines()
                .rfind(|line| line.contains(r#""level":"ERROR""#))
        };
        ensure!(
            confirmed as usize >= case.records,
            "{confirmed} so far; {}",
            trouble().unwrap_or_default()
        );
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    sleep(case.lingers).await;
    let usage = worker.usage()?;
    // The rate is the worker's own count; that nothing is left, the broker's.
    let admin = case.kafka.admin().await?;
    admin
        .wait_until_consumed(&group, case.topic, Duration::from_secs(30))
        .await?;
    worker.stop(Duration::from_secs(20)).await?;
    let log = worker.stderr()?;
    Ok(Finished {
        confirmed: confirmed(&log),
        usage,
        log,
    })
}

/// Starts a worker; the name of its share group.
pub fn start(case: &Case<'_>) -> Result<(Worker, String)> {
    let name = format!("bench-{}", case.round);
    let connector = connector(&name, case.topic, case.tasks, case.connector);
    let mut options = options(case.kafka, case.binary).connector(&name, &connector);
    for (name, value) in case.environment {
        options = options.environment(name, value);
    }
    if let Some(interval) = case.status_interval_ms {
        options = options.property("status.log.interval.ms", &interval.to_string());
    }
    Ok((Worker::start(&options)?, group(&name)))
}

/// A worker without connectors.
pub fn options(kafka: &Kafka, binary: &Path) -> WorkerOptions {
    WorkerOptions::new(binary)
        .property("bootstrap.servers", kafka.bootstrap_servers())
        .property("log.format", "json")
        .property("listeners", "http://127.0.0.1:0")
}

/// A connector with the null sink, and these keys more.
pub fn connector(name: &str, topic: &str, tasks: usize, more: &[(String, String)]) -> Value {
    let mut connector = json!({
        "name": name,
        "connector.class": "null",
        "tasks.max": tasks.to_string(),
        "topics": topic,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "consumer.override.group.protocol": "share",
    });
    for (key, value) in more {
        connector[key] = json!(value);
    }
    connector
}

/// The share group of a connector.
pub fn group(connector: &str) -> String {
    format!("share-{connector}")
}

/// Seconds and confirmed records, from the worker's status lines.
pub fn confirmed(log: &str) -> Series {
    let mut series = Series::new();
    for line in events(log, "status") {
        let seconds = line["timestamp"].as_str().and_then(seconds);
        if let (Some(seconds), Some(records)) = (seconds, line["accepted"].as_u64()) {
            let last = series.last().map_or(seconds, |(last, _)| *last);
            // Over midnight; a run does not take a day.
            series.push((last + (seconds - last).rem_euclid(DAY), records));
        }
    }
    series
}

/// What was logged under that message.
pub fn events<'a>(log: &'a str, message: &'a str) -> impl Iterator<Item = Value> + 'a {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(move |line: &Value| line["message"] == message)
}

/// Seconds of the day of `2026-01-31T23:59:59.123456Z`.
fn seconds(timestamp: &str) -> Option<f64> {
    let time = timestamp.split('T').nth(1)?.trim_end_matches('Z');
    let mut parts = time.split(':').map(str::parse::<f64>);
    let mut next = || parts.next()?.ok();
    Some(next()? * 3600.0 + next()? * 60.0 + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn midnight_is_passed_as_any_other_time() {
        let line = |time, accepted: u64| {
            let timestamp = format!("2026-01-31T{time}Z");
            json!({"message": "status", "timestamp": timestamp, "accepted": accepted}).to_string()
        };
        let log = [line("23:59:59.5", 1), line("00:00:01.0", 7)].join("\n");
        assert_eq!(confirmed(&log), [(86_399.5, 1), (86_401.0, 7)]);
    }

    #[test]
    fn times_of_the_day_are_read_to_the_microsecond() {
        assert_eq!(seconds("2026-01-31T01:01:01.500000Z"), Some(3661.5));
        assert_eq!(seconds("yesterday"), None);
    }
}
