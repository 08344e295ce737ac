//! What the demo asks of its connector: how slow the sink is, and what goes
//! wrong on the way.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::DemoOptions;

pub(super) const TOPIC: &str = "orders";
pub(super) const PARTITIONS: u32 = 12;
pub(super) const CONNECTOR: &str = "demo";
pub(super) const GROUP: &str = "share-demo";

/// One in so many orders takes `SLOW_TIMES` as long as the others, a tenth of
/// all the time.
const SLOW_EVERY: u32 = 200;
const SLOW_TIMES: u32 = 20;
const SLOW_SHARE: f64 = SLOW_TIMES as f64 / SLOW_EVERY as f64;

/// Orders of each partition that the sink does not take at first.
const RELEASES: u32 = 8;

/// No order takes longer, however few there are.
const LONGEST: Duration = Duration::from_secs(2);

/// The figures behind a demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) records: u32,
    pub(super) tasks: u32,
    /// How long most orders take.
    pub(super) latency: Duration,
    /// How long the slow ones take.
    pub(super) slow: Duration,
}

impl Plan {
    /// A sink so slow that its tasks together need the time that was asked
    /// for.
    pub(super) fn of(options: DemoOptions) -> Self {
        let DemoOptions {
            records,
            tasks,
            seconds,
        } = options;
        let at_work = tasks.min(records);
        let mean = Duration::from_secs(seconds.into()) * at_work / records;
        let mean = mean.min(LONGEST);
        Self {
            records,
            tasks,
            latency: mean.mul_f64(1.0 - SLOW_SHARE),
            slow: (mean * SLOW_TIMES).min(LONGEST),
        }
    }

    /// One in so many is slow.
    pub(super) const fn slow_every(self) -> u32 {
        SLOW_EVERY
    }

    /// How long so many tasks need for all orders.
    pub(super) fn takes(self, tasks: u32) -> Duration {
        let all = self.latency * self.records + self.slow * (self.records / SLOW_EVERY);
        all / tasks
    }

    /// The connector's configuration, as a user would write it.
    pub(super) fn connector(self, record_file: &Path) -> Value {
        let of_partition = self.records / PARTITIONS;
        let slower = self.slow.saturating_sub(self.latency);
        json!({
            "name": CONNECTOR,
            "connector.class": "null",
            "topics": TOPIC,
            "tasks.max": self.tasks,
            "consumer.override.group.protocol": "share",
            "share.group.id": GROUP,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "max.put.records": 1,
            // What the sink does not take goes back to the broker at once.
            "errors.retry.timeout": 0,
            "record.file": record_file,
            "record.latency.us": as_micros(self.latency),
            "slow.match": format!("every={SLOW_EVERY}"),
            "slow.ms": as_millis(slower),
            // One or two in each partition. The broker gives out one partition
            // after the other, so one task dies after the other.
            "panic.match": format!("every={},times=1", of_partition / 2 + 1),
            "retry.match": format!("every={},times=1", (of_partition / RELEASES).max(1)),
        })
    }
}

fn as_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(records: u32, tasks: u32, seconds: u32) -> Plan {
        Plan::of(DemoOptions {
            records,
            tasks,
            seconds,
        })
    }

    #[test]
    fn the_tasks_together_need_the_time_that_was_asked_for() {
        for (records, tasks, seconds) in [(20_000, 50, 20), (3_000, 50, 5), (100_000, 200, 60)] {
            let takes = plan(records, tasks, seconds).takes(tasks).as_secs_f64();
            let asked = f64::from(seconds);
            assert!((takes - asked).abs() < 0.1 * asked, "{takes} for {asked}");
        }
    }

    #[test]
    fn a_handful_of_orders_does_not_take_for_ever() {
        for records in [1, 5, 60] {
            let plan = plan(records, 50, 600);
            assert!(plan.latency <= LONGEST && plan.slow <= LONGEST, "{plan:?}");
        }
    }

    #[test]
    fn tasks_die_and_orders_come_again_however_few_there_are() {
        for records in [1, 11, 12, 250, 20_000] {
            let connector = plan(records, 50, 20).connector(Path::new("/tmp/arrived"));
            for rule in ["panic.match", "retry.match"] {
                let text = connector[rule].as_str().unwrap();
                let every = text.split("every=").nth(1).unwrap();
                let every: u32 = every.split(',').next().unwrap().parse().unwrap();
                assert!(
                    every >= 1 && every <= (records / PARTITIONS).max(1),
                    "{text}"
                );
            }
        }
    }
}
