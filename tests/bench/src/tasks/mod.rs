//! Records that take a millisecond each, with ever more tasks: how near they
//! come to what such tasks can do at most. A sink of Kafka Connect stops at as
//! many tasks as there are partitions.

mod evidence;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::usage;

use self::evidence::{Cpu, Evidence};

use crate::contestants::connect::{Connect, NULL_SINK};
use crate::contestants::java::Classes;
use crate::contestants::owned;
use crate::contestants::share_loop::ShareLoop;
use crate::contestants::sinks::sinks;
use crate::contestants::{Series, sluice, steady_rate};
use crate::fill::{fill, plain};
use crate::report::{Column, Goal, Line, Plot, Scale, Section, Table};
use crate::{machine, sleepers};

/// How long the sleepers run without Kafka.
const SLEEPERS: Duration = Duration::from_secs(4);
const RECORD_LATENCY: (&str, &str) = ("record.latency.us", "1000");
const WITHIN: Duration = Duration::from_secs(120);
const HEAP_MB: u32 = 1024;
/// A JVM with more share consumers does nothing but switch between them.
const MOST_LOOPS: usize = 50;
/// Kafka's own. A share consumer takes whole batches, so that Java's loop would
/// sleep for seconds on larger ones.
pub(crate) const BATCH_SIZE: (&str, &str) = ("batch.size", "16384");
const LOCKS: &str = "share.partition.max.record.locks";
const DEFAULT_LOCKS: u32 = 2000;
/// The most that a group may have, unless the broker is set to allow more.
const DEFAULT_BOUND: u32 = 4000;
/// The most that a broker can be set to allow.
const MOST_LOCKS: u32 = 10_000;
const BOUND: &str = "group.share.max.partition.max.record.locks";

#[derive(Debug, Args)]
pub struct Options {
    /// How many tasks.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 12, 50, 200])]
    tasks: Vec<usize>,
    /// Tasks on a topic of one partition; 0 leaves that out.
    #[arg(long, default_value_t = 500)]
    tasks_on_one: usize,
    /// Records for each task: as many milliseconds does it take.
    #[arg(long, default_value_t = 8000, value_parser = clap::value_parser!(u32).range(1..))]
    records_per_task: u32,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Sluice alone.
    #[arg(long)]
    without_peers: bool,
}

const INTRO: &str = "Each record takes a millisecond: sinks sleep. At most, that is what the same sinks do without \
Kafka in the same run, given chunks as large as the worker's were: timers have a grain, and the machine its \
cores. Connect has at most a task for each partition. One partition is bound by its span of offsets in \
flight as well: share.partition.max.record.locks / (a put + the way from the broker and back), so once with Kafka's \
default of 2000, and once with the most that a broker can be set to allow. The ratio is that to the lower bound.";

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
    classes: Classes,
}

/// So many tasks on so many partitions.
#[derive(Clone, Copy)]
struct Case<'a> {
    topic: &'a str,
    tasks: usize,
    records: usize,
    locks: u32,
    on_one: bool,
}

/// What they came to; the peers' rates if they were there.
struct Reached {
    name: String,
    tasks: usize,
    own: Own,
    connect: Option<f64>,
    share_loop: Option<f64>,
    /// The part of the limit that is to be reached.
    goal: Option<f64>,
}

/// What Sluice came to.
#[derive(Clone, Copy)]
struct Own {
    rate: f64,
    /// What the sinks reach without Kafka.
    sleepers: f64,
    /// What the span of a single partition allows.
    span: Option<f64>,
    evidence: Evidence,
}

impl Own {
    fn ratio(&self) -> f64 {
        self.rate / self.span.unwrap_or(f64::INFINITY).min(self.sleepers)
    }
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("partitions", json!(options.partitions)),
        ("records_per_task", json!(options.records_per_task)),
        ("producer_batch_size", json!(BATCH_SIZE.1)),
    ]);
    let kafka = KafkaOptions::new().property(BOUND, &MOST_LOCKS.to_string());
    let kafka = Kafka::start(kafka).await?;
    let bench = Bench {
        options,
        binary,
        kafka,
        classes: Classes::compile()?,
    };
    let mut all = Vec::new();
    for tasks in &options.tasks {
        all.push(bench.spread(*tasks).await?);
    }
    let plot = plot(&all);
    if options.tasks_on_one > 0 {
        all.extend(bench.on_one_partition(options.tasks_on_one).await?);
    }
    let evidence = evidence::table(all.iter().map(|it| (&*it.name, &it.own.evidence)));
    Ok(Section {
        key: "tasks",
        title: "More tasks than partitions",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&all), evidence],
        plots: vec![plot],
        goals: goals(&all),
    })
}

