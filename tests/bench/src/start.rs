//! From the start of a process to its first delivery, beside Kafka Connect.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker_log::{log, seconds_between};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::contestants::connect::{Connect, NULL_SINK};
use crate::contestants::java::Classes;
use crate::contestants::sluice;
use crate::figures::{median, turns};
use crate::fill::{fill, plain};
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const TOPIC: &str = "start";
const RECORDS: usize = 1000;
const TASKS: usize = 4;
const HEAP_MB: u32 = 1024;
/// The grain of the time at which a worker tells its first delivery.
const STATUS_INTERVAL_MS: u32 = 20;
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub struct Options {
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Counted rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const INTRO: &str = "A process is started on a topic that has records, with a group that the broker has never seen; \
Sluice once more with the same group, as after an update. From its start to the first record in its sink, that is \
seen from outside; from the broker's answer to the join to the first confirmed record, by the worker's log. The \
broker has Kafka's own time-outs, but no group.initial.rebalance.delay.ms, which Connect would wait for. A new share \
group gets no partitions before group.share.assignment.interval.ms (1 s) is over: the broker assigns once while it \
sets them up, and then not sooner.";

/// What one start of Sluice came to, in seconds.
#[derive(Clone, Copy, Debug)]
struct Started {
    /// From the start of the process to the first delivery.
    process: f64,
    /// From the answer to the join.
    join: f64,
}

#[derive(Debug, Default)]
struct Rounds {
    connect: Vec<f64>,
    new_group: Vec<Started>,
    known_group: Vec<Started>,
}

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
    classes: Classes,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("records", json!(RECORDS)),
        ("tasks", json!(TASKS)),
        ("partitions", json!(options.partitions)),
        ("rounds", json!(options.rounds)),
        ("connect_heap_mb", json!(HEAP_MB)),
    ]);
    let kafka = Kafka::start(KafkaOptions::new().default_timeouts()).await?;
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, options.partitions).await?;
    let bench = Bench {
        options,
        binary,
        kafka,
        classes: Classes::compile()?,
    };
    bench.fill().await?;
    let rounds = bench.rounds(options.rounds as usize).await?;
    Ok(Section {
        key: "start",
        title: "From the start to the first delivery",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&rounds)],
        goals: goals(&rounds),
        ..Section::default()
    })
}

impl Bench<'_> {
    async fn rounds(&self, many: usize) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..=many {
            for place in turns(round, 2) {
                let name = format!("start-{round}");
                // A broker that is cold counts for nobody.
                match place {
                    0 => {
                        let seconds = self.connect(&name).await?;
                        rounds.connect.extend((round > 0).then_some(seconds));
                    }
                    _ => {
                        let new = self.sluice(&name).await?;
                        self.fill().await?;
                        let known = self.sluice(&name).await?;
                        rounds.new_group.extend((round > 0).then_some(new));
                        rounds.known_group.extend((round > 0).then_some(known));
                    }
                }
            }
        }
        Ok(rounds)
    }

    async fn fill(&self) -> Result<usize> {
        let topic = (TOPIC, self.options.partitions);
        fill(&self.kafka, topic, RECORDS, plain, &[]).await
    }

    async fn connect(&self, name: &str) -> Result<f64> {
        let sink = Sink::new()?;
        let begin = Instant::now();
        let peer = Connect {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: TOPIC,
            class: NULL_SINK,
            tasks: TASKS,
            heap_mb: HEAP_MB,
            connector: &[sink.key()],
            turn: name,
        };
        let peer = peer.start()?;
        sink.has_a_record().await?;
        let took = begin.elapsed();
        peer.has_taken(RECORDS as u64, WITHIN).await?;
        Ok(took.as_secs_f64())
    }

    async fn sluice(&self, name: &str) -> Result<Started> {
        let sink = Sink::new()?;
        let begin = Instant::now();
        let (worker, group) = sluice::start(&sluice::Case {
            records: RECORDS,
            tasks: TASKS,
            connector: &[sink.key()],
            round: name,
            status_interval_ms: Some(STATUS_INTERVAL_MS),
            ..sluice::Case::of(&self.kafka, self.binary, TOPIC)
        })?;
        sink.has_a_record().await?;
        let took = begin.elapsed();
        let admin = self.kafka.admin().await?;
        admin.wait_until_consumed(&group, TOPIC, WITHIN).await?;
        worker.stop(WITHIN).await?;
        Ok(Started {
            process: took.as_secs_f64(),
            join: from_join_to_delivery(&log(&worker)?)?,
        })
    }
}

