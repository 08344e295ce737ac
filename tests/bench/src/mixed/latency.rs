//! How long fast records wait for slow ones, at a load that the tasks can
//! carry.

use std::path::Path;

use anyhow::{Result, ensure};
use sluice_test_support::worker::Worker;
use tempfile::TempDir;
use tokio::time::Instant;

use super::distribution::{Distribution, Rounds};
use super::paced::{Deliveries, Plan};
use super::slow::{KINDS, Slow};
use super::{Bench, HEAP_MB, LOCKS, RECORD_LATENCY};
use crate::contestants::connect::{Connect, NULL_SINK};
use crate::contestants::owned;
use crate::contestants::peer::Peer;
use crate::contestants::share_loop::ShareLoop;
use crate::contestants::sluice;
use crate::figures::turns;
use crate::machine::busy_seconds;
use crate::report::{self, Column, Goal, Plot, Scale, Table};

/// The part of what the tasks can do with slow records.
const LOAD: f64 = 0.5;
/// A JVM compiles what it runs often.
const WARM_UP_SECONDS: f64 = 5.0;
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// To what the median of the fast records may rise.
const RISE: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Sluice,
    ShareLoop,
    Connect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Contestant {
    who: Who,
    tasks: u32,
}

/// What one contestant came to, without slow records and with each kind.
pub(super) struct Latencies {
    contestant: Contestant,
    without: Rounds,
    with: [Rounds; KINDS.len()],
}

impl Latencies {
    const fn new(contestant: Contestant) -> Self {
        Self {
            contestant,
            without: Rounds::new(),
            with: [const { Rounds::new() }; KINDS.len()],
        }
    }

    fn with(&self) -> impl Iterator<Item = (Slow, &Rounds)> {
        KINDS.into_iter().zip(&self.with)
    }
}

impl Contestant {
    fn name(self) -> String {
        let who = match self.who {
            Who::Sluice => "Sluice",
            Who::ShareLoop => "KIP-1302's loop in Java",
            Who::Connect => "Kafka Connect",
        };
        format!("{who}, {} tasks", self.tasks)
    }

    fn per_second(self) -> f64 {
        let mean_ms = KINDS.map(Slow::mean_ms).into_iter().fold(1.0, f64::max);
        LOAD * f64::from(self.tasks) * 1000.0 / mean_ms
    }
}

/// A started contestant. Dropped, it is gone.
enum Running {
    Sluice(Worker),
    Peer(Peer),
}

impl Running {
    fn check(&self) -> Result<()> {
        match self {
            Self::Sluice(worker) => {
                let ended = worker.exit_status()?;
                ensure!(ended.is_none(), "the worker ended: {}", worker.stderr()?);
                Ok(())
            }
            Self::Peer(peer) => peer.taken().map(drop),
        }
    }
}

