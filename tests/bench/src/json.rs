//! JSON with a schema, two transforms, and a sink that writes to another topic:
//! Sluice beside Kafka Connect with the same converters and transforms.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::NewRecord;

use crate::contestants::connect::{Connect, KAFKA_SINK};
use crate::contestants::java::Classes;
use crate::contestants::owned;
use crate::contestants::{Measured, sluice};
use crate::figures::{median, median_ratio, turns};
use crate::fill::fill;
use crate::machine;
use crate::report::{Column, Goal, Section, Table};

const TOPIC: &str = "json";
const BROKER_HEAP_MB: u32 = 1024;
const CONNECT_HEAP_MB: u32 = 1024;
/// Each is at its best of these: more than partitions are no use to Connect.
const CONNECT_TASKS: [usize; 2] = [4, 12];
const SLUICE_TASKS: [usize; 3] = [4, 12, 48];
const WITHIN: Duration = Duration::from_secs(300);
const LOCKS: (&str, &str) = ("share.partition.max.record.locks", "4000");
const JSON: &str = "org.apache.kafka.connect.json.JsonConverter";

#[derive(Debug, Args)]
pub struct Options {
    /// Records in the topic.
    #[arg(long, default_value_t = 1_000_000)]
    records: usize,
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// Counted rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    kafka: Kafka,
    classes: Classes,
}

const INTRO: &str = "JSON with its schema is read, a field is added, another is renamed, and the record is \
written to a topic as JSON with its schema, confirmed by the broker before it counts. The sink that Connect \
runs is ours: a producer with its default settings, which waits for all answers before a put returns. \
Each is at its best number of tasks: of 4 and 12 for Connect, which has no more than partitions, of 4, 12 and 48 \
for Sluice.";

pub async fn run(options: &Options, binary: &Path) -> Result<Section> {
    let mut facts = machine::facts(binary).await?;
    let kafka = Kafka::start(KafkaOptions::new().heap_mb(BROKER_HEAP_MB)).await?;
    kafka
        .admin()
        .await?
        .create_topic(TOPIC, options.partitions)
        .await?;
    let (topic, record) = ((TOPIC, options.partitions), |number| {
        NewRecord::value(order(number))
    });
    fill(&kafka, topic, options.records, record, &[]).await?;
    let bench = Bench {
        options,
        binary,
        kafka,
        classes: Classes::compile()?,
    };
    let best = bench.best().await?;
    facts.extend([
        ("records", json!(options.records)),
        ("record_bytes", json!(order(0).len())),
        ("partitions", json!(options.partitions)),
        ("rounds", json!(options.rounds)),
        ("tasks", json!(best.sluice)),
        ("connect_tasks", json!(best.connect)),
        ("connect_heap_mb", json!(CONNECT_HEAP_MB)),
    ]);
    let rounds = bench.rounds(best).await?;
    Ok(Section {
        key: "json",
        title: "JSON, two transforms, a Kafka sink",
        intro: INTRO.to_owned(),
        facts,
        tables: vec![table(&rounds)],
        goals: goals(&rounds),
        ..Section::default()
    })
}

/// As `JsonConverter` writes it with `schemas.enable`.
fn order(number: usize) -> String {
    let field = |name, kind| json!({"field": name, "type": kind, "optional": false});
    let fields = [
        field("id", "int64"),
        field("customer", "string"),
        field("amount", "double"),
        field("paid", "boolean"),
    ];
    let payload = json!({
        "id": number,
        "customer": format!("customer-{:06}", number % 1000),
        "amount": 0.25 * (number % 10_000) as f64,
        "paid": number.is_multiple_of(3),
    });
    let schema = json!({"type": "struct", "name": "order", "optional": false, "fields": fields});
    json!({"schema": schema, "payload": payload}).to_string()
}

/// What both are told.
fn transforms() -> Vec<(String, String)> {
    owned([
        ("value.converter", JSON),
        ("value.converter.schemas.enable", "true"),
        ("transforms", "from,rename"),
        (
            "transforms.from.type",
            "org.apache.kafka.connect.transforms.InsertField$Value",
        ),
        ("transforms.from.static.field", "from"),
        ("transforms.from.static.value", "shop"),
        (
            "transforms.rename.type",
            "org.apache.kafka.connect.transforms.ReplaceField$Value",
        ),
        ("transforms.rename.renames", "amount:total"),
    ])
}

/// Numbers of tasks.
#[derive(Clone, Copy)]
struct Best {
    connect: usize,
    sluice: usize,
}

/// Rounds of each.
#[derive(Debug, Default)]
struct Rounds {
    connect: Vec<Measured>,
    sluice: Vec<Measured>,
}

