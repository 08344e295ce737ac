//! A sink that does nothing: Sluice beside Kafka Connect, KIP-1302's loop and
//! Kafka's own consumers on the same broker, topic and machine, in turns.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::NewRecord;

use crate::contestants::connect::{Connect, NULL_SINK};
use crate::contestants::java::Classes;
use crate::contestants::krafka::Krafka;
use crate::contestants::owned;
use crate::contestants::share_loop::ShareLoop;
use crate::contestants::{Measured, performance, sluice};
use crate::figures::{median, median_ratio, turns};
use crate::fill::fill;
use crate::machine;
use crate::report::{Column, Fact, Goal, Section, Table};

const TOPIC: &str = "noop";
const BROKER_HEAP_MB: u32 = 1024;
/// Far more than the slowest needs.
const WITHIN: Duration = Duration::from_secs(300);
/// The heaps that Connect is tried with, and the part of its rate that it is to
/// keep.
const HEAPS_MB: [u32; 5] = [1024, 512, 256, 128, 64];
const KEEPS: f64 = 0.95;
const CONNECT_TASKS: [usize; 3] = [1, 4, 12];
/// A partition's span bounds its rate, so share groups get the broker's largest.
const LOCKS: (&str, &str) = ("share.partition.max.record.locks", "4000");

#[derive(Debug, Args)]
pub struct Options {
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
    /// Runs Connect with as many tasks as partitions and the second largest
    /// heap, and does not look for its best.
    #[arg(long)]
    no_search: bool,
    /// Counted rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Who takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Consumer,
    ShareConsumer,
    Connect,
    ShareLoop,
    Krafka,
    Sluice,
}

const ALL: [Who; 6] = [
    Who::Consumer,
    Who::ShareConsumer,
    Who::Connect,
    Who::ShareLoop,
    Who::Krafka,
    Who::Sluice,
];

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::Consumer => "ConsumerPerformance (settles nothing)",
            Self::ShareConsumer => "ShareConsumerPerformance (with its join)",
            Self::Connect => "Kafka Connect",
            Self::ShareLoop => "KIP-1302's loop in Java",
            Self::Krafka => "krafka's share consumer",
            Self::Sluice => "Sluice",
        }
    }
}

/// What one came to, by rounds.
#[derive(Debug, Default)]
struct Rounds {
    rates: Vec<f64>,
    /// None for Kafka's own tools, which end before they can be looked at.
    used: Vec<Measured>,
}

impl Rounds {
    fn cpu(&self) -> Vec<f64> {
        self.used
            .iter()
            .map(|it| it.cpu_micros_per_record)
            .collect()
    }

    fn memory(&self) -> Vec<f64> {
        self.used.iter().map(|it| it.peak_rss_mb).collect()
    }
}

/// How Connect is at its best.
#[derive(Clone, Copy, Debug)]
struct Best {
    tasks: usize,
    heap_mb: u32,
}

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
    classes: Classes,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(BROKER_HEAP_MB)).await?;
    kafka
        .admin()
        .await?
        .create_topic(TOPIC, options.partitions)
        .await?;
    let (topic, bytes) = ((TOPIC, options.partitions), options.bytes);
    let record = move |_| NewRecord::value(vec![b'x'; bytes]);
    let batch_size = [("batch.size", &*options.batch_size.to_string())];
    fill(&kafka, topic, options.records, record, &batch_size).await?;
    let bench = Bench {
        options,
        binary,
        kafka,
        classes: Classes::compile()?,
    };
    let best = bench.best().await?;
    facts.extend(bench.settings(best));
    let rounds = bench.rounds(best).await?;
    Ok(Section {
        key: "noop",
        title: "A sink that does nothing",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&rounds)],
        goals: goals(&rounds),
        ..Section::default()
    })
}

const INTRO: &str = "A topic is read to its end, in turns, by groups of their own. Sluice's rate is that of \
records whose settlement the broker has confirmed. CPU of the others counts from their first record on, \
Sluice's from its start. Ratios are medians of those of each round.";

