//! What tracing costs a worker with the null sink, as CPU a record: in turns
//! without tracing, with it, and, if there is one, by another worker. By
//! default `trace.max.records.per.second` bounds what is traced, so the
//! same is measured without that bound as well: that tells the cost of one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::collector::Collector;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::NewRecord;

use crate::contestants::sluice;
use crate::figures::{self, median};
use crate::fill::{fill, plain};
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const TOPIC: &str = "bench";
const BROKER_HEAP_MB: u32 = 1024;
const PARTITIONS: i32 = 12;
/// Spans are sent so soon, so that a worker has sent them when its use is
/// looked at.
const SENT_WITHIN: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");
const LINGERS: Duration = Duration::from_secs(1);
/// Spreads numbers over all trace ids, which a ratio chooses by.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Measures workers in turns.
#[derive(Debug, Args)]
pub struct Options {
    /// Another worker, which traces nothing.
    #[arg(long)]
    base: Option<PathBuf>,
    /// Records in the topic.
    #[arg(long, default_value_t = 3_000_000)]
    records: usize,
    /// Each record carries the context of a producer's span, which was not
    /// sampled.
    #[arg(long)]
    with_context: bool,
    /// The part of the records that is sampled.
    #[arg(long, default_value_t = 0.01)]
    ratio: f64,
    /// Counted rounds.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
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

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.push(("records", json!(options.records)));
    facts.push(("rounds", json!(options.rounds)));
    facts.push(("records_carry_a_context", json!(options.with_context)));
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(BROKER_HEAP_MB)).await?;
    kafka.admin().await?.create_topic(TOPIC, PARTITIONS).await?;
    let with_context = options.with_context;
    let record = if with_context { with_a_context } else { plain };
    fill(&kafka, (TOPIC, PARTITIONS), options.records, record, &[]).await?;
    let mut turns = workers(options, binary);
    for round in 0..=options.rounds as usize {
        for place in figures::turns(round, turns.len()) {
            let turn = &mut turns[place];
            let cost = cost(&kafka, options, turn, &format!("{round}-{place}")).await?;
            // A broker that is cold counts for nobody.
            if round > 0 {
                turn.rounds.push(cost);
            }
        }
    }
    Ok(Section {
        key: if with_context {
            "traces-with-context"
        } else {
            "traces"
        },
        title: match with_context {
            true => "What tracing costs where each record carries a context",
            false => "What tracing costs",
        },
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&turns, options.records)],
        goals: goals(&turns),
        ..Section::default()
    })
}

const INTRO: &str = "CPU a record of a worker with the null sink, which does nothing else, so that the \
cost shows as large as it can be. By default `trace.max.records.per.second` bounds how many records are traced, \
and at this speed that is far below what the sampler chooses; the same without that bound tells what one of \
them costs, its export included.";

fn with_a_context(number: usize) -> NewRecord {
    plain(number).header("traceparent", not_sampled(number as u64))
}

/// A producer's span.
fn not_sampled(number: u64) -> String {
    let low = (number + 1).wrapping_mul(SPREAD);
    format!("00-{low:016x}{low:016x}-{:016x}-00", number + 1)
}

/// Off and within the bound come first: they are judged.
fn workers<'a>(options: &'a Options, binary: &'a Path) -> Vec<Turn<'a>> {
    let turn = |name: String, binary, traces| Turn {
        name,
        binary,
        traces,
        rounds: Vec::new(),
    };
    let (key, value) = SENT_WITHIN;
    let sampled = [
        (key, value.to_owned()),
        ("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", options.ratio.to_string()),
    ];
    let unbound = [
        ("SLUICE_TRACE_MAX_RECORDS_PER_SECOND", 1_000_000.to_string()),
        ("OTEL_BSP_MAX_QUEUE_SIZE", 100_000.to_string()),
    ];
    let ratio = options.ratio;
    let mut turns = vec![
        turn("off".to_owned(), binary, Vec::new()),
        turn(format!("ratio {ratio}"), binary, sampled.to_vec()),
        turn(
            format!("ratio {ratio}, without a bound"),
            binary,
            [&sampled[..], &unbound].concat(),
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
        records: options.records,
        tasks: 4,
        environment: &environment,
        round,
        lingers: LINGERS,
        ..sluice::Case::of(kafka, turn.binary, TOPIC)
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

fn table(turns: &[Turn<'_>], records: usize) -> Table {
    let columns = vec![
        Column::new("CPU, µs/record, median", 3),
        Column::new("of off", 3),
        Column::new("lowest", 3),
        Column::new("highest", 3),
        Column::new("records traced, median", 0),
        Column::new("CPU more, µs/record traced", 1),
    ];
    let mut table = Table::new("tracing", columns);
    let off = turns.first().map_or(f64::NAN, Turn::cpu);
    for turn in turns {
        let cpu = || turn.rounds.iter().map(|round| round.cpu);
        let (median, traced) = (turn.cpu(), turn.traced());
        let each = (traced > 0.0).then(|| (median - off) * records as f64 / traced);
        let figures = [
            Some(median),
            Some(median / off),
            cpu().reduce(f64::min),
            cpu().reduce(f64::max),
            Some(traced),
            each,
        ];
        table.push(&*turn.name, figures);
    }
    table
}

fn goals(turns: &[Turn<'_>]) -> Vec<Goal> {
    let [off, sampled, ..] = turns else {
        return Vec::new();
    };
    let mut goals = vec![Goal::at_most(
        format!(
            "CPU a record with {}, so many traced as the bound lets / off, medians",
            sampled.name
        ),
        1.03,
        sampled.cpu() / off.cpu(),
    )];
    if let [_, _, _, base] = turns {
        goals.push(Goal::at_most(
            "CPU a record off / the other worker's, medians",
            1.01,
            off.cpu() / base.cpu(),
        ));
    }
    goals
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

    #[test]
    fn medians_are_compared_with_those_without_tracing() {
        let turns = [
            turn("off", 0.0, &[3.0, 0.2, 0.2]),
            turn("ratio 0.01", 20.0, &[0.3, 0.1, 9.0]),
        ];
        let text = table(&turns, 1000).markdown();
        let off = "| off | 0.200 | 1.000 | 0.200 | 3.000 | 0 | |";
        assert!(text.contains(off), "{text}");
        let sampled = "| ratio 0.01 | 0.300 | 1.500 | 0.100 | 9.000 | 20 | 5.0 |";
        assert!(text.contains(sampled), "{text}");
        assert!(!goals(&turns)[0].is_met(0.0));
        assert!(goals(&turns)[0].is_met(0.5));
    }

    #[test]
    fn each_record_has_a_trace_of_its_own_that_a_ratio_may_choose() {
        let contexts: Vec<String> = (0..1000).map(not_sampled).collect();
        assert!(
            contexts
                .iter()
                .all(|it| it.len() == 55 && it.ends_with("-00"))
        );
        let chosen = contexts.iter().filter(|it| it[19..35] < *"2").count();
        assert!((100..150).contains(&chosen), "an eighth, not {chosen}");
    }

    #[test]
    fn those_who_are_judged_come_first() {
        let options = Options {
            base: Some(PathBuf::from("before")),
            records: 1,
            with_context: false,
            ratio: 0.01,
            rounds: 3,
        };
        let workers = workers(&options, Path::new("sluice"));
        assert!(workers[0].traces.is_empty());
        let bound = |turn: &Turn<'_>| turn.traces.iter().all(|(key, _)| !key.contains("MAX"));
        assert!(bound(&workers[1]) && !bound(&workers[2]));
        assert_eq!(goals(&workers).len(), 2);
    }
}
