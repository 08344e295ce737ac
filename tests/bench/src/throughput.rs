//! Sluice beside Kafka's `ConsumerPerformance` and `ShareConsumerPerformance`:
//! the same broker, the same topic, the same machine, in turns. Compare the
//! ratio, not the rates: the machine may be shared.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce_with};

use crate::output::{print, write};
use crate::report::{Fact, Report, Round};
use crate::{machine, peers, sluice};

const TOPIC: &str = "bench";
const BROKER_HEAP_MB: u32 = 1024;

/// Measures the null sink through all actors against Kafka's own consumers.
#[derive(Debug, Args)]
pub struct Options {
    /// The worker to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Records in the topic.
    #[arg(long, default_value_t = 5_000_000)]
    records: usize,
    /// Bytes a record.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// The producer's batch.size. Every consumer pays for each batch, so it
    /// counts for all; the default is Kafka's own.
    #[arg(long, default_value_t = 16_384)]
    batch_size: u32,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    #[arg(long, default_value_t = 4)]
    tasks: usize,
    /// Counted rounds.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// More keys for the connector, such as slow.match=every=1000.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    connector: Vec<(String, String)>,
    /// Fails when the median ratio is lower.
    #[arg(long)]
    at_least: Option<f64>,
    /// Writes settings and table to this file, too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Writes settings and figures to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text} is not KEY=VALUE"))
}

/// Measures, prints, and judges.
pub async fn run(options: &Options) -> Result<()> {
    let report = measure(options).await?;
    let table = report.markdown();
    print(&table);
    if let Some(file) = &options.markdown {
        write(file, &table)?;
    }
    if let Some(file) = &options.json {
        write(file, &format!("{:#}\n", report.json()))?;
    }
    if let Some(least) = options.at_least {
        let ratio = report.ratio();
        ensure!(
            ratio >= least,
            "the median ratio {ratio:.2} is lower than {least}"
        );
    }
    Ok(())
}

async fn measure(options: &Options) -> Result<Report> {
    let mut facts = machine::facts(&options.binary).await?;
    facts.extend(settings(options));
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(BROKER_HEAP_MB)).await?;
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, options.partitions).await?;
    fill(&kafka, options).await?;
    // Who comes first meets a broker that still interprets its code, and files
    // that were not read before. So a round of all goes ahead that does not count.
    let warm_up = round(&kafka, options, "warm-up").await?;
    let mut rounds = Vec::new();
    for number in 1..=options.rounds {
        rounds.push(round(&kafka, options, &number.to_string()).await?);
    }
    Ok(Report {
        facts,
        warm_up,
        rounds,
    })
}

fn settings(options: &Options) -> Vec<Fact> {
    let more: Vec<String> = options
        .connector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let mut settings = vec![
        ("broker_heap_mb", json!(BROKER_HEAP_MB)),
        ("records", json!(options.records)),
        ("record_bytes", json!(options.bytes)),
        ("producer_batch_size", json!(options.batch_size)),
        ("partitions", json!(options.partitions)),
        ("tasks", json!(options.tasks)),
    ];
    if !more.is_empty() {
        settings.push(("connector", json!(more.join(" "))));
    }
    settings
}

async fn fill(kafka: &Kafka, options: &Options) -> Result<()> {
    let (bytes, partitions) = (options.bytes, options.partitions);
    let records = (0..options.records)
        .zip((0..partitions).cycle())
        .map(move |(_, partition)| NewRecord::value(vec![b'x'; bytes]).partition(partition));
    let batch_size = options.batch_size.to_string();
    let properties = [("batch.size", batch_size.as_str())];
    produce_with(kafka.bootstrap_servers(), TOPIC, records, &properties).await?;
    Ok(())
}

/// One turn of each, with groups of their own.
async fn round(kafka: &Kafka, options: &Options, name: &str) -> Result<Round> {
    let (group, share_group) = (format!("plain-{name}"), format!("peer-{name}"));
    Ok(Round {
        consumer: peers::consumer(kafka, TOPIC, &group, options.records).await?,
        share_consumer: peers::share_consumer(kafka, TOPIC, &share_group, options.records).await?,
        worker: sluice::measure(&sluice::Case {
            kafka,
            binary: &options.binary,
            topic: TOPIC,
            records: options.records,
            tasks: options.tasks,
            connector: &options.connector,
            environment: &[],
            round: name,
            status_interval_ms: sluice::OFTEN_MS,
        })
        .await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_connector_are_split_at_their_first_equals_sign() {
        let rule = key_value("slow.match=every=1000").unwrap();
        assert_eq!(rule, ("slow.match".to_owned(), "every=1000".to_owned()));
        for wrong in ["slow.match", "=every"] {
            assert!(key_value(wrong).unwrap_err().contains(wrong));
        }
    }
}
