//! What was measured and under which conditions, as Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::sluice::Measured;

/// A condition of the measurement by its name.
pub type Fact = (&'static str, Value);

const WARM_UP: &str = "warm-up, not counted";

/// One turn of each.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Records a second.
    pub consumer: f64,
    /// Records a second.
    pub share_consumer: f64,
    pub worker: Measured,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.worker.rate / self.consumer
    }
}

struct Column {
    key: &'static str,
    title: &'static str,
    decimals: usize,
    figure: fn(&Round) -> f64,
}

const COLUMNS: &[Column] = &[
    Column {
        key: "consumer_performance_records_per_second",
        title: "ConsumerPerformance, records/s",
        decimals: 0,
        figure: |round| round.consumer,
    },
    Column {
        key: "share_consumer_performance_records_per_second",
        title: "ShareConsumerPerformance with its join, records/s",
        decimals: 0,
        figure: |round| round.share_consumer,
    },
    Column {
        key: "sluice_records_per_second",
        title: "Sluice, records/s",
        decimals: 0,
        figure: |round| round.worker.rate,
    },
    Column {
        key: "ratio",
        title: "Sluice / ConsumerPerformance",
        decimals: 2,
        figure: Round::ratio,
    },
    Column {
        key: "sluice_cpu_micros_per_record",
        title: "Sluice's CPU, µs/record",
        decimals: 2,
        figure: |round| round.worker.cpu_micros_per_record,
    },
    Column {
        key: "sluice_peak_rss_mb",
        title: "Sluice's peak memory, MB",
        decimals: 0,
        figure: |round| round.worker.peak_rss_mb,
    },
];

/// A whole run.
pub struct Report {
    pub facts: Vec<Fact>,
    pub warm_up: Round,
    pub rounds: Vec<Round>,
}

impl Report {
    /// The median of the counted rounds' ratios.
    pub fn ratio(&self) -> f64 {
        self.median(Round::ratio)
    }

    pub fn markdown(&self) -> String {
        let mut text = list(&self.facts);
        let titles: Vec<&str> = COLUMNS.iter().map(|column| column.title).collect();
        let _ = writeln!(text, "\n| round | {} |", titles.join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len()));
        row(&mut text, WARM_UP, |column| (column.figure)(&self.warm_up));
        for (index, round) in self.rounds.iter().enumerate() {
            let name = (index + 1).to_string();
            row(&mut text, &name, |column| (column.figure)(round));
        }
        row(&mut text, "median", |column| self.median(column.figure));
        text
    }

    pub fn json(&self) -> Value {
        let of = |round: &Round| object(|column| (column.figure)(round));
        let facts: Map<String, Value> = self
            .facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        json!({
            "facts": facts,
            "warm_up": of(&self.warm_up),
            "rounds": self.rounds.iter().map(of).collect::<Vec<_>>(),
            "median": object(|column| self.median(column.figure)),
        })
    }

    fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        let mut figures: Vec<f64> = self.rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Facts as a list.
pub fn list(facts: &[Fact]) -> String {
    let mut text = String::new();
    for (name, value) in facts {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {name}: {value}");
    }
    text
}

fn row(text: &mut String, name: &str, figure: impl Fn(&Column) -> f64) {
    let _ = write!(text, "| {name} |");
    for column in COLUMNS {
        let _ = write!(text, " {:.*} |", column.decimals, figure(column));
    }
    text.push('\n');
}

fn object(figure: impl Fn(&Column) -> f64) -> Value {
    let figures = COLUMNS
        .iter()
        .map(|column| (column.key.to_owned(), json!(figure(column))));
    Value::Object(figures.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(consumer: f64, rate: f64) -> Round {
        Round {
            consumer,
            share_consumer: 50.0,
            worker: Measured {
                rate,
                cpu_micros_per_record: 1.234,
                peak_rss_mb: 30.4,
            },
        }
    }

    fn report() -> Report {
        Report {
            facts: vec![("cpu", json!("Fast 9000")), ("cores", json!(2))],
            warm_up: round(100.0, 1.0),
            rounds: vec![round(100.0, 90.0), round(200.0, 100.0), round(100.0, 120.0)],
        }
    }

    #[test]
    fn the_median_is_that_of_the_counted_rounds_ratios() {
        assert!((report().ratio() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn markdown_has_facts_then_a_row_for_each_round_and_names_the_warm_up() {
        let text = report().markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["- cpu: Fast 9000", "- cores: 2", ""]);
        let rows = [
            "| warm-up, not counted | 100 | 50 | 1 | 0.01 | 1.23 | 30 |",
            "| 1 | 100 | 50 | 90 | 0.90 | 1.23 | 30 |",
            "| 2 | 200 | 50 | 100 | 0.50 | 1.23 | 30 |",
            "| 3 | 100 | 50 | 120 | 1.20 | 1.23 | 30 |",
            "| median | 100 | 50 | 100 | 0.90 | 1.23 | 30 |",
        ];
        assert_eq!(lines[5..], rows);
        let columns = |line: &str| line.matches('|').count();
        assert!(lines[3..].iter().all(|line| columns(line) == 8), "{text}");
    }

    #[test]
    fn json_has_the_same_figures_unrounded() {
        let json = report().json();
        assert_eq!(json["facts"]["cores"], 2);
        assert_eq!(json["warm_up"]["ratio"], 0.01);
        assert_eq!(json["rounds"][1]["sluice_records_per_second"], 100.0);
        assert_eq!(json["median"]["sluice_cpu_micros_per_record"], 1.234);
    }

    #[test]
    fn without_rounds_there_is_no_median() {
        let report = Report {
            rounds: Vec::new(),
            ..report()
        };
        assert!(report.ratio().is_nan());
    }
}
