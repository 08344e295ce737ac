//! A few records that take far longer than the others: what they cost in
//! throughput, and how long the others wait for them.

mod distribution;
mod latency;
mod paced;
mod slow;
mod throughput;

use std::path::Path;

use anyhow::Result;
use clap::Args;
use clap::value_parser;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};

use crate::contestants::java::Classes;
use crate::machine;
use crate::report::Section;

/// A JVM with room for all that it may have in flight.
const HEAP_MB: u32 = 1024;
/// Share groups get the largest span that a broker allows by default.
const LOCKS: (&str, &str) = ("share.partition.max.record.locks", "4000");
const RECORD_LATENCY: (&str, &str) = ("record.latency.us", "1000");

#[derive(Debug, Args)]
pub struct Options {
    /// Records in the topic for throughput.
    #[arg(long, default_value_t = 400_000, value_parser = value_parser!(u32).range(1..))]
    records: u32,
    #[arg(long, default_value_t = 12, value_parser = value_parser!(u32).range(1..=1000))]
    partitions: u32,
    #[arg(long, default_value_t = 50, value_parser = value_parser!(u32).range(1..))]
    tasks: u32,
    /// How long records are produced for each distribution of latencies,
    /// warming up apart.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    seconds: u32,
    /// Rounds of the latencies.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..))]
    rounds: u32,
    /// Sluice alone.
    #[arg(long)]
    without_peers: bool,
}

const INTRO: &str = "Each record takes a millisecond, some take far longer. A put of any contestant delivers its \
fast records before it turns to its slow ones, and waits for all of those at once. Throughput: a full topic is read; \
at most, that is what so many tasks can do in the time that their sinks took. Latency: of the records that are not \
slow, from production to delivery, both by this program's clock, at half of the load that the tasks could carry with \
slow records, and at the same load without any. The slow records of the partitions come one after the other, \
not all at once. Medians of the rounds.";

/// What all runs share.
struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
    classes: Classes,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("records", json!(options.records)),
        ("tasks", json!(options.tasks)),
        ("partitions", json!(options.partitions)),
        ("seconds", json!(options.seconds)),
        ("rounds", json!(options.rounds)),
        (LOCKS.0, json!(LOCKS.1)),
    ]);
    let bench = Bench {
        options,
        binary,
        kafka: Kafka::start(KafkaOptions::new()).await?,
        classes: Classes::compile()?,
    };
    let throughput = bench.throughput().await?;
    let latency = bench.latency().await?;
    Ok(Section {
        key: "mixed",
        title: "Slow records among fast ones",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![throughput::table(&throughput), latency::table(&latency)],
        plots: latency::plots(&latency),
        goals: [throughput::goals(&throughput), latency::goals(&latency)].concat(),
    })
}