impl Bench<'_> {
    pub(super) async fn latency(&self) -> Result<Vec<Latencies>> {
        let mut all: Vec<Latencies> = self.contestants().map(Latencies::new).collect();
        for round in 0..self.options.rounds as usize {
            for it in &mut all {
                for place in turns(round, 1 + KINDS.len()) {
                    let slow = place.checked_sub(1).map(|place| KINDS[place]);
                    let measured = self.distribution(it.contestant, slow, round).await?;
                    match place.checked_sub(1) {
                        Some(place) => it.with[place].push(measured),
                        None => it.without.push(measured),
                    }
                }
            }
        }
        Ok(all)
    }

    /// All with as many tasks as Connect can have; Sluice also with its own.
    fn contestants(&self) -> impl Iterator<Item = Contestant> {
        let (own, equal) = (self.options.tasks, self.options.partitions);
        let contestant = |who, tasks| Contestant { who, tasks };
        let mut all = vec![contestant(Who::Sluice, own)];
        if own != equal {
            all.push(contestant(Who::Sluice, equal));
        }
        if !self.options.without_peers {
            all.push(contestant(Who::ShareLoop, equal));
            all.push(contestant(Who::Connect, equal));
        }
        all.into_iter()
    }

    /// With the cores that were busy meanwhile.
    async fn distribution(
        &self,
        contestant: Contestant,
        slow: Option<Slow>,
        round: usize,
    ) -> Result<(Distribution, f64)> {
        let topic = topic(contestant, slow, round);
        let admin = self.kafka.admin().await?;
        let partitions = self.options.partitions;
        admin.create_topic(&topic, partitions.cast_signed()).await?;
        let folder = TempDir::with_prefix("sluice-bench-deliveries-")?;
        let pipe = folder.path().join("deliveries");
        let mut deliveries = Deliveries::open(&pipe)?;
        let running = self.start(contestant, slow, &topic, &pipe).await?;
        let per_second = contestant.per_second();
        let plan = Plan {
            partitions,
            per_second,
            records: (per_second * (WARM_UP_SECONDS + f64::from(self.options.seconds))) as usize,
            warming_up: (per_second * WARM_UP_SECONDS) as usize,
            pattern: slow.unwrap_or(KINDS[0]),
        };
        let (begin, busy) = (Instant::now(), busy_seconds()?);
        let check = || running.check();
        let latencies = deliveries.of(plan, &self.kafka, &topic, check).await?;
        let busy = (busy_seconds()? - busy) / begin.elapsed().as_secs_f64();
        Ok((latencies, busy))
    }

    async fn start(
        &self,
        contestant: Contestant,
        slow: Option<Slow>,
        topic: &str,
        pipe: &Path,
    ) -> Result<Running> {
        let tasks = contestant.tasks as usize;
        let path = pipe.to_string_lossy();
        let mut settings = owned([RECORD_LATENCY, ("record.file", &path)]);
        settings.extend(slow.into_iter().flat_map(Slow::settings));
        Ok(match contestant.who {
            Who::Sluice => {
                settings.extend(owned([LOCKS]));
                let (worker, _) = sluice::start(&sluice::Case {
                    tasks,
                    connector: &settings,
                    status_interval_ms: None,
                    ..sluice::Case::of(&self.kafka, self.binary, topic)
                })?;
                Running::Sluice(worker)
            }
            Who::ShareLoop => {
                let peer = ShareLoop {
                    classes: &self.classes,
                    kafka: &self.kafka,
                    topic,
                    tasks,
                    heap_mb: HEAP_MB,
                    target: &settings,
                    group: &[LOCKS],
                    turn: topic,
                };
                Running::Peer(peer.start().await?)
            }
            Who::Connect => {
                let peer = Connect {
                    classes: &self.classes,
                    kafka: &self.kafka,
                    topic,
                    class: NULL_SINK,
                    tasks,
                    heap_mb: HEAP_MB,
                    connector: &settings,
                    turn: topic,
                };
                Running::Peer(peer.start()?)
            }
        })
    }
}

/// One for each run.
fn topic(contestant: Contestant, slow: Option<Slow>, round: usize) -> String {
    let who = match contestant.who {
        Who::Sluice => "sluice",
        Who::ShareLoop => "loop",
        Who::Connect => "connect",
    };
    let kind = slow.map_or("without", |slow| slow.key);
    format!("{who}-{}-{kind}-{round}", contestant.tasks)
}

pub(super) fn table(all: &[Latencies]) -> Table {
    let mut columns = vec![Column::new("produced a second", 0)];
    columns.extend(PERCENTILES.map(|percent| Column::new(format!("{percent} %, ms"), 1)));
    columns.push(Column::new("median / without slow ones", 2));
    columns.push(Column::new("busy cores of the machine", 2));
    let mut table = Table::new("latency of the fast records", columns);
    for it in all {
        let mut push = |kind: &str, latencies: &Rounds, rise| {
            let mut figures = vec![Some(it.contestant.per_second())];
            figures.extend(PERCENTILES.map(|percent| Some(latencies.percentile_ms(percent))));
            figures.extend([rise, Some(latencies.busy_cores())]);
            table.push(format!("{}: {kind}", it.contestant.name()), figures);
        };
        push("none slow", &it.without, None);
        for (slow, latencies) in it.with() {
            push(slow.name, latencies, Some(latencies.rise_over(&it.without)));
        }
    }
    table
}