impl Bench<'_> {
    async fn spread(&self, tasks: usize) -> Result<Reached> {
        let (partitions, peers) = (self.options.partitions, !self.options.without_peers);
        let topic = format!("tasks-{tasks}");
        let case = Case {
            topic: &topic,
            tasks,
            records: self.fill(&topic, partitions, tasks).await?,
            locks: DEFAULT_BOUND,
            on_one: false,
        };
        let own = self.sluice(case).await?;
        let connect = if peers && tasks <= usize::try_from(partitions)? {
            Some(self.connect(case).await?)
        } else {
            None
        };
        let share_loop = if peers && tasks <= MOST_LOOPS {
            Some(self.share_loop(case).await?)
        } else {
            None
        };
        Ok(Reached {
            name: format!("{tasks} on {partitions} partitions"),
            tasks,
            own,
            connect,
            share_loop,
            goal: match tasks {
                50 => Some(0.95),
                200 => Some(0.9),
                _ => None,
            },
        })
    }

    /// With a span that bounds nobody, and with Kafka's own.
    async fn on_one_partition(&self, tasks: usize) -> Result<[Reached; 2]> {
        let records = self.fill("one", 1, tasks).await?;
        let mut reached = Vec::new();
        for locks in [MOST_LOCKS, DEFAULT_LOCKS] {
            let case = Case {
                topic: "one",
                tasks,
                records,
                locks,
                on_one: true,
            };
            reached.push(Reached {
                name: format!("{tasks} on one partition, {locks} locks"),
                tasks,
                own: self.sluice(case).await?,
                connect: None,
                share_loop: None,
                goal: Some(0.9),
            });
        }
        reached.try_into().map_err(|_| anyhow!("two were measured"))
    }

    async fn fill(&self, topic: &str, partitions: i32, tasks: usize) -> Result<usize> {
        let records = tasks * self.options.records_per_task as usize;
        self.kafka
            .admin()
            .await?
            .create_topic(topic, partitions)
            .await?;
        let topic = (topic, partitions);
        fill(&self.kafka, topic, records, plain, &[BATCH_SIZE]).await
    }

    /// The rate, and what its sinks can do at most.
    async fn sluice(&self, case: Case<'_>) -> Result<Own> {
        let locks = case.locks.to_string();
        let broker = self.broker_cpu()?;
        let finished = sluice::run(&sluice::Case {
            records: case.records,
            tasks: case.tasks,
            connector: &owned([RECORD_LATENCY, (LOCKS, &locks)]),
            round: &format!("{}-{locks}", case.topic),
            ..sluice::Case::of(&self.kafka, self.binary, case.topic)
        })
        .await?;
        let broker = self.broker_cpu()? - broker;
        let sinks = sinks(&finished.log)?;
        let chunk = (sinks.records / sinks.puts).round().max(1.0) as usize;
        let tasks = u32::try_from(case.tasks)?;
        let own_cpu = || usage(std::process::id()).map(|it| it.cpu.as_secs_f64());
        let begin = own_cpu()?;
        let sleepers = sleepers::rate(tasks, chunk, &[RECORD_LATENCY], SLEEPERS).await?;
        let cpu = Cpu {
            broker,
            sleepers: (own_cpu()? - begin) / SLEEPERS.as_secs_f64(),
        };
        let rate = steady(&finished.confirmed)?;
        let evidence = Evidence::new(&finished, &sinks, case.tasks, rate, cpu)?;
        Ok(Own {
            rate,
            sleepers,
            span: case
                .on_one
                .then(|| evidence.span_law(f64::from(case.locks))),
            evidence,
        })
    }

    /// Seconds so far.
    fn broker_cpu(&self) -> Result<f64> {
        let pid = self.kafka.node_pid(1)?.context("the broker has ended")?;
        Ok(usage(pid)?.cpu.as_secs_f64())
    }

    async fn connect(&self, case: Case<'_>) -> Result<f64> {
        let peer = Connect {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: case.topic,
            class: NULL_SINK,
            tasks: case.tasks,
            heap_mb: HEAP_MB,
            connector: &owned([RECORD_LATENCY]),
            turn: case.topic,
        };
        let peer = peer.start()?;
        steady(&peer.has_taken(case.records as u64, WITHIN).await?)
    }

    async fn share_loop(&self, case: Case<'_>) -> Result<f64> {
        let peer = ShareLoop {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: case.topic,
            tasks: case.tasks,
            heap_mb: HEAP_MB,
            target: &owned([RECORD_LATENCY]),
            group: &[(LOCKS, &case.locks.to_string())],
            turn: case.topic,
        };
        let peer = peer.start().await?;
        steady(&peer.has_taken(case.records as u64, WITHIN).await?)
    }
}

