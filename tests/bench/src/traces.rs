//! What tracing costs a worker with the null sink, as CPU a record: in turns
//! without tracing, with it, and, if there is one, by another worker. By
//! default `trace.max.records.per.second` bounds what is traced, so the
//! same is measured without that bound as well: that tells the cost of one.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::collector::Collector;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};

use crate::output::{print, write};
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
    /// Fails when sampling within the default bound costs more, as a part of
    /// what a record costs without.
    #[arg(long)]
    at_most: Option<f64>,
    /// Writes settings and table to this file, too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// One who takes turns.
struct Turn<'a> {
    name: String,
    binary: &'a Path,
    traces: Vec<(&'static str, String)>,
    rounds: Vec<Cost>,
}

/// What one round came to.
#[derive(Clone, Copy)]
struct Cost {
    /// CPU, in microseconds a record.
    cpu: f64,
    /// Records whose delivery came as a span.
    traced: f64,
}

impl Turn<'_> {
    fn cpu(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.cpu))
    }

    fn traced(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.traced))
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
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
    let mut turns = turns(options);
    let many = turns.len();
    for round in 0..=options.rounds as usize {
        for place in 0..many {
            // Nobody always comes behind the same one.
            let turn = &mut turns[(round + place) % many];
            let cost = cost(&kafka, options, turn, &format!("{round}-{place}")).await?;
            // A broker that is cold counts for nobody.
            if round > 0 {
                turn.rounds.push(cost);
            }
        }
    }
    let text = format!("{}\n{}", list(&facts), table(&turns, options.records));
    print(&text);
    if let Some(file) = &options.markdown {
        write(file, &text)?;
    }
    judge(options, &turns)
}

/// Off and within the bound come first: they are judged.
fn turns(options: &Options) -> Vec<Turn<'_>> {
    let turn = |name: String, binary, traces| Turn {
        name,
        binary,
        traces,
        rounds: Vec::new(),
    };
    let sampled = [
        ("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", options.ratio.to_string()),
    ];
    let unbound = [
        ("SLUICE_TRACE_MAX_RECORDS_PER_SECOND", 1_000_000.to_string()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", 100_000.to_string()),
    ];
    let (binary, ratio) = (&*options.binary, options.ratio);
    let mut turns = vec![
        turn("off".to_owned(), binary, Vec::new()),
        turn(format!("ratio {ratio}"), binary, sampled.to_vec()),
        turn(
            format!("ratio {ratio}, without a bound"),
            binary,
            [sampled, unbound].concat(),
        ),
    ];
    if let Some(base) = &options.base {
        turns.push(turn("off, the other worker".to_owned(), base, Vec::new()));
    }
    turns
}

async fn cost(kafka: &Kafka, options: &Options, turn: &Turn<'_>, round: &str) -> Result<Cost> {
    let collector = Collector::start().await?;
    let mut environment = turn.traces.clone();
    if !environment.is_empty() {
        environment.push(("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()));
    }
    let measured = sluice::measure(&sluice::Case {
        kafka,
        binary: turn.binary,
        topic: TOPIC,
        records: options.records,
        tasks: 4,
        connector: &[],
        environment: &environment,
        round,
        status_interval_ms: sluice::OFTEN_MS,
    })
    .await?;
    let spans = collector.spans();
    let deliveries = spans
        .iter()
        .filter(|span| span.name.starts_with("process "));
    let traced = deliveries.count();
    ensure!(
        traced > 0 || environment.is_empty() || options.ratio <= 0.0,
        "no span came"
    );
    Ok(Cost {
        cpu: measured.cpu_micros_per_record,
        traced: traced as f64,
    })
}

fn table(turns: &[Turn<'_>], records: usize) -> String {
    let mut text = "| tracing | CPU, µs/record, median | of off | records traced, median | CPU more, µs/record traced | rounds |\n\
                    |---|---:|---:|---:|---:|---|\n"
        .to_owned();
    let off = turns.first().map_or(f64::NAN, Turn::cpu);
    for turn in turns {
        let rounds: Vec<String> = turn
            .rounds
            .iter()
            .map(|it| format!("{:.3}", it.cpu))
            .collect();
        let (name, cpu, traced, rounds) = (&turn.name, turn.cpu(), turn.traced(), rounds.join(" "));
        let ratio = cpu / off;
        let each = if traced > 0.0 {
            format!("{:.1}", (cpu - off) * records as f64 / traced)
        } else {
            String::new()
        };
        text += &format!("| {name} | {cpu:.3} | {ratio:.3} | {traced:.0} | {each} | {rounds} |\n");
    }
    text
}

fn judge(options: &Options, turns: &[Turn<'_>]) -> Result<()> {
    if let (Some(most), [off, sampled, ..]) = (options.at_most, turns) {
        let part = sampled.cpu() / off.cpu() - 1.0;
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

    fn turn(name: &str, traced: f64, costs: &[f64]) -> Turn<'static> {
        Turn {
            name: name.to_owned(),
            binary: Path::new("sluice"),
            traces: Vec::new(),
            rounds: costs.iter().map(|cpu| Cost { cpu: *cpu, traced }).collect(),
        }
    }

    fn options(at_most: Option<f64>) -> Options {
        Options {
            binary: PathBuf::new(),
            base: None,
            records: 1,
            ratio: 0.01,
            rounds: 3,
            at_most,
            markdown: None,
        }
    }

    #[test]
    fn medians_are_compared_with_those_without_tracing() {
        let turns = [
            turn("off", 0.0, &[3.0, 0.2, 0.2]),
            turn("ratio 0.01", 20.0, &[0.3, 0.1, 9.0]),
        ];
        let table = table(&turns, 1000);
        assert!(
            table.contains("| off | 0.200 | 1.000 | 0 |  | 3.000 0.200 0.200 |"),
            "{table}"
        );
        let sampled = "| ratio 0.01 | 0.300 | 1.500 | 20 | 5.0 |";
        assert!(table.contains(sampled), "{table}");
        judge(&options(Some(0.51)), &turns).unwrap();
        judge(&options(None), &turns).unwrap();
        judge(&options(Some(0.03)), &turns).unwrap_err();
    }

    #[test]
    fn those_who_are_judged_come_first() {
        let options = options(None);
        let turns = turns(&options);
        assert!(turns[0].traces.is_empty());
        let bound = |turn: &Turn<'_>| turn.traces.iter().all(|(key, _)| !key.contains("MAX"));
        assert!(bound(&turns[1]) && !bound(&turns[2]));
    }
}
