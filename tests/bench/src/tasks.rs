//! Tasks that take their time with each record: how near they come to what
//! such tasks can do at most.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};

use crate::output::{print, write};
use crate::report::list;
use crate::{idle, machine, sleepers, sluice};

const TOPIC: &str = "tasks";
/// How long the sleepers run without Kafka.
const SLEEPERS: Duration = Duration::from_secs(4);
/// The goals of a worker with next to nothing to do.
const SETTLED_MS: f64 = 10.0;
const IDLE_PERCENT: f64 = 1.0;
const RECORD_LATENCY: (&str, &str) = ("record.latency.us", "1000");

#[derive(Debug, Args)]
pub struct Options {
    /// The worker to measure.
    #[arg(long)]
    binary: PathBuf,
    /// Records in the topic.
    #[arg(long, default_value_t = 400_000)]
    records: usize,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    tasks: u32,
    /// Fails when a goal is missed.
    #[arg(long)]
    strict: bool,
    /// Fails when tasks reach less than this part of what is possible.
    #[arg(long)]
    at_least: Option<f64>,
    /// Writes settings and table to this file, too.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// One line of the result.
struct Line {
    what: &'static str,
    reached: f64,
    /// What is possible at most, and how that is known.
    limit: f64,
    limit_is: &'static str,
    /// The part of the limit that is to be reached.
    goal: f64,
}

impl Line {
    fn ratio(&self) -> f64 {
        self.reached / self.limit
    }

