//! What tracing costs a worker with the null sink, as CPU a record: in turns
//! without tracing, with it, and, if there is one, by a worker of before.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::collector::Collector;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};

use crate::output::print;
use crate::report::list;
use crate::{machine, sluice};

const TOPIC: &str = "bench";
const BROKER_HEAP_MB: u32 = 1024;
const PARTITIONS: i32 = 12;

/// Measures workers in turns.
#[derive(Debug, Args)]
pub struct Options {
    /// The worker to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Another worker, which traces nothing.
    #[arg(long)]
    base: Option<PathBuf>,
    /// Records in the topic.
    #[arg(long, default_value_t = 3_000_000)]
    records: usize,
    /// The part of the records that is sampled.
    #[arg(long, default_value_t = 0.01)]
    ratio: f64,
    /// Counted rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Fails when sampling costs more, as a part of what a record costs
    /// without.
    #[arg(long)]
    at_most: Option<f64>,
}

/// One who takes turns.
struct Turn<'a> {
    name: String,
    binary: &'a Path,
    environment: Vec<(&'static str, String)>,
    /// CPU a record in each round, in microseconds.
    costs: Vec<f64>,
}

impl Turn<'_> {
    fn median(&self) -> f64 {
        let mut costs = self.costs.clone();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Measures, prints, and judges.
pub async fn run(options: &Options) -> Result<()> {
    let mut facts = machine::facts(&options.binary).await?;
    facts.push(("records", json!(options.records)));
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(BROKER_HEAP_MB)).await?;
    kafka.admin().await?.create_topic(TOPIC, PARTITIONS).await?;
    let records = (0..options.records)
        .zip((0..PARTITIONS).cycle())
        .map(|(_, partition)| NewRecord::value(vec![b'x'; 100]).partition(partition));
    produce(kafka.bootstrap_servers(), TOPIC, records).await?;
    let collector = Collector::start().await?;
    let mut turns = turns(options, &collector);
    for round in 0..=options.rounds {
        for (number, turn) in turns.iter_mut().enumerate() {
            let cost = cost(&kafka, options, turn, &format!("{round}-{number}")).await?;
            // A broker that is cold counts for nobody.
            if round > 0 {
                turn.costs.push(cost);
            }
        }
    }
    let spans = collector.spans().len();
    ensure!(spans > 0 || options.ratio <= 0.0, "no span came");
    facts.push(("spans", json!(spans)));
    print(&format!("{}\n{}", list(&facts), table(&turns)));
    judge(options, &turns)
}

fn turns<'a>(options: &'a Options, collector: &Collector) -> Vec<Turn<'a>> {
    let turn = |name: &str, binary, environment| Turn {
        name: name.to_owned(),
        binary,
        environment,
        costs: Vec::new(),
    };
    let sampled = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
        ("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", options.ratio.to_string()),
    ];
    let mut turns = vec![
        turn("off", &*options.binary, Vec::new()),
        turn(
            &format!("ratio {}", options.ratio),
            &options.binary,
            sampled,
        ),
    ];
    if let Some(base) = &options.base {
        turns.push(turn("base", base, Vec::new()));
    }
    turns
}

async fn cost(kafka: &Kafka, options: &Options, turn: &Turn<'_>, round: &str) -> Result<f64> {
    let measured = sluice::measure(&sluice::Case {
        kafka,
        binary: turn.binary,
        topic: TOPIC,
        records: options.records,
        tasks: 4,
        connector: &[],
        environment: &turn.environment,
        round,
        status_interval_ms: sluice::OFTEN_MS,
    })
    .await?;
    Ok(measured.cpu_micros_per_record)
}

fn table(turns: &[Turn<'_>]) -> String {
    let mut text =
        "| tracing | CPU, µs/record, median | of off | rounds |\n|---|---:|---:|---|\n".to_owned();
    let off = turns.first().map_or(f64::NAN, Turn::median);
    for turn in turns {
        let rounds: Vec<String> = turn.costs.iter().map(|it| format!("{it:.3}")).collect();
        let (name, median, rounds) = (&turn.name, turn.median(), rounds.join(" "));
        let ratio = median / off;
        text += &format!("| {name} | {median:.3} | {ratio:.3} | {rounds} |\n");
    }
    text
}

fn judge(options: &Options, turns: &[Turn<'_>]) -> Result<()> {
    if let (Some(most), [off, sampled, ..]) = (options.at_most, turns) {
        let part = sampled.median() / off.median() - 1.0;
        ensure!(
            part <= most,
            "sampling costs {part:.3} of a record, more than {most}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(name: &str, costs: &[f64]) -> Turn<'static> {
        Turn {
            name: name.to_owned(),
            binary: Path::new("sluice"),
            environment: Vec::new(),
            costs: costs.to_vec(),
        }
    }

    #[test]
    fn medians_are_compared_with_those_without_tracing() {
        let turns = [
            turn("off", &[3.0, 0.2, 0.2]),
            turn("ratio 0.01", &[0.3, 0.1, 9.0]),
        ];
        let table = table(&turns);
        assert!(
            table.contains("| off | 0.200 | 1.000 | 3.000 0.200 0.200 |"),
            "{table}"
        );
        assert!(table.contains("| ratio 0.01 | 0.300 | 1.500 |"), "{table}");
        let options = |at_most| Options {
            binary: PathBuf::new(),
            base: None,
            records: 1,
            ratio: 0.01,
            rounds: 3,
            at_most,
        };
        judge(&options(Some(0.51)), &turns).unwrap();
        judge(&options(None), &turns).unwrap();
        judge(&options(Some(0.03)), &turns).unwrap_err();
    }
}
