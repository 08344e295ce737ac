//! A worker with next to nothing to do: how soon a record is settled, what
//! waiting costs, and what each task that waits.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{NewRecord, produce};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

use crate::contestants::sluice;
use crate::fill::{fill, plain};
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const TOPIC: &str = "idle";
const RECORDS: usize = 100;
const PERIOD: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(20);
/// Of each connector among many.
const FEW_PARTITIONS: i32 = 4;

#[derive(Debug, Args)]
pub struct Options {
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    #[arg(long, default_value_t = 50)]
    tasks: usize,
    /// Connectors of the worker with many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    connectors: u32,
    /// Tasks of each of them.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(2..))]
    tasks_each: u32,
}

const INTRO: &str = "10 records a second, then none. Then many connectors, each with a topic of its own: a worker \
whose connectors have one task each, and one whose connectors have many. Both deliver some records and wait. What \
they have more in memory by the end of the wait, the second one's further tasks have. The broker has Kafka's own \
time-outs.";

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    facts.extend([
        ("tasks", json!(options.tasks)),
        ("connectors", json!(options.connectors)),
        ("tasks_each", json!(options.tasks_each)),
    ]);
    let kafka = &Kafka::start(KafkaOptions::new().default_timeouts()).await?;
    let mut goals = one_connector(options, kafka, binary).await?;
    let crowds = Crowds {
        kafka,
        binary,
        connectors: options.connectors,
    };
    crowds.set().await?;
    let waiting = [
        crowds.waiting(1).await?,
        crowds.waiting(options.tasks_each).await?,
    ];
    goals.extend(goals_of_many(&waiting));
    Ok(Section {
        key: "idle",
        title: "Next to nothing to do",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&waiting)],
        goals,
        ..Section::default()
    })
}

async fn one_connector(options: &Options, kafka: &Kafka, binary: &Path) -> Result<Vec<Goal>> {
    let admin = kafka.admin().await?;
    admin.create_topic(TOPIC, options.partitions).await?;
    let (worker, group) = sluice::start(&sluice::Case {
        records: RECORDS,
        tasks: options.tasks,
        round: "idle",
        status_interval_ms: None,
        ..sluice::Case::of(kafka, binary, TOPIC)
    })?;
    let url = worker.rest_url().await?;
    let mut ticks = interval(PERIOD);
    for number in 0..RECORDS {
        ticks.tick().await;
        let record = NewRecord::value(number.to_string());
        produce(kafka.bootstrap_servers(), TOPIC, [record]).await?;
    }
    admin
        .wait_until_consumed(&group, TOPIC, Duration::from_secs(30))
        .await?;
    let metrics = get(&url, "/metrics").await?;
    let median = median(&buckets(&metrics)).context("no settlements in /metrics")?;
    let cpu_percent = cpu_percent(&worker).await?;
    worker.stop(STOP).await?;
    let median_ms = median * 1000.0;
    Ok(vec![
        Goal::at_most(
            "median from the sink's word to the broker's answer, ms",
            10.0,
            median_ms,
        ),
        Goal::at_most("CPU while nothing comes, % of a core", 1.0, cpu_percent),
    ])
}

/// Of a core, over a while in which nothing comes.
async fn cpu_percent(worker: &Worker) -> Result<f64> {
    let before = worker.usage()?.cpu;
    sleep(REST).await;
    let busy = worker.usage()?.cpu.saturating_sub(before);
    Ok(busy.as_secs_f64() / REST.as_secs_f64() * 100.0)
}

/// What a worker with many connectors uses while it waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Of all connectors together.
    tasks: u32,
    resident_kb: u64,
    cpu_percent: f64,
}

/// Workers with many connectors that wait.
struct Crowds<'a> {
    kafka: &'a Kafka,
    binary: &'a Path,
    connectors: u32,
}

impl Crowds<'_> {
    fn topics(&self) -> impl Iterator<Item = String> {
        (0..self.connectors).map(|number| format!("idle-{number}"))
    }

    async fn set(&self) -> Result<()> {
        let admin = self.kafka.admin().await?;
        for topic in self.topics() {
            admin.create_topic(&topic, FEW_PARTITIONS).await?;
            fill(self.kafka, (&topic, FEW_PARTITIONS), RECORDS, plain, &[]).await?;
        }
        Ok(())
    }

    async fn waiting(&self, tasks_each: u32) -> Result<Waiting> {
        let mut options = sluice::options(self.kafka, self.binary);
        for topic in self.topics() {
            let name = format!("{topic}-{tasks_each}");
            let connector = sluice::connector(&name, &topic, tasks_each as usize, &[]);
            options = options.connector(&name, &connector);
        }
        let worker = Worker::start(&options)?;
        let url = worker.rest_url().await?;
        let tasks = self.connectors * tasks_each;
        eventually("all tasks run", PATIENCE, async || {
            let running = running_tasks(&get(&url, "/metrics").await?);
            ensure!(running >= f64::from(tasks), "{running} of {tasks} run");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let admin = self.kafka.admin().await?;
        for topic in self.topics() {
            let group = sluice::group(&format!("{topic}-{tasks_each}"));
            admin.wait_until_consumed(&group, &topic, PATIENCE).await?;
        }
        let cpu_percent = cpu_percent(&worker).await?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.pid()))?;
        worker.stop(STOP).await?;
        Ok(Waiting {
            tasks,
            resident_kb: resident_kb(&status).context("no VmRSS in /proc/PID/status")?,
            cpu_percent,
        })
    }
}