impl Bench<'_> {
    async fn rounds(&self, best: Best) -> Result<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..=self.options.rounds as usize {
            for place in turns(round, 2) {
                let measured = match place {
                    0 => self.connect(best.connect, &round.to_string()).await?,
                    _ => self.sluice(best.sluice, &round.to_string()).await?,
                };
                // A broker that is cold counts for nobody.
                match place {
                    _ if round == 0 => (),
                    0 => rounds.connect.push(measured),
                    _ => rounds.sluice.push(measured),
                }
            }
        }
        Ok(rounds)
    }

    async fn best(&self) -> Result<Best> {
        let (mut connect, mut sluice) = (Vec::new(), Vec::new());
        for tasks in CONNECT_TASKS {
            let turn = format!("search-{tasks}");
            connect.push((tasks, self.connect(tasks, &turn).await?.rate));
        }
        for tasks in SLUICE_TASKS {
            let turn = format!("search-{tasks}");
            sluice.push((tasks, self.sluice(tasks, &turn).await?.rate));
        }
        Ok(Best {
            connect: fastest(&connect),
            sluice: fastest(&sluice),
        })
    }

    async fn connect(&self, tasks: usize, turn: &str) -> Result<Measured> {
        let target = self.target(&format!("connect-{turn}")).await?;
        let mut connector = transforms();
        let servers = self.kafka.bootstrap_servers();
        connector.extend(owned([
            ("target.topic", &*target),
            ("producer.bootstrap.servers", servers),
        ]));
        let connect = Connect {
            classes: &self.classes,
            kafka: &self.kafka,
            topic: TOPIC,
            class: KAFKA_SINK,
            tasks,
            heap_mb: CONNECT_HEAP_MB,
            connector: &connector,
            turn,
        };
        let measured = connect.measure(self.options.records, WITHIN).await?;
        self.check(&target).await?;
        Ok(measured)
    }

    async fn sluice(&self, tasks: usize, turn: &str) -> Result<Measured> {
        let target = self.target(&format!("sluice-{turn}")).await?;
        let mut connector = transforms();
        connector.extend(owned([
            ("connector.class", "kafka"),
            ("topic", &*target),
            ("value.format", "envelope"),
            LOCKS,
        ]));
        let measured = sluice::measure(&sluice::Case {
            records: self.options.records,
            tasks,
            connector: &connector,
            round: turn,
            ..sluice::Case::of(&self.kafka, self.binary, TOPIC)
        })
        .await?;
        self.check(&target).await?;
        Ok(measured)
    }

    async fn target(&self, name: &str) -> Result<String> {
        let admin = self.kafka.admin().await?;
        admin.create_topic(name, self.options.partitions).await?;
        Ok(name.to_owned())
    }

    /// All arrived, and nothing arrived twice: nobody was killed.
    async fn check(&self, target: &str) -> Result<()> {
        let arrived = self.kafka.admin().await?.end_offsets(target).await?;
        let (arrived, records) = (arrived.values().sum::<i64>(), self.options.records as i64);
        ensure!(
            arrived == records,
            "{arrived} of {records} records are in {target}"
        );
        Ok(())
    }
}

fn fastest(tried: &[(usize, f64)]) -> usize {
    let fastest = tried.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    fastest.map_or(1, |(tasks, _)| *tasks)
}

fn table(rounds: &Rounds) -> Table {
    let columns = vec![
        Column::new("records/s, median", 0),
        Column::new("CPU, µs/record", 2),
        Column::new("peak memory, MB", 0),
    ];
    let mut table = Table::new("who", columns);
    for (who, measured) in [
        ("Kafka Connect", &rounds.connect),
        ("Sluice", &rounds.sluice),
    ] {
        let of = |figure: fn(&Measured) -> f64| Some(median(measured.iter().map(figure)));
        let figures = [
            of(|it| it.rate),
            of(|it| it.cpu_micros_per_record),
            of(|it| it.peak_rss_mb),
        ];
        table.push(who, figures);
    }
    table
}

fn goals(rounds: &Rounds) -> Vec<Goal> {
    let rates = |of: &[Measured]| of.iter().map(|it| it.rate).collect::<Vec<_>>();
    let ratio = median_ratio(&rates(&rounds.sluice), &rates(&rounds.connect));
    vec![Goal::at_least("rate / Connect's", 3.0, ratio)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(rates: &[f64]) -> Vec<Measured> {
        let round = |rate: &f64| Measured {
            rate: *rate,
            cpu_micros_per_record: 1.5,
            peak_rss_mb: 20.0,
        };
        rates.iter().map(round).collect()
    }

    #[test]
    fn the_goal_is_three_times_the_rate_of_connect() {
        let of = |sluice: &[f64]| Rounds {
            connect: rounds(&[10.0, 10.0, 20.0]),
            sluice: rounds(sluice),
        };
        assert!(goals(&of(&[30.0, 31.0, 20.0]))[0].is_met(0.0));
        assert!(!goals(&of(&[29.0, 31.0, 20.0]))[0].is_met(0.0));
    }

    #[test]
    fn the_number_of_tasks_is_that_of_the_highest_rate() {
        assert_eq!(fastest(&[(4, 10.0), (12, 30.0), (48, 20.0)]), 12);
    }

    #[test]
    fn an_order_is_json_with_its_schema() {
        let order: serde_json::Value = serde_json::from_str(&order(3)).unwrap();
        assert_eq!(order["payload"]["customer"], "customer-000003");
        assert_eq!(order["schema"]["fields"].as_array().unwrap().len(), 4);
    }
}
