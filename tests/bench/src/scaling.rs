//! More workers in one share group: what each of them adds.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::contestants::owned;
use crate::contestants::sluice::{self, DAY};
use crate::contestants::{Series, steady_rate};
use crate::figures::{median, median_ratio, turns};
use crate::fill::{fill, plain};
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

/// How many workers, and how many times the rate of one they are to reach.
const CREWS: [(usize, Option<f64>); 3] = [(1, None), (2, Some(1.9)), (4, Some(3.8))];
const RECORD_LATENCY: (&str, &str) = ("record.latency.us", "10000");
const TASK_RATE: f64 = 100.0;
const JOIN: Duration = Duration::from_secs(30);
const WITHIN: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
pub struct Options {
    /// Records in the topic for each worker.
    #[arg(long, default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(1..))]
    records_per_worker: u32,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Tasks of each worker: few enough that the sinks are the limit, not the
    /// processor that all workers share here.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const INTRO: &str = "Each record takes 10 ms: sinks sleep. All workers have the same connector, so the same share \
group, and join before the records come. The rate is that of confirmed settlements, of all workers by one clock, \
from the first tenth of the records to nine tenths; times one worker: the median of what the rounds came to.";

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("records_per_worker", json!(options.records_per_worker)),
        ("tasks_per_worker", json!(options.tasks)),
        ("partitions", json!(options.partitions)),
        ("rounds", json!(options.rounds)),
    ]);
    let bench = Bench {
        options,
        binary,
        kafka: Kafka::start(KafkaOptions::new()).await?,
    };
    let mut rates: [Vec<f64>; CREWS.len()] = Default::default();
    for round in 0..options.rounds as usize {
        for place in turns(round, CREWS.len()) {
            let workers = CREWS[place].0;
            let topic = format!("scaling-{round}-{workers}");
            rates[place].push(bench.rate(workers, &topic).await?);
        }
    }
    Ok(Section {
        key: "scaling",
        title: "More workers",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&rates, options.tasks)],
        goals: goals(&rates),
        ..Section::default()
    })
}

impl Bench<'_> {
    /// Confirmed records a second of so many workers, on a topic of their own.
    async fn rate(&self, workers: usize, name: &str) -> Result<f64> {
        let admin = self.kafka.admin().await?;
        admin.create_topic(name, self.options.partitions).await?;
        let (crew, group) = self.crew(workers, name).await?;
        let records = workers * self.options.records_per_worker as usize;
        let topic = (name, self.options.partitions);
        fill(&self.kafka, topic, records, plain, &[]).await?;
        eventually("all records are confirmed", WITHIN, async || {
            let so_far = together(&confirmed(&crew)?).last().map_or(0, |it| it.1);
            ensure!(so_far >= records as u64, "{so_far} of {records}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        // The rate is the workers' own count; that nothing is left, the broker's.
        admin.wait_until_consumed(&group, name, JOIN).await?;
        for worker in &crew {
            worker.stop(STOP).await?;
        }
        let rate = steady_rate(&together(&confirmed(&crew)?));
        rate.context("too few status lines to tell a rate; more records")
    }

    /// Workers that have joined their group, and its name.
    async fn crew(&self, workers: usize, name: &str) -> Result<(Vec<Worker>, String)> {
        let case = sluice::Case {
            tasks: self.options.tasks as usize,
            connector: &owned([RECORD_LATENCY]),
            ..sluice::Case::of(&self.kafka, self.binary, name)
        };
        let (first, group) = sluice::start(&case)?;
        let mut crew = vec![first];
        for _ in 1..workers {
            crew.push(sluice::start(&case)?.0);
        }
        for worker in &crew {
            let joined = |line: &str| line.contains("joined the share group");
            worker.wait_for_log(joined, JOIN).await?;
        }
        Ok((crew, group))
    }
}

fn confirmed(crew: &[Worker]) -> Result<Vec<Series>> {
    let series = crew.iter();
    series
        .map(|worker| Ok(sluice::confirmed(&worker.stderr()?)))
        .collect()
}

/// What all have confirmed, at each time at which one of them tells; in seconds
/// from the first one's begin.
fn together(all: &[Series]) -> Series {
    let begin = all.iter().flatten().next().map_or(0.0, |it| it.0);
    // Some may begin before midnight and some after it; a run does not take
    // half a day.
    let since_begin = |at: f64| (at - begin + DAY / 2.0).rem_euclid(DAY) - DAY / 2.0;
    let mut told: Vec<(f64, usize, u64)> = Vec::new();
    for (who, series) in all.iter().enumerate() {
        let series = series.iter();
        told.extend(series.map(|(at, records)| (since_begin(*at), who, *records)));
    }
    told.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut newest = vec![0; all.len()];
    let sum = |(at, who, records): (f64, usize, u64)| {
        newest[who] = records;
        (at, newest.iter().sum())
    };
    told.into_iter().map(sum).collect()
}

fn table(rates: &[Vec<f64>; CREWS.len()], tasks: u32) -> Table {
    let columns = vec![
        Column::new("confirmed a second, median", 0),
        Column::new("times one worker", 2),
        Column::new("of tasks / 10 ms", 3),
    ];
    let mut table = Table::new("workers", columns);
    for ((workers, _), of_these) in CREWS.iter().zip(rates) {
        let rate = median(of_these.iter().copied());
        let at_most = *workers as f64 * f64::from(tasks) * TASK_RATE;
        let figures = [rate, median_ratio(of_these, &rates[0]), rate / at_most];
        table.push(workers.to_string(), figures.map(Some));
    }
    table
}

fn goals(rates: &[Vec<f64>; CREWS.len()]) -> Vec<Goal> {
    let goal = |((workers, times), of_these): (&(usize, Option<f64>), &Vec<f64>)| {
        let what = format!("{workers} workers, times one");
        Some(Goal::at_least(
            what,
            (*times)?,
            median_ratio(of_these, &rates[0]),
        ))
    };
    CREWS.iter().zip(rates).filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_confirm_is_added_up_by_one_clock() {
        let one = vec![(1.0, 0), (2.0, 100), (4.0, 300)];
        let other = vec![(1.5, 50), (3.0, 150)];
        let sums = [(0.0, 0), (0.5, 50), (1.0, 150), (2.0, 250), (3.0, 450)];
        assert_eq!(together(&[one, other]), sums);
        assert_eq!(together(&[]), []);
    }

    #[test]
    fn workers_that_begin_on_both_sides_of_midnight_have_one_clock() {
        let (before, after) = (vec![(86_399.0, 1), (86_401.0, 5)], vec![(0.0, 10)]);
        let sums = [(0.0, 1), (1.0, 11), (2.0, 15)];
        assert_eq!(together(&[before.clone(), after.clone()]), sums);
        let sums = [(-1.0, 1), (0.0, 11), (1.0, 15)];
        assert_eq!(together(&[after, before]), sums);
    }

    #[test]
    fn a_worker_too_many_that_adds_too_little_misses_the_goal() {
        let rates = [vec![1000.0; 3], vec![1900.0; 3], vec![3700.0; 3]];
        let goals = goals(&rates);
        let met: Vec<bool> = goals.iter().map(|goal| goal.is_met(0.0)).collect();
        assert_eq!(met, [true, false], "{goals:?}");
        let text = table(&rates, 20).markdown();
        assert!(text.contains("| 1 | 1000 | 1.00 | 0.500 |\n"), "{text}");
        assert!(text.ends_with("| 4 | 3700 | 3.70 | 0.463 |\n"), "{text}");
    }
}
