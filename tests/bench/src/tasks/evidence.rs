//! Why a rate is what it is: what the tasks waited for, and who used the
//! processors.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::contestants::sinks::Sinks;
use crate::contestants::sluice::{Finished, events};
use crate::report::{Column, Table};

/// See the module. All of a worker while its rate was steady.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evidence {
    pub(super) records_a_put: f64,
    put_ms: f64,
    /// The part of their time that all tasks were in puts.
    busy: f64,
    /// From a record's acquisition to its settlement.
    held_ms: f64,
    /// What of that it waited for a task.
    queued_ms: f64,
    /// Offsets from the first open record of a partition to the last, where
    /// they are the most.
    span: f64,
    worker_cores: f64,
    broker_cores: f64,
    sleepers_cores: f64,
}

/// Seconds of CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpu {
    pub(super) broker: f64,
    /// A second.
    pub(super) sleepers: f64,
}

impl Evidence {
    pub(super) fn new(
        finished: &Finished,
        sinks: &Sinks,
        tasks: usize,
        rate: f64,
        cpu: Cpu,
    ) -> Result<Self> {
        let steady = |field| {
            steady_mean(&finished.log, field)
                .with_context(|| format!("too few status lines to tell {field}"))
        };
        // Of all records, also those at the begin and the end.
        let cores = |seconds: f64| seconds / sinks.records * rate;
        Ok(Self {
            records_a_put: sinks.records / sinks.puts,
            put_ms: sinks.busy_seconds / sinks.puts * 1000.0,
            busy: rate * sinks.busy_seconds / sinks.records / tasks as f64,
            // As many as are there at a time, over as many as go in a second.
            held_ms: steady("in_flight")? / rate * 1000.0,
            queued_ms: steady("queued")? / rate * 1000.0,
            span: steady("span")?,
            worker_cores: cores(finished.usage.cpu.as_secs_f64()),
            broker_cores: cores(cpu.broker),
            sleepers_cores: cpu.sleepers,
        })
    }

    /// What so many locks on one partition allow: each is held for a put, and
    /// for the way from the broker and back. A record need not wait for a task.
    pub(super) fn span_law(&self, locks: f64) -> f64 {
        locks / (self.held_ms - self.queued_ms) * 1000.0
    }
}

pub(super) fn table<'a>(all: impl IntoIterator<Item = (&'a str, &'a Evidence)>) -> Table {
    let columns = vec![
        Column::new("records a put", 1),
        Column::new("a put, ms", 1),
        Column::new("part of the tasks' time in puts", 3),
        Column::new("a record held, ms", 1),
        Column::new("of that waiting for a task", 1),
        Column::new("longest span, offsets", 0),
        Column::new("worker, cores", 2),
        Column::new("broker, cores", 2),
        Column::new("sleepers without Kafka, cores", 2),
    ];
    let mut table = Table::new("Sluice at its rate", columns);
    for (name, it) in all {
        let figures = [
            it.records_a_put,
            it.put_ms,
            it.busy,
            it.held_ms,
            it.queued_ms,
            it.span,
            it.worker_cores,
            it.broker_cores,
            it.sleepers_cores,
        ];
        table.push(name, figures.map(Some));
    }
    table
}

/// The mean of a figure of the status lines that lie between the first and the
/// last tenth of the records.
fn steady_mean(log: &str, field: &str) -> Option<f64> {
    let lines: Vec<Value> = events(log, "status").collect();
    let accepted = |line: &Value| line["accepted"].as_u64();
    let all = accepted(lines.last()?)?;
    let steady = |line: &&Value| {
        accepted(line).is_some_and(|so_far| so_far * 10 >= all && so_far * 10 < all * 9)
    };
    let figures: Vec<f64> = lines
        .iter()
        .filter(steady)
        .filter_map(|line| line[field].as_f64())
        .collect();
    (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use sluice_test_support::process::Usage;

    use super::*;
    use crate::contestants::Series;

    fn finished() -> Finished {
        let line = |accepted: u64, in_flight: u64| {
            json!({"message": "status", "accepted": accepted, "in_flight": in_flight,
                   "queued": in_flight / 5, "span": 2 * in_flight})
            .to_string()
        };
        let lines = [
            line(0, 9),
            line(100, 40),
            line(500, 60),
            line(900, 7),
            line(1000, 0),
        ];
        Finished {
            confirmed: Series::new(),
            usage: Usage {
                cpu: Duration::from_millis(500),
                peak_rss_bytes: 0,
            },
            log: lines.join("\n"),
        }
    }

    fn evidence() -> Evidence {
        let sinks = Sinks {
            puts: 100.0,
            records: 1000.0,
            busy_seconds: 2.0,
        };
        let cpu = Cpu {
            broker: 1.0,
            sleepers: 0.3,
        };
        Evidence::new(&finished(), &sinks, 4, 1000.0, cpu).unwrap()
    }

    #[test]
    fn what_is_held_is_told_by_what_is_in_flight_while_the_rate_is_steady() {
        let it = evidence();
        assert!((it.held_ms - 50.0).abs() < 1e-9, "{it:?}");
        assert!((it.span - 100.0).abs() < 1e-9, "{it:?}");
        assert_eq!(steady_mean("noise", "span"), None);
    }

    #[test]
    fn locks_allow_what_is_held_without_waiting_for_a_task() {
        assert!((evidence().span_law(2000.0) - 50_000.0).abs() < 1e-6);
    }

    #[test]
    fn time_in_puts_and_cores_are_those_at_the_rate() {
        let text = table([("4 tasks", &evidence())]).markdown();
        assert!(
            text.ends_with(
                "| 4 tasks | 10.0 | 20.0 | 0.500 | 50.0 | 10.0 | 100 | 0.50 | 1.00 | 0.30 |\n"
            ),
            "{text}"
        );
    }
}