impl Bench<'_> {
    fn settings(&self, best: Best) -> Vec<Fact> {
        let options = self.options;
        vec![
            ("broker_heap_mb", json!(BROKER_HEAP_MB)),
            ("records", json!(options.records)),
            ("record_bytes", json!(options.bytes)),
            ("producer_batch_size", json!(options.batch_size)),
            ("partitions", json!(options.partitions)),
            ("rounds", json!(options.rounds)),
            ("tasks", json!(options.tasks)),
            (LOCKS.0, json!(LOCKS.1)),
            ("connect_tasks", json!(best.tasks)),
            ("connect_heap_mb", json!(best.heap_mb)),
        ]
    }

    async fn rounds(&self, best: Best) -> Result<Vec<Rounds>> {
        let mut all: Vec<Rounds> = ALL.iter().map(|_| Rounds::default()).collect();
        // Who comes first meets a broker that still interprets its code, and
        // files that were not read before: the first round does not count.
        for round in 0..=self.options.rounds as usize {
            for place in turns(round, ALL.len()) {
                let (rate, used) = self.turn(ALL[place], best, &round.to_string()).await?;
                if round > 0 {
                    all[place].rates.push(rate);
                    all[place].used.extend(used);
                }
            }
        }
        Ok(all)
    }

    async fn turn(&self, who: Who, best: Best, turn: &str) -> Result<(f64, Option<Measured>)> {
        let (kafka, records) = (&self.kafka, self.options.records);
        let measured = match who {
            Who::Consumer => {
                let group = format!("plain-{turn}");
                let rate = performance::consumer(kafka, TOPIC, &group, records);
                return Ok((rate.await?, None));
            }
            Who::ShareConsumer => {
                let group = format!("peer-{turn}");
                let rate = performance::share_consumer(kafka, TOPIC, &group, records);
                return Ok((rate.await?, None));
            }
            Who::Connect => self.connect(best, turn).await?,
            Who::ShareLoop => {
                let peer = ShareLoop {
                    classes: &self.classes,
                    kafka,
                    topic: TOPIC,
                    tasks: self.options.tasks,
                    heap_mb: HEAPS_MB[0],
                    target: &[],
                    group: &[LOCKS],
                    turn,
                };
                peer.measure(records, WITHIN).await?
            }
            Who::Krafka => {
                let peer = Krafka {
                    kafka,
                    topic: TOPIC,
                    tasks: self.options.tasks,
                    record_latency_us: 0,
                    group: &[LOCKS],
                    turn,
                };
                peer.measure(records, WITHIN).await?
            }
            Who::Sluice => self.sluice(turn).await?,
        };
        Ok((measured.rate, Some(measured)))
    }

    async fn sluice(&self, turn: &str) -> Result<Measured> {
        sluice::measure(&sluice::Case {
            records: self.options.records,
            tasks: self.options.tasks,
            connector: &owned([LOCKS]),
            round: turn,
            ..sluice::Case::of(&self.kafka, self.binary, TOPIC)
        })
        .await
    }

    async fn connect(&self, best: Best, turn: &str) -> Result<Measured> {
        let peer = Connect {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: TOPIC,
            class: NULL_SINK,
            tasks: best.tasks,
            heap_mb: best.heap_mb,
            connector: &[],
            turn,
        };
        peer.measure(self.options.records, WITHIN).await
    }

    /// The number of tasks with the highest rate, and the smallest heap that
    /// keeps it.
    async fn best(&self) -> Result<Best> {
        let try_with = async |tasks, heap_mb| -> Result<(f64, Best)> {
            let best = Best { tasks, heap_mb };
            let turn = format!("search-{tasks}-{heap_mb}");
            Ok((self.connect(best, &turn).await?.rate, best))
        };
        if self.options.no_search {
            return Ok(Best {
                tasks: usize::try_from(self.options.partitions)?,
                heap_mb: HEAPS_MB[1],
            });
        }
        // The broker is cold.
        try_with(CONNECT_TASKS[1], HEAPS_MB[1]).await?;
        let mut tried = Vec::new();
        for tasks in CONNECT_TASKS {
            tried.push(try_with(tasks, HEAPS_MB[0]).await?);
        }
        let fastest = tried
            .into_iter()
            .max_by(|one, other| one.0.total_cmp(&other.0));
        let (rate, mut best) = fastest.context("nothing was tried")?;
        for heap_mb in &HEAPS_MB[1..] {
            // A heap that is too small ends it: that is no rate either.
            match try_with(best.tasks, *heap_mb).await {
                Ok((reached, smaller)) if reached >= rate * KEEPS => best = smaller,
                _ => break,
            }
        }
        Ok(best)
    }
}