pub(super) fn goals(all: &[Latencies]) -> Vec<Goal> {
    let sluice = all.iter().filter(|it| it.contestant.who == Who::Sluice);
    let goal = |it: &Latencies, slow: Slow, latencies: &Rounds| {
        let name = it.contestant.name();
        let what = format!("{name}, {}: median / that without slow ones", slow.name);
        Goal::at_most(what, RISE, latencies.rise_over(&it.without))
    };
    sluice
        .flat_map(|it| {
            it.with()
                .map(move |(slow, latencies)| goal(it, slow, latencies))
        })
        .collect()
}

/// One for each kind of slow records.
pub(super) fn plots(all: &[Latencies]) -> Vec<Plot> {
    let plot = |slow: Slow| {
        let mut lines = Vec::new();
        for it in all {
            let with = it.with().filter(|(kind, _)| *kind == slow);
            let with = with.map(|(_, latencies)| ("", latencies));
            for (kind, latencies) in with.chain([(", none slow", &it.without)]) {
                lines.push(report::Line {
                    name: format!("{}{kind}", it.contestant.name()),
                    points: latencies.points(),
                });
            }
        }
        Plot {
            file: slow.key,
            title: slow.title,
            x: ("latency, ms", Scale::Logarithmic),
            y: ("% of the fast records", Scale::Linear),
            lines,
        }
    };
    KINDS.map(plot).to_vec()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn constant(millis: u64) -> Rounds {
        let mut rounds = Rounds::new();
        let round = vec![Duration::from_millis(millis); 10];
        rounds.push((Distribution::new(round).unwrap(), 1.25));
        rounds
    }

    fn latencies(who: Who, without: u64, with: [u64; 2]) -> Latencies {
        Latencies {
            contestant: Contestant { who, tasks: 12 },
            without: constant(without),
            with: with.map(constant),
        }
    }

    fn all() -> Vec<Latencies> {
        vec![
            latencies(Who::Sluice, 10, [14, 16]),
            latencies(Who::Connect, 10, [500, 90]),
        ]
    }

    #[test]
    fn the_load_is_half_of_what_the_tasks_can_do_with_slow_records() {
        let per_second = all()[0].contestant.per_second();
        assert!((per_second - 3000.0).abs() < 1e-9);
    }

    #[test]
    fn only_our_own_medians_have_goals_and_one_that_rises_too_far_misses_its() {
        let goals = goals(&all());
        let met: Vec<bool> = goals.iter().map(|goal| goal.is_met(0.0)).collect();
        assert_eq!(met, [true, false]);
    }

    #[test]
    fn each_contestant_has_a_row_for_each_kind_and_one_without() {
        let text = table(&all()).markdown();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows[0],
            "| Sluice, 12 tasks: none slow | 3000 | 10.0 | 10.0 | 10.0 | 10.0 | | 1.25 |"
        );
        assert_eq!(
            rows[4],
            "| Kafka Connect, 12 tasks: every 1000th 1 s more | 3000 | 500.0 | 500.0 | 500.0 | 500.0 | 50.00 | 1.25 |"
        );
    }

    #[test]
    fn each_kind_has_a_plot_of_all_contestants_with_and_without() {
        let plots = plots(&all());
        let [rare, often] = &plots[..] else {
            panic!("two plots, not {plots:?}");
        };
        let names: Vec<&str> = rare.lines.iter().map(|it| &*it.name).collect();
        assert_eq!(
            names,
            [
                "Sluice, 12 tasks",
                "Sluice, 12 tasks, none slow",
                "Kafka Connect, 12 tasks",
                "Kafka Connect, 12 tasks, none slow"
            ]
        );
        assert!((often.lines[0].points[0].0 - 16.0).abs() < 1e-9);
        rare.svg().unwrap();
    }
}
