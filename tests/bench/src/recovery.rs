//! A worker that is killed, or frozen, with records in flight: how soon another
//! one has them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::counting::Tally;
use sluice_test_support::java::{SHARE_GROUP_COMMAND, run_tool};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::process::Signal;
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::contestants::owned;
use crate::contestants::sluice;
use crate::figures::median;
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const LOCK: Duration = Duration::from_secs(5);
/// Kafka's default: so long does a dead worker count as alive, and keep the
/// partitions that it was assigned.
const SESSION_TIMEOUT: (&str, &str) = ("group.share.session.timeout.ms", "45000");
const PATIENCE: Duration = Duration::from_secs(60);
const TASKS: usize = 4;

#[derive(Debug, Args)]
pub struct Options {
    /// Records in flight.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    records: u32,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// How often a worker is killed.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// How often one is frozen.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    freezes: u32,
}

const INTRO: &str = "A worker takes all records of a topic and delivers none; another one joins its share group, is \
assigned a half of the partitions, and is given records of its own. The first one is killed (kill -9), or frozen \
(SIGSTOP): the time until the sink of the other has had the last of the records. What was in flight are the records \
that no sink has had, though all newer ones were delivered.";

#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    Frozen,
}

impl End {
    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
        }
    }

    const fn signal(self) -> Signal {
        match self {
            Self::Killed => Signal::KILL,
            Self::Frozen => Signal::STOP,
        }
    }

    /// Locks of a connection that is gone end with it, others by themselves.
    fn at_most(self) -> Duration {
        match self {
            Self::Killed => Duration::from_secs(3),
            Self::Frozen => LOCK + Duration::from_secs(1),
        }
    }
}

/// Seconds until all were redelivered, of each round.
struct Rounds {
    end: End,
    seconds: Vec<f64>,
}

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("records_in_flight", json!(options.records)),
        ("partitions", json!(options.partitions)),
        ("lock_ms", json!(LOCK.as_millis())),
        (
            "broker",
            json!(format!("{}={}", SESSION_TIMEOUT.0, SESSION_TIMEOUT.1)),
        ),
    ]);
    let (key, value) = SESSION_TIMEOUT;
    let kafka = KafkaOptions::new().property(key, value);
    let bench = Bench {
        options,
        binary,
        kafka: Kafka::start(kafka).await?,
    };
    let all = [
        bench.rounds(End::Killed, options.kills).await?,
        bench.rounds(End::Frozen, options.freezes).await?,
    ];
    Ok(Section {
        key: "recovery",
        title: "A worker lost with records in flight",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&all)],
        goals: goals(&all),
        ..Section::default()
    })
}