fn place(who: Who) -> usize {
    ALL.iter().position(|it| *it == who).unwrap_or_default()
}

fn table(rounds: &[Rounds]) -> Table {
    let columns = vec![
        Column::new("records/s, median", 0),
        Column::new("lowest", 0),
        Column::new("highest", 0),
        Column::new("Sluice's rate is so many times", 2),
        Column::new("CPU, µs/record", 2),
        Column::new("peak memory, MB", 0),
    ];
    let mut table = Table::new("who", columns);
    let sluice = &rounds[place(Who::Sluice)];
    for (who, figures) in ALL.iter().zip(rounds) {
        let rates = || figures.rates.iter().copied();
        let used = |figures: Vec<f64>| (!figures.is_empty()).then(|| median(figures));
        let figures = [
            Some(median(rates())),
            rates().reduce(f64::min),
            rates().reduce(f64::max),
            Some(median_ratio(&sluice.rates, &figures.rates)),
            used(figures.cpu()),
            used(figures.memory()),
        ];
        table.push(who.name(), figures);
    }
    table
}

fn goals(rounds: &[Rounds]) -> Vec<Goal> {
    let of = |who| &rounds[place(who)];
    let (sluice, connect) = (of(Who::Sluice), of(Who::Connect));
    vec![
        Goal::at_least(
            "rate / Connect's",
            2.5,
            median_ratio(&sluice.rates, &connect.rates),
        ),
        Goal::at_least(
            "rate / ConsumerPerformance's",
            0.8,
            median_ratio(&sluice.rates, &of(Who::Consumer).rates),
        ),
        Goal::at_most(
            "CPU a record / Connect's",
            0.25,
            median_ratio(&sluice.cpu(), &connect.cpu()),
        ),
        Goal::at_most(
            "peak memory / Connect's",
            0.125,
            median_ratio(&sluice.memory(), &connect.memory()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[f64], cpu: Option<f64>) -> Rounds {
        let used = |rate: &f64| {
            cpu.map(|cpu_micros_per_record| Measured {
                rate: *rate,
                cpu_micros_per_record,
                peak_rss_mb: 10.0 * cpu_micros_per_record,
            })
        };
        Rounds {
            rates: rates.to_vec(),
            used: rates.iter().filter_map(used).collect(),
        }
    }

    fn all() -> Vec<Rounds> {
        vec![
            rounds(&[100.0, 200.0, 100.0], None),
            rounds(&[10.0, 10.0, 10.0], None),
            rounds(&[30.0, 30.0, 30.0], Some(4.0)),
            rounds(&[15.0, 15.0, 15.0], Some(8.0)),
            rounds(&[45.0, 45.0, 45.0], Some(2.0)),
            rounds(&[90.0, 100.0, 120.0], Some(1.0)),
        ]
    }

    #[test]
    fn ratios_are_medians_of_those_of_each_round() {
        let text = table(&all()).markdown();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows[0],
            "| ConsumerPerformance (settles nothing) | 100 | 100 | 200 | 0.90 | | |"
        );
        assert_eq!(
            rows[2],
            "| Kafka Connect | 30 | 30 | 30 | 3.33 | 4.00 | 40 |"
        );
    }

    #[test]
    fn goals_are_judged_by_the_one_that_they_name() {
        let goals = goals(&all());
        assert!(goals[0].is_met(0.0), "{}", goals[0]);
        assert!(goals[1].is_met(0.0) && !goals[3].is_met(0.0), "{goals:?}");
        assert!(goals[2].is_met(0.0), "{}", goals[2]);
    }
}
