//! What a run has shown, held against the promises. No part of it is the
//! workers' word but their records in flight: deliveries are lines of files
//! that the test read, attempts and what was archived are the broker's books.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::fate::Fate;

/// A delivery counts as confirmed after so long, if nothing strikes.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(5);
/// Puts that were under way at a blow have ended so long after it.
const LATE: Duration = Duration::from_secs(5);
const EXAMPLES: usize = 5;
const MIB: u64 = 1 << 20;
/// How much more memory the last third of a run may take than the first, as
/// what comes as well and as a factor.
const MEMORY_SLACK: u64 = 8 * MIB;
const MEMORY_FACTOR: f64 = 1.2;

/// Partition and offset.
pub type Place = (i32, i64);

/// A record as the topic has it.
#[derive(Clone, Debug)]
pub struct Logged {
    pub id: String,
    pub place: Place,
    pub fate: Fate,
}

/// A line of a worker's file, written between two looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub worker: usize,
    pub from: Duration,
    pub until: Duration,
}

/// What made a worker lose locks.
#[derive(Clone, Debug)]
pub struct Blow {
    pub what: String,
    /// One, or all of them.
    pub worker: Option<usize>,
    pub from: Duration,
    /// When it was over.
    pub until: Duration,
    /// What the workers struck told last, for the report.
    pub in_flight: u64,
}

/// What the broker wrote about the share group.
#[derive(Clone, Debug, Default)]
pub struct BrokerBooks {
    pub archived: BTreeSet<Place>,
    pub highest_delivery_count: u16,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub workers: usize,
    /// Records that a worker may have in flight: its credit, and a batch for
    /// each partition.
    pub in_flight: u64,
    pub delivery_count: u16,
}

#[derive(Debug)]
pub struct Evidence {
    pub limits: Limits,
    /// How many records the producer was told to be in the log.
    pub produced: usize,
    pub log: Vec<Logged>,
    /// By id, each in the order of time.
    pub deliveries: BTreeMap<String, Vec<Delivery>>,
    pub blows: Vec<Blow>,
    pub broker: BrokerBooks,
    /// The most records in flight that any status line of a worker told.
    pub in_flight: u64,
    /// The veteran's resident bytes over time.
    pub memory: Vec<(Duration, u64)>,
    /// What else went wrong on the way.
    pub troubles: Vec<String>,
}

impl Evidence {
    /// All that is wrong; nothing if the promises were kept.
    pub fn faults(&self) -> Vec<String> {
        [
            self.troubles.clone(),
            self.log_faults(),
            self.delivery_faults(),
            self.archive_faults(),
            self.duplicate_faults(),
            self.in_flight_fault(),
            self.memory_fault(),
        ]
        .concat()
    }

    pub fn summary(&self) -> String {
        let told: u64 = self.blows.iter().map(|blow| blow.in_flight).sum();
        let (first, last) = self.memory_peaks();
        format!(
            "{} records, {} put aside, {} delivered again after {} blows at {told} records in \
             flight; at most {} deliveries of {}; in flight at most {} of {}; resident MiB at most \
             {} in the first third, {} in the last",
            self.log.len(),
            self.broker.archived.len(),
            self.repeated().count(),
            self.blows.len(),
            self.broker.highest_delivery_count,
            self.limits.delivery_count,
            self.in_flight,
            self.limits.in_flight,
            first / MIB,
            last / MIB,
        )
    }

    fn log_faults(&self) -> Vec<String> {
        let ids: HashSet<&str> = self.log.iter().map(|record| record.id.as_str()).collect();
        let mut faults = Vec::new();
        if ids.len() != self.produced || self.log.len() != self.produced {
            let (records, ids) = (self.log.len(), ids.len());
            let produced = self.produced;
            faults.push(format!(
                "the log has {records} records with {ids} ids, {produced} were produced"
            ));
        }
        let invented = self.deliveries.keys();
        let invented = invented.filter(|id| !ids.contains(id.as_str()));
        faults.extend(told("delivered, but never produced", invented));
        faults
    }

    fn delivery_faults(&self) -> Vec<String> {
        let is_delivered = |record: &&Logged| self.deliveries.contains_key(&record.id);
        let (put_aside, others): (Vec<&Logged>, Vec<&Logged>) = self
            .log
            .iter()
            .partition(|record| record.fate == Fate::Reject);
        let lost = others.into_iter().filter(|record| !is_delivered(record));
        let refused = put_aside.into_iter().filter(is_delivered);
        [
            told("lost", lost.map(name)),
            told("delivered, though the sink refused them", refused.map(name)),
        ]
        .concat()
    }