fn table(waiting: &[Waiting; 2]) -> Table {
    let columns = vec![
        Column::new("resident memory, MB", 1),
        Column::new("CPU, % of a core", 2),
    ];
    let mut table = Table::new("tasks that wait", columns);
    for it in waiting {
        let memory = it.resident_kb as f64 / 1024.0;
        table.push(it.tasks.to_string(), [memory, it.cpu_percent].map(Some));
    }
    table
}

fn goals_of_many([few, many]: &[Waiting; 2]) -> [Goal; 2] {
    let more = many.resident_kb as f64 - few.resident_kb as f64;
    let each = more / f64::from(many.tasks - few.tasks);
    let (tasks, cpu) = (many.tasks, many.cpu_percent);
    [
        Goal::at_most("memory of a task that waits, KB", 100.0, each),
        Goal::at_most(
            format!("CPU while {tasks} tasks wait, % of a core"),
            1.0,
            cpu,
        ),
    ]
}

/// The sum over all connectors.
fn running_tasks(metrics: &str) -> f64 {
    let running = |line: &str| {
        let line = line.strip_prefix("kafka_connect_worker_connector_running_task_count{")?;
        line.split_once("} ")?.1.trim().parse::<f64>().ok()
    };
    metrics.lines().filter_map(running).sum()
}

/// Of `/proc/PID/status`: what is in memory now.
fn resident_kb(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The body of an answer; enough HTTP for one's own worker.
async fn get(url: &str, path: &str) -> Result<String> {
    let address = url.strip_prefix("http://").context("no http:// address")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{path} answered {head}");
    Ok(body.to_owned())
}

/// Upper bounds in seconds, and how many settlements stayed below.
fn buckets(metrics: &str) -> Vec<(f64, f64)> {
    let bucket = |line: &str| {
        let line = line.strip_prefix("sluice_settlement_seconds_bucket{")?;
        let (labels, count) = line.split_once("} ")?;
        let bound = labels.split("le=\"").nth(1)?.split('"').next()?;
        // +Inf is a number to Rust as well.
        Some((bound.parse().ok()?, count.trim().parse().ok()?))
    };
    metrics.lines().filter_map(bucket).collect()
}

/// Interpolated within its bucket.
fn median(buckets: &[(f64, f64)]) -> Option<f64> {
    let half = buckets.last()?.1 / 2.0;
    let (mut bound_below, mut below) = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= half && *count > below {
            return Some(bound_below + (bound - bound_below) * (half - below) / (count - below));
        }
        (bound_below, below) = (*bound, *count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_bucket_that_passes_the_half() {
        let text = "# HELP x\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"0.002\"} 10\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"0.004\"} 90\n\
                    sluice_settlement_seconds_bucket{connector=\"a\",le=\"+Inf\"} 100\n\
                    sluice_settlement_seconds_count{connector=\"a\"} 100\n";
        let buckets = buckets(text);
        assert_eq!(buckets.len(), 3);
        let median = median(&buckets).unwrap();
        assert!((median - 0.003).abs() < 1e-9, "{median}");
    }

    #[test]
    fn a_task_costs_what_more_tasks_have_more_in_memory() {
        let waiting = |tasks, resident_kb, cpu_percent| Waiting {
            tasks,
            resident_kb,
            cpu_percent,
        };
        let met = |many: Waiting| {
            let goals = goals_of_many(&[waiting(20, 30_000, 0.9), many]);
            goals.map(|goal| goal.is_met(0.0))
        };
        assert_eq!(met(waiting(500, 78_000, 1.0)), [true, true]);
        assert_eq!(met(waiting(500, 78_500, 1.1)), [false, false]);
        // Less than with few tasks is what a busy allocator can come to.
        assert_eq!(met(waiting(500, 29_000, 0.5)), [true, true]);
        let text = table(&[waiting(20, 30_720, 0.9), waiting(500, 78_000, 1.0)]).markdown();
        assert!(text.contains("| 20 | 30.0 | 0.90 |\n"), "{text}");
    }

    #[test]
    fn running_tasks_of_all_connectors_count() {
        let text = "# TYPE kafka_connect_worker_connector_running_task_count gauge\n\
                    kafka_connect_worker_connector_running_task_count{connector=\"a\"} 25\n\
                    kafka_connect_worker_connector_running_task_count{connector=\"b\"} 20\n\
                    kafka_connect_worker_connector_failed_task_count{connector=\"b\"} 5\n";
        assert!((running_tasks(text) - 45.0).abs() < 1e-9);
    }

    #[test]
    fn resident_memory_is_that_of_now_not_the_highest() {
        let status = "VmHWM:\t   90000 kB\nVmRSS:\t   80000 kB\n";
        assert_eq!(resident_kb(status), Some(80_000));
        assert_eq!(resident_kb("Name: x\n"), None);
    }

    #[test]
    fn nothing_settled_has_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[(1.0, 0.0)]), None);
    }
}