    fn judge(&self, least: f64) -> Result<()> {
        let (what, ratio) = (self.what, self.ratio());
        ensure!(
            ratio >= least,
            "{what}: {ratio:.3} of what is possible is less than {least}"
        );
        Ok(())
    }
}

/// Measures, prints, and judges.
pub async fn run(options: &Options) -> Result<()> {
    let (partitions, tasks) = (options.partitions, options.tasks);
    let mut facts = machine::facts(&options.binary).await?;
    facts.extend([("tasks", json!(tasks)), ("partitions", json!(partitions))]);
    let kafka = Kafka::start(KafkaOptions::new()).await?;
    kafka
        .admin()
        .await?
        .create_topic(TOPIC, options.partitions)
        .await?;
    let records = (0..options.records)
        .zip((0..options.partitions).cycle())
        .map(|(_, partition)| NewRecord::value(vec![b'x'; 100]).partition(partition));
    produce(kafka.bootstrap_servers(), TOPIC, records).await?;
    let lines = [
        prompt_records(&kafka, options).await?,
        some_slow_records(&kafka, options).await?,
    ];
    let idle = idle::measure(&kafka, &options.binary, partitions, tasks).await?;
    let mut text = list(&facts);
    text.push('\n');
    text.push_str(&table(&lines));
    text.push_str(&idle_table(&idle));
    print(&text);
    if let Some(file) = &options.markdown {
        write(file, &text)?;
    }
    for line in &lines {
        let least = if options.strict {
            Some(line.goal)
        } else {
            options.at_least
        };
        least.map_or(Ok(()), |least| line.judge(least))?;
    }
    if options.strict {
        ensure!(idle.median_settlement_ms < SETTLED_MS, "settled too late");
        ensure!(idle.cpu_percent < IDLE_PERCENT, "idle is too busy");
    }
    Ok(())
}

fn idle_table(idle: &idle::Idle) -> String {
    let (median, cpu) = (idle.median_settlement_ms, idle.cpu_percent);
    format!(
        "\n| 10 records a second, then none | measured | goal |\n|---|---:|---:|\n\
         | median from the sink's word to the broker's answer, ms | {median:.1} | {SETTLED_MS:.0} |\n\
         | CPU while nothing comes, % of a core | {cpu:.2} | {IDLE_PERCENT:.0} |\n"
    )
}

fn table(lines: &[Line]) -> String {
    let mut text = "| records | confirmed a second | at most | which is | ratio | goal |\n\
                    |---|---:|---:|---|---:|---:|\n"
        .to_owned();
    for line in lines {
        let Line {
            what,
            reached,
            limit,
            limit_is,
            goal,
        } = line;
        let ratio = line.ratio();
        let _ = writeln!(
            text,
            "| {what} | {reached:.0} | {limit:.0} | {limit_is} | {ratio:.3} | {goal:.2} |"
        );
    }
    text
}

/// Each record takes a millisecond. The limit are the same sinks without
/// Kafka, given chunks as large as the worker's were.
async fn prompt_records(kafka: &Kafka, options: &Options) -> Result<Line> {
    let (reached, sinks) = worker(kafka, options, "prompt", &[RECORD_LATENCY]).await?;
    let chunk = (sinks.records / sinks.puts).round().max(1.0) as usize;
    Ok(Line {
        what: "1 ms each",
        reached,
        limit: sleepers::rate(options.tasks, chunk, &[RECORD_LATENCY], SLEEPERS).await?,
        limit_is: "the same sinks without Kafka",
        goal: 0.95,
    })
}

/// One record of a thousand takes a second more. The limit is what the tasks
/// can do in the time that their sinks took.
async fn some_slow_records(kafka: &Kafka, options: &Options) -> Result<Line> {
    let keys = [
        RECORD_LATENCY,
        ("slow.match", "every=1000"),
        ("slow.ms", "1000"),
        ("share.partition.max.record.locks", "4000"),
    ];
    let (reached, sinks) = worker(kafka, options, "slow", &keys).await?;
    Ok(Line {
        what: "1 ms each, every 1000th 1 s more",
        reached,
        limit: f64::from(options.tasks) * sinks.records / sinks.busy_seconds,
        limit_is: "tasks / mean latency that the sinks measured",
        goal: 0.93,
    })
}

/// What all sinks of a worker did.
#[derive(Debug, Default, PartialEq)]
struct Sinks {
    puts: f64,
    records: f64,
    busy_seconds: f64,
}

async fn worker(
    kafka: &Kafka,
    options: &Options,
    round: &str,
    keys: &[(&str, &str)],
) -> Result<(f64, Sinks)> {
    let connector: Vec<(String, String)> = keys
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let finished = sluice::run(&sluice::Case {
        kafka,
        binary: &options.binary,
        topic: TOPIC,
        records: options.records,
        tasks: options.tasks as usize,
        connector: &connector,
        environment: &[],
        round,
        status_interval_ms: sluice::OFTEN_MS,
    })
    .await?;
    let rate = sluice::steady_rate(&finished.confirmed);
    let rate = rate.context("too few status lines to tell a rate; more records")?;
    Ok((rate, sinks(&finished.log)?))
}

/// Adds up what the sinks say when they are closed.
fn sinks(log: &str) -> Result<Sinks> {
    let mut all = Sinks::default();
    for line in sluice::events(log, "null sink closed") {
        let number = |field: &str| line.get(field).and_then(Value::as_f64);
        all.puts += number("puts").context("a sink without puts")?;
        all.records += number("records").context("a sink without records")?;
        all.busy_seconds += number("busy_ms").context("a sink without busy_ms")? / 1000.0;
    }
    ensure!(all.records > 0.0, "no sink told what it did");
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sinks_did_is_added_up() {
        let closed = |puts, records, busy: u64| {
            format!(
                r#"{{"message":"null sink closed","puts":{puts},"records":{records},"busy_ms":{busy}}}"#
            )
        };
        let log = [closed(2, 10, 1500), "noise".to_owned(), closed(1, 30, 500)].join("\n");
        let all = Sinks {
            puts: 3.0,
            records: 40.0,
            busy_seconds: 2.0,
        };
        assert_eq!(sinks(&log).unwrap(), all);
        sinks("noise").unwrap_err();
    }

    const LINE: Line = Line {
        what: "w",
        reached: 90.0,
        limit: 100.0,
        limit_is: "l",
        goal: 0.95,
    };

    #[test]
    fn too_small_a_part_of_what_is_possible_is_refused_by_name() {
        LINE.judge(0.9).unwrap();
        let refused = LINE.judge(0.91).unwrap_err().to_string();
        assert_eq!(refused, "w: 0.900 of what is possible is less than 0.91");
    }

    #[test]
    fn the_table_has_the_ratio() {
        assert!(table(&[LINE]).ends_with("| w | 90 | 100 | l | 0.900 | 0.95 |\n"));
    }
}