    /// The broker archives what is rejected, and what was delivered too often.
    fn archive_faults(&self) -> Vec<String> {
        let archived = |record: &&Logged| self.broker.archived.contains(&record.place);
        let is_reject = |record: &&Logged| record.fate == Fate::Reject;
        let log = || self.log.iter();
        let by_attempts = log().filter(archived).filter(|one| !is_reject(one));
        let forgotten = log().filter(is_reject).filter(|one| !archived(one));
        let mut faults = [
            told("archived by the broker", by_attempts.map(name)),
            told("planned to be put aside, and not", forgotten.map(name)),
        ]
        .concat();
        let (highest, limit) = (
            self.broker.highest_delivery_count,
            self.limits.delivery_count,
        );
        if highest >= limit {
            faults.push(format!("a record was delivered {highest} times of {limit}"));
        }
        faults
    }

    fn duplicate_faults(&self) -> Vec<String> {
        let unexplained = self.repeated().filter(|(_, first, again)| {
            let mut blows = self.blows.iter();
            !blows.any(|blow| blow.explains(first, again))
        });
        let unexplained: Vec<String> = unexplained
            .map(|(id, first, again)| format!("{id} by {first:?} and {again:?}"))
            .collect();
        let mut faults = told("delivered again without a cause", unexplained.iter());
        let struck = |blow: &Blow| blow.worker.map_or(self.limits.workers, |_| 1);
        let workers: usize = self.blows.iter().map(struck).sum();
        let bound = workers as u64 * self.limits.in_flight;
        let repeated = self.repeated().count() as u64;
        if repeated > bound {
            faults.push(format!(
                "{repeated} records were delivered again, {bound} at most were in flight at blows"
            ));
        }
        faults
    }

    /// Deliveries beyond the first, each with the one before.
    fn repeated(&self) -> impl Iterator<Item = (&str, Delivery, Delivery)> {
        self.deliveries.iter().flat_map(|(id, deliveries)| {
            let pairs = deliveries.windows(2);
            pairs.map(|pair| (id.as_str(), pair[0], pair[1]))
        })
    }

    fn in_flight_fault(&self) -> Vec<String> {
        let (most, limit) = (self.in_flight, self.limits.in_flight);
        let fault = format!("a worker had {most} records in flight, {limit} are its limit");
        (most > limit).then_some(fault).into_iter().collect()
    }

    fn memory_fault(&self) -> Vec<String> {
        let (first, last) = self.memory_peaks();
        let limit = (first as f64 * MEMORY_FACTOR) as u64 + MEMORY_SLACK;
        let fault = format!(
            "memory grew: {} MiB in the first third of the run, {} in the last",
            first / MIB,
            last / MIB
        );
        let grew = first == 0 || last > limit;
        grew.then_some(fault).into_iter().collect()
    }

    /// The most resident bytes in the first and in the last third.
    fn memory_peaks(&self) -> (u64, u64) {
        let end = self.memory.last().map_or(Duration::ZERO, |last| last.0);
        let peak = |within: &dyn Fn(Duration) -> bool| {
            let samples = self.memory.iter().filter(|sample| within(sample.0));
            samples.map(|sample| sample.1).max().unwrap_or_default()
        };
        (peak(&|at| at * 3 <= end), peak(&|at| at * 3 >= end * 2))
    }
}

impl Blow {
    fn strikes(&self, worker: usize) -> bool {
        self.worker.is_none_or(|struck| struck == worker)
    }

    /// Whether a record that came twice was in flight at this blow.
    fn explains(&self, first: &Delivery, again: &Delivery) -> bool {
        self.unconfirmed(first) && self.from <= again.until || self.late(first, again)
    }

    /// Its worker was struck before it could tell the broker.
    fn unconfirmed(&self, delivery: &Delivery) -> bool {
        self.strikes(delivery.worker)
            && self.from <= delivery.until + CONFIRMED_WITHIN
            && delivery.from <= self.until + LATE
    }

    /// The second is a put that was under way when its worker was struck; the
    /// record had gone to another one meanwhile.
    fn late(&self, first: &Delivery, again: &Delivery) -> bool {
        self.strikes(again.worker) && self.from <= first.until && again.from <= self.until + LATE
    }
}

fn name(record: &Logged) -> String {
    let (partition, offset) = record.place;
    format!(
        "{} ({}) at {partition}@{offset}",
        record.id,
        record.fate.key()
    )
}

fn told(what: &str, records: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
    let records: Vec<_> = records.collect();
    let examples = records.iter().take(EXAMPLES).map(AsRef::as_ref);
    let examples = examples.collect::<Vec<&str>>().join(", ");
    let fault = format!("{} {what}: {examples}", records.len());
    (!records.is_empty()).then_some(fault).into_iter().collect()
}