impl Bench<'_> {
    async fn rounds(&self, end: End, rounds: u32) -> Result<Rounds> {
        let mut seconds = Vec::new();
        for round in 0..rounds {
            let name = format!("{}-{round}", end.name());
            seconds.push(self.redelivered_after(end, &name).await?.as_secs_f64());
        }
        Ok(Rounds { end, seconds })
    }

    async fn redelivered_after(&self, end: End, name: &str) -> Result<Duration> {
        let admin = self.kafka.admin().await?;
        admin.create_topic(name, self.options.partitions).await?;
        let held = self.options.records as usize;
        let folder = TempDir::with_prefix("sluice-bench-recovery-")?;
        let file = folder.path().join("survivor");

        let limit = held.to_string();
        let hoards = [
            ("latency.ms", "600000"),
            ("share.max.in.flight.records", &limit),
        ];
        let victim = self.start(name, &hoards)?;
        self.produce(name, 0, held).await?;
        let is_full = format!("\"in_flight\":{held},");
        let is_full = |line: &str| line.contains(&is_full);
        victim.wait_for_log(is_full, PATIENCE).await?;
        let survivor = self.start(name, &[("record.file", &file.to_string_lossy())])?;
        self.wait_for_assigned_members(name, 2).await?;

        // One for each partition, behind all that the victim holds.
        let all = held + self.options.partitions as usize;
        self.produce(name, held, all).await?;
        eventually("the survivor has what is free", PATIENCE, async || {
            let had = had(&file)?;
            ensure!(had.total() == all - held, "it had {} records", had.total());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let newer: Vec<String> = ids(all).skip(held).collect();
        had(&file)?.exactly_once(newer)?;

        let begin = Instant::now();
        victim.signal(end.signal())?;
        eventually("all are redelivered", PATIENCE, async || {
            let had = had(&file)?;
            ensure!(had.distinct() >= all, "{} of {all}", had.distinct());
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let took = begin.elapsed();
        had(&file)?.exactly_once(ids(all))?;
        survivor.stop(PATIENCE).await?;
        Ok(took)
    }

    fn start(&self, name: &str, connector: &[(&str, &str)]) -> Result<Worker> {
        let lock = LOCK.as_millis().to_string();
        let mut keys = vec![("share.record.lock.duration.ms", &*lock)];
        keys.extend(connector);
        let (worker, _) = sluice::start(&sluice::Case {
            records: self.options.records as usize,
            tasks: TASKS,
            connector: &owned(keys),
            ..sluice::Case::of(&self.kafka, self.binary, name)
        })?;
        Ok(worker)
    }

    /// The ids of this range, over all partitions.
    async fn produce(&self, topic: &str, from: usize, to: usize) -> Result<()> {
        let records = json_records(to, self.options.partitions, 100).skip(from);
        produce(self.kafka.bootstrap_servers(), topic, records).await?;
        Ok(())
    }

    /// A member without partitions would leave none to the others by its death.
    async fn wait_for_assigned_members(&self, topic: &str, members: usize) -> Result<()> {
        let group = sluice::group(&format!("bench-{topic}"));
        let servers = self.kafka.bootstrap_servers();
        let arguments = [
            "--bootstrap-server",
            servers,
            "--describe",
            "--members",
            "--group",
            &group,
        ];
        eventually("both workers are assigned", PATIENCE, async || {
            let printed = run_tool(SHARE_GROUP_COMMAND, &arguments).await?;
            let assigned = assigned_members(&printed, topic);
            ensure!(assigned == members, "{printed}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }
}

/// What a sink has had; it makes its file when it is opened.
fn had(file: &Path) -> Result<Tally> {
    if file.exists() {
        Tally::from_json_lines(file, "/id")
    } else {
        Ok(Tally::default())
    }
}

/// Each member has a line, with `topic:partition,partition` if it has any.
fn assigned_members(printed: &str, topic: &str) -> usize {
    let assignment = format!("{topic}:");
    let lines = printed.lines();
    lines.filter(|line| line.contains(&assignment)).count()
}

fn worst(seconds: &[f64]) -> f64 {
    seconds.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

fn table(all: &[Rounds]) -> Table {
    let columns = vec![
        Column::new("rounds", 0),
        Column::new("seconds until all are redelivered, median", 2),
        Column::new("worst", 2),
    ];
    let mut table = Table::new("the worker is", columns);
    for Rounds { end, seconds } in all {
        let median = median(seconds.iter().copied());
        let figures = [seconds.len() as f64, median, worst(seconds)];
        table.push(end.name(), figures.map(Some));
    }
    table
}

fn goals(all: &[Rounds]) -> Vec<Goal> {
    let goal = |Rounds { end, seconds }: &Rounds| {
        let what = format!("{}: seconds until all are redelivered, worst", end.name());
        Goal::at_most(what, end.at_most().as_secs_f64(), worst(seconds))
    };
    all.iter().map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(end: End, seconds: &[f64]) -> Rounds {
        let seconds = seconds.to_vec();
        Rounds { end, seconds }
    }

    #[test]
    fn one_late_round_misses_the_goal_and_a_lock_is_waited_for_only_if_the_worker_lives() {
        let met = |end, seconds: &[f64]| goals(&[rounds(end, seconds)])[0].is_met(0.0);
        assert!(met(End::Killed, &[0.5, 3.0, 1.0]));
        assert!(!met(End::Killed, &[0.5, 3.1, 1.0]));
        assert!(met(End::Frozen, &[4.0, 6.0]));
        assert!(!met(End::Frozen, &[4.0, 6.1]));
        assert!(!met(End::Frozen, &[]));
    }

    #[test]
    fn median_and_worst_are_told() {
        let text = table(&[rounds(End::Killed, &[0.5, 2.0, 1.0])]).markdown();
        assert!(text.ends_with("| killed | 3 | 1.00 | 2.00 |\n"), "{text}");
    }

    #[test]
    fn a_member_without_partitions_is_not_assigned() {
        let printed = "GROUP ASSIGNMENT\nshare-a a-1:0,1\nshare-a a-1:2\nshare-a -\n";
        assert_eq!(assigned_members(printed, "a-1"), 2);
    }

    #[test]
    fn a_sink_that_is_not_open_yet_has_had_nothing() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("survivor");
        assert_eq!(had(&file).unwrap().total(), 0);
        std::fs::write(&file, "{\"id\":\"id-000001\"}\n").unwrap();
        assert_eq!(had(&file).unwrap().total(), 1);
    }
}