/// A file that a sink writes its records to.
struct Sink(TempDir);

impl Sink {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::with_prefix("sluice-bench-start-")?))
    }

    fn key(&self) -> (String, String) {
        let file = self.0.path().join("records");
        ("record.file".to_owned(), file.display().to_string())
    }

    async fn has_a_record(&self) -> Result<()> {
        let file = self.0.path().join("records");
        eventually("the sink has a record", WITHIN, async || {
            // Not there before the sink is opened.
            let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
            ensure!(bytes > 0, "none yet");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }
}

fn from_join_to_delivery(log: &[Value]) -> Result<f64> {
    let find = |wanted: &dyn Fn(&Value) -> bool| log.iter().find(|line| wanted(line));
    let joined = find(&|line| line["message"] == "joined the share group");
    let accepted = find(&|line| line["accepted"].as_u64().is_some_and(|it| it > 0));
    seconds_between(
        joined.context("the worker has not joined")?,
        accepted.context("the worker confirmed nothing")?,
    )
}

fn table(rounds: &Rounds) -> Table {
    let columns = vec![Column::new("median, s", 2), Column::new("worst, s", 2)];
    let mut table = Table::new("to the first delivery", columns);
    let mut push = |name: &str, seconds: Vec<f64>| {
        let worst = seconds.iter().copied().reduce(f64::max);
        table.push(name, [Some(median(seconds)), worst]);
    };
    push(
        "Kafka Connect, new group, from the start",
        rounds.connect.clone(),
    );
    for (group, started) in [("new", &rounds.new_group), ("known", &rounds.known_group)] {
        let of = |what: fn(&Started) -> f64| started.iter().map(what).collect();
        push(
            &format!("Sluice, {group} group, from the start"),
            of(|it| it.process),
        );
        push(
            &format!("Sluice, {group} group, from the join"),
            of(|it| it.join),
        );
    }
    table
}

fn goals(rounds: &Rounds) -> Vec<Goal> {
    let join = median(rounds.known_group.iter().map(|it| it.join));
    let what = "seconds from the answer to the join to the first delivery, known group, median";
    vec![Goal::at_most(what, 1.0, join)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, rest: &Value) -> Value {
        let mut line = rest.clone();
        line["timestamp"] = json!(format!("2026-01-31T12:00:{second:02}.5Z"));
        line
    }

    #[test]
    fn the_time_runs_from_the_join_to_the_first_confirmed_record() {
        let accepted = |records: u64| json!({"message": "status", "accepted": records});
        let log = [
            line(1, &accepted(0)),
            line(2, &json!({"message": "joined the share group"})),
            line(3, &accepted(0)),
            line(5, &accepted(7)),
            line(9, &accepted(1000)),
        ];
        let seconds = from_join_to_delivery(&log).unwrap();
        assert!((seconds - 3.0).abs() < 1e-9, "{seconds}");
        from_join_to_delivery(&log[..3]).unwrap_err();
        from_join_to_delivery(&log[2..]).unwrap_err();
    }

    #[test]
    fn the_goal_is_a_second_from_the_join_of_a_known_group_in_the_median() {
        let rounds = |joins: &[f64]| Rounds {
            connect: vec![6.0, 5.0, 9.0],
            new_group: Vec::new(),
            known_group: joins
                .iter()
                .map(|join| Started {
                    process: join + 0.25,
                    join: *join,
                })
                .collect(),
        };
        assert!(goals(&rounds(&[0.5, 1.0, 5.0]))[0].is_met(0.0));
        assert!(!goals(&rounds(&[0.5, 1.1, 5.0]))[0].is_met(0.0));
        assert!(!goals(&rounds(&[]))[0].is_met(0.0));
        let text = table(&rounds(&[0.5, 1.0, 5.0])).markdown();
        for row in [
            "| Kafka Connect, new group, from the start | 6.00 | 9.00 |\n",
            "| Sluice, new group, from the join | NaN | |\n",
            "| Sluice, known group, from the start | 1.25 | 5.25 |\n",
            "| Sluice, known group, from the join | 1.00 | 5.00 |\n",
        ] {
            assert!(text.contains(row), "{text}");
        }
    }
}
