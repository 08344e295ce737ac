//! What slow records cost in throughput.

use std::time::Duration;

use anyhow::{Context, Result};

use super::slow::{KINDS, Slow};
use super::{Bench, HEAP_MB, LOCKS, RECORD_LATENCY};
use crate::contestants::connect::{Connect, NULL_SINK};
use crate::contestants::owned;
use crate::contestants::share_loop::ShareLoop;
use crate::contestants::sinks::sinks;
use crate::contestants::{Series, sluice, steady_rate};
use crate::fill::{fill, plain};
use crate::report::{Column, Goal, Table};
use crate::tasks::BATCH_SIZE;

const TOPIC: &str = "mixed";
/// Peers are measured by this part of the topic: they take longer.
const PEERS_PART: u32 = 2;
const WITHIN: Duration = Duration::from_secs(180);

/// What came of one kind of slow records; the peers' rates if they were there.
pub(super) struct Line {
    what: &'static str,
    rate: f64,
    limit: f64,
    share_loop: Option<f64>,
    connect: Option<f64>,
}

impl Bench<'_> {
    pub(super) async fn throughput(&self) -> Result<Vec<Line>> {
        let (records, partitions) = (self.options.records, self.options.partitions.cast_signed());
        let admin = self.kafka.admin().await?;
        admin.create_topic(TOPIC, partitions).await?;
        let topic = (TOPIC, partitions);
        fill(&self.kafka, topic, records as usize, plain, &[BATCH_SIZE]).await?;
        let mut lines = Vec::new();
        for kind in KINDS {
            lines.push(self.line(kind).await?);
        }
        Ok(lines)
    }

    async fn line(&self, kind: Slow) -> Result<Line> {
        let settings = [&owned([RECORD_LATENCY])[..], &kind.settings()].concat();
        let (rate, limit) = self.sluice(kind, &settings).await?;
        let peers = !self.options.without_peers;
        Ok(Line {
            what: kind.name,
            rate,
            limit,
            share_loop: match peers {
                true => Some(self.share_loop(kind, &settings).await?),
                false => None,
            },
            connect: match peers {
                true => Some(self.connect(kind, &settings).await?),
                false => None,
            },
        })
    }

    async fn sluice(&self, kind: Slow, settings: &[(String, String)]) -> Result<(f64, f64)> {
        let finished = sluice::run(&sluice::Case {
            records: self.options.records as usize,
            tasks: self.options.tasks as usize,
            connector: &[settings, &owned([LOCKS])].concat(),
            round: kind.key,
            ..sluice::Case::of(&self.kafka, self.binary, TOPIC)
        })
        .await?;
        let sinks = sinks(&finished.log)?;
        let limit = f64::from(self.options.tasks) * sinks.records / sinks.busy_seconds;
        Ok((steady(&finished.confirmed)?, limit))
    }

    async fn share_loop(&self, kind: Slow, settings: &[(String, String)]) -> Result<f64> {
        let peer = ShareLoop {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: TOPIC,
            tasks: self.options.tasks as usize,
            heap_mb: HEAP_MB,
            target: settings,
            group: &[LOCKS],
            turn: kind.key,
        };
        let peer = peer.start().await?;
        steady(&peer.has_taken(self.peers_records(), WITHIN).await?)
    }

    /// With as many tasks as can have a partition.
    async fn connect(&self, kind: Slow, settings: &[(String, String)]) -> Result<f64> {
        let peer = Connect {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: TOPIC,
            class: NULL_SINK,
            tasks: self.options.partitions as usize,
            heap_mb: HEAP_MB,
            connector: settings,
            turn: kind.key,
        };
        let peer = peer.start()?;
        steady(&peer.has_taken(self.peers_records(), WITHIN).await?)
    }

    fn peers_records(&self) -> u64 {
        u64::from(self.options.records / PEERS_PART)
    }
}

fn steady(series: &Series) -> Result<f64> {
    steady_rate(series).context("too few records to tell a rate")
}

pub(super) fn table(lines: &[Line]) -> Table {
    let columns = vec![
        Column::new("Sluice, records/s", 0),
        Column::new("at most", 0),
        Column::new("ratio", 3),
        Column::new("KIP-1302's loop in Java, records/s", 0),
        Column::new("Kafka Connect, a task for each partition, records/s", 0),
    ];
    let mut table = Table::new("throughput: 1 ms each, and", columns);
    for it in lines {
        let figures = [
            Some(it.rate),
            Some(it.limit),
            Some(it.rate / it.limit),
            it.share_loop,
            it.connect,
        ];
        table.push(it.what, figures);
    }
    table
}

pub(super) fn goals(lines: &[Line]) -> Vec<Goal> {
    let goal = |it: &Line| {
        let what = format!("{}: throughput, of what is possible", it.what);
        Goal::at_least(what, 0.95, it.rate / it.limit)
    };
    lines.iter().map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_small_a_part_of_what_is_possible_misses_the_goal() {
        let lines = [Line {
            what: "w",
            rate: 90.0,
            limit: 100.0,
            share_loop: Some(30.0),
            connect: None,
        }];
        assert!(
            table(&lines)
                .markdown()
                .ends_with("| w | 90 | 100 | 0.900 | 30 | |\n")
        );
        assert!(!goals(&lines)[0].is_met(0.0));
    }
}