fn steady(series: &Series) -> Result<f64> {
    steady_rate(series).context("too few records to tell a rate")
}

fn table(all: &[Reached]) -> Table {
    let columns = vec![
        Column::new("Sluice, records/s", 0),
        Column::new("sleepers without Kafka", 0),
        Column::new("by the span of one partition", 0),
        Column::new("ratio", 3),
        Column::new("Kafka Connect, records/s", 0),
        Column::new("KIP-1302's loop in Java, records/s", 0),
    ];
    let mut table = Table::new("tasks", columns);
    for it in all {
        let figures = [
            Some(it.own.rate),
            Some(it.own.sleepers),
            it.own.span,
            Some(it.own.ratio()),
            it.connect,
            it.share_loop,
        ];
        table.push(&*it.name, figures);
    }
    table
}

fn plot(all: &[Reached]) -> Plot {
    let line = |name: &str, rate: fn(&Reached) -> Option<f64>| Line {
        name: name.to_owned(),
        points: all
            .iter()
            .filter_map(|it| Some((it.tasks as f64, rate(it)?)))
            .collect(),
    };
    Plot {
        file: "tasks",
        title: "1 ms a record, 12 partitions",
        x: ("tasks", Scale::Logarithmic),
        y: ("records a second", Scale::Logarithmic),
        lines: vec![
            line("sleepers without Kafka", |it| Some(it.own.sleepers)),
            line("Sluice", |it| Some(it.own.rate)),
            line("KIP-1302's loop in Java", |it| it.share_loop),
            line("Kafka Connect", |it| it.connect),
        ],
    }
}

fn goals(all: &[Reached]) -> Vec<Goal> {
    let goal = |it: &Reached| {
        let what = format!("{}: of what is possible", it.name);
        Some(Goal::at_least(what, it.goal?, it.own.ratio()))
    };
    all.iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(tasks: usize, rate: f64, connect: Option<f64>) -> Reached {
        Reached {
            name: format!("{tasks} on 12 partitions"),
            tasks,
            own: Own {
                rate,
                sleepers: 100.0,
                span: None,
                evidence: Evidence::default(),
            },
            connect,
            share_loop: None,
            goal: connect.is_none().then_some(0.95),
        }
    }

    #[test]
    fn who_was_not_there_has_no_figure_and_no_point() {
        let all = [reached(12, 90.0, Some(50.0)), reached(50, 94.0, None)];
        let text = table(&all).markdown();
        assert!(
            text.contains("| 12 on 12 partitions | 90 | 100 | | 0.900 | 50 | |\n"),
            "{text}"
        );
        assert!(
            text.ends_with("| 50 on 12 partitions | 94 | 100 | | 0.940 | | |\n"),
            "{text}"
        );
        let points = |line: usize| plot(&all).lines[line].points.len();
        assert_eq!([0, 1, 2, 3].map(points), [2, 2, 0, 1]);
    }

    #[test]
    fn goals_are_parts_of_what_is_possible() {
        let all = [reached(12, 90.0, Some(50.0)), reached(50, 94.0, None)];
        let goals = goals(&all);
        let [goal] = &goals[..] else {
            panic!("one goal, not {goals:?}");
        };
        assert!(!goal.is_met(0.0) && goal.is_met(0.02), "{goal}");
    }

    #[test]
    fn the_lower_bound_counts() {
        let own = |span| Own {
            span,
            ..reached(500, 90.0, None).own
        };
        assert!((own(Some(90.0)).ratio() - 1.0).abs() < 1e-9);
        assert!((own(Some(900.0)).ratio() - 0.9).abs() < 1e-9);
    }
}
