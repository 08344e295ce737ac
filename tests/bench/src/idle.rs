//! A worker with next to nothing to do: how soon a record is settled, and what
//! waiting costs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

use crate::contestants::sluice;
use crate::machine;
use crate::report::{Goal, Section};

const TOPIC: &str = "idle";
const RECORDS: usize = 100;
const PERIOD: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub struct Options {
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    #[arg(long, default_value_t = 50)]
    tasks: usize,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.push(("tasks", json!(options.tasks)));
    let kafka = &Kafka::start(KafkaOptions::new()).await?;
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, options.partitions).await?;
    let (worker, group) = sluice::start(&sluice::Case {
        kafka,
        binary,
        topic: TOPIC,
        records: RECORDS,
        tasks: options.tasks,
        connector: &[],
        environment: &[],
        round: "idle",
        status_interval_ms: None,
        lingers: Duration::ZERO,
    })?;
    let url = worker.rest_url().await?;
    let mut ticks = interval(PERIOD);
    for number in 0..RECORDS {
        ticks.tick().await;
        let record = NewRecord::value(number.to_string());
        produce(kafka.bootstrap_servers(), TOPIC, [record]).await?;
    }
    admin
        .wait_until_consumed(&group, TOPIC, Duration::from_secs(30))
        .await?;
    let metrics = get(&url, "/metrics").await?;
    let median = median(&buckets(&metrics)).context("no settlements in /metrics")?;
    let before = worker.usage()?.cpu;
    sleep(REST).await;
    let busy = worker.usage()?.cpu - before;
    worker.stop(Duration::from_secs(20)).await?;
    let cpu_percent = busy.as_secs_f64() / REST.as_secs_f64() * 100.0;
    Ok(Section {
        key: "idle",
        title: "Next to nothing to do",
        intro: "10 records a second, then none.".to_owned(),
        facts,
        goals: vec![
            Goal::at_most(
                "median from the sink's word to the broker's answer, ms",
                10.0,
                median * 1000.0,
            ),
            Goal::at_most("CPU while nothing comes, % of a core", 1.0, cpu_percent),
        ],
        ..Section::default()
    })
}

/// The body of an answer; enough HTTP for one's own worker.
async fn get(url: &str, path: &str) -> Result<String> {
    let address = url.strip_prefix("http://").context("no http:// address")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{path} answered {head}");
    Ok(body.to_owned())
}

/// Upper bounds in seconds, and how many settlements stayed below.
fn buckets(metrics: &str) -> Vec<(f64, f64)> {
    let bucket = |line: &str| {
        let line = line.strip_prefix("sluice_settlement_seconds_bucket{")?;
        let (labels, count) = line.split_once("} ")?;
        let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
        // +Inf is a number to Rust as well.
        Some((bound.parse().ok()?, count.trim().parse().ok()?))
    };
    metrics.lines().filter_map(bucket).collect()
}

/// Interpolated within its bucket.
fn median(buckets: &[(f64, f64)]) -> Option<f64> {
    let half = buckets.last()?.1 / 2.0;
    let (mut bound_below, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= half && *count > below {
            return Some(bound_below + (bound - bound_below) * (half - below) / (count - below));
        }
        (bound_below, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_bucket_that_passes_the_half() {
        let text = "# HELP x\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"0.002\"} 10\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"0.004\"} 90\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"+Inf\"} 100\n\
                    sluice_settlement_seconds_count{connector=\"a\"} 100\n";
        let buckets = buckets(text);
        assert_eq!(buckets.len(), 3);
        let median = median(&buckets).unwrap();
        assert!((median - 0.003).abs() < 1e-9, "{median}");
    }

    #[test]
    fn nothing_settled_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[(1.0, 0.0)]), None);
    }
}
