//! Sluice beside Kafka's `ConsumerPerformance`: the same broker, the same
//! topic, the same machine, in turns. Compare the ratio, not the rates: the
//! machine may be shared.

mod consumer_performance;
mod sluice;
mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};

use crate::table::{Round, print};

/// Measures the null sink through all actors against the plain consumer.
#[derive(Debug, Parser)]
struct Options {
    /// The worker to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Records in the topic.
    #[arg(long, default_value_t = 5_000_000)]
    records: usize,
    /// Bytes a record.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    #[arg(long, default_value_t = 12)]
    partitions: i32,
    #[arg(long, default_value_t = 4)]
    tasks: usize,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Fails when the median ratio is lower.
    #[arg(long)]
    at_least: Option<f64>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(1024)).await?;
    let topic = "bench";
    kafka
        .admin()
        .await?
        .create_topic(topic, options.partitions)
        .await?;
    let (bytes, partitions) = (options.bytes, options.partitions);
    let records = (0..options.records).zip((0..partitions).cycle());
    let records =
        records.map(move |(_, partition)| NewRecord::value(vec![b'x'; bytes]).partition(partition));
    produce(kafka.bootstrap_servers(), topic, records).await?;

    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let consumer = consumer_performance::measure(&kafka, topic, options.records).await?;
        let worker = sluice::measure(&sluice::Case {
            kafka: &kafka,
            binary: &options.binary,
            topic,
            records: options.records,
            tasks: options.tasks,
            round: number,
        })
        .await?;
        rounds.push(Round { consumer, worker });
    }
    let ratio = print(&rounds);
    match options.at_least {
        Some(least) if ratio < least => {
            anyhow::bail!("the median ratio {ratio:.2} is lower than {least}")
        }
        _ => Ok(()),
    }
}
