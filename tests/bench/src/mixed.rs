//! A few records that take far longer than the others.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};

use crate::contestants::sinks::sinks;
use crate::contestants::{sluice, steady_rate};
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const TOPIC: &str = "mixed";
/// Those that are slow: what they are called, and which they are.
const KINDS: [(&str, &str, &str); 2] = [
    ("every 1000th 1 s more", "every=1000", "1000"),
    ("every 100th 100 ms more", "every=100", "100"),
];

#[derive(Debug, Args)]
pub struct Options {
    /// Records in the topic.
    #[arg(long, default_value_t = 400_000)]
    records: usize,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
}

const INTRO: &str = "Each record takes a millisecond, some take far longer. At most: what so many tasks can do \
in the time that their sinks took. A slow record holds its partition's span (4000 offsets here) and its own \
task, but nobody else.";

struct Line {
    what: &'static str,
    rate: f64,
    limit: f64,
}

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("records", json!(options.records)),
        ("tasks", json!(options.tasks)),
        ("partitions", json!(options.partitions)),
    ]);
    let kafka = Kafka::start(KafkaOptions::new()).await?;
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, options.partitions).await?;
    let records = (0..options.records)
        .zip((0..options.partitions).cycle())
        .map(|(_, partition)| NewRecord::value(vec![b'x'; 100]).partition(partition));
    produce(kafka.bootstrap_servers(), TOPIC, records).await?;
    let mut lines = Vec::new();
    for kind in KINDS {
        lines.push(line(&kafka, options, binary, kind).await?);
    }
    Ok(Section {
        key: "mixed",
        title: "Slow records among fast ones",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&lines)],
        goals: goals(&lines),
        ..Section::default()
    })
}

async fn line(
    kafka: &Kafka,
    options: &Options,
    binary: &Path,
    (what, which, longer): (&'static str, &str, &str),
) -> Result<Line> {
    let keys = [
        ("record.latency.us", "1000"),
        ("slow.match", which),
        ("slow.ms", longer),
        ("share.partition.max.record.locks", "4000"),
    ];
    let finished = sluice::run(&sluice::Case {
        kafka,
        binary,
        topic: TOPIC,
        records: options.records,
        tasks: options.tasks as usize,
        connector: &keys.map(|(key, value)| (key.to_owned(), value.to_owned())),
        environment: &[],
        round: &which.replace('=', "-"),
        status_interval_ms: sluice::OFTEN_MS,
        lingers: Duration::ZERO,
    })
    .await?;
    let sinks = sinks(&finished.log)?;
    let rate = steady_rate(&finished.confirmed);
    Ok(Line {
        what,
        rate: rate.context("too few status lines to tell a rate; more records")?,
        limit: f64::from(options.tasks) * sinks.records / sinks.busy_seconds,
    })
}

fn table(lines: &[Line]) -> Table {
    let columns = vec![
        Column::new("confirmed a second", 0),
        Column::new("at most", 0),
        Column::new("ratio", 3),
    ];
    let mut table = Table::new("1 ms each, and", columns);
    for Line { what, rate, limit } in lines {
        table.push(*what, [*rate, *limit, rate / limit].map(Some));
    }
    table
}

fn goals(lines: &[Line]) -> Vec<Goal> {
    let goal = |Line { what, rate, limit }: &Line| {
        Goal::at_least(format!("{what}: of what is possible"), 0.95, rate / limit)
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
        }];
        assert!(
            table(&lines)
                .markdown()
                .ends_with("| w | 90 | 100 | 0.900 |\n")
        );
        assert!(!goals(&lines)[0].is_met(0.0));
    }
}
