//! What a run has shown, held against the promises. No part of it is the
//! workers' word but their records in flight: deliveries are lines of files
//! that the test read, letters were read from their topic, attempts and what was
//! archived are the broker's books.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::duplicates::repeated;
use super::fate::Fate;
use super::footprint::{Footprint, MIB};
use super::schedule::WORKERS;
use super::setting::{PutAside, SinkKind};

const EXAMPLES: usize = 5;

/// Partition and offset.
pub type Place = (i32, i64);

/// A record as the topic has it.
#[derive(Clone, Debug)]
pub struct Logged {
    pub id: String,
    pub place: Place,
    pub fate: Fate,
}

/// A line of a worker's file, written between two looks at it; or a letter.
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
    /// What the workers struck told last.
    pub in_flight: u64,
}

/// A time of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub from: Duration,
    pub until: Duration,
}

/// What the broker wrote about the share group.
#[derive(Clone, Debug, Default)]
pub struct BrokerBooks {
    pub archived: BTreeSet<Place>,
    pub highest_delivery_count: u16,
    /// The end of what they tell of each partition.
    pub ends: BTreeMap<i32, i64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub workers: usize,
    /// Records that a worker may have in flight: its credit, and a batch for
    /// each partition.
    pub in_flight: u64,
    /// How many of them may be beyond its window.
    pub beyond_window: u64,
    pub delivery_count: u16,
}

#[derive(Debug)]
pub struct Evidence {
    pub limits: Limits,
    /// How many records the producer was told to be in the log.
    pub produced: usize,
    pub put_aside: PutAside,
    /// Of each worker.
    pub sinks: [SinkKind; WORKERS],
    pub log: Vec<Logged>,
    /// By id, each in the order of time.
    pub deliveries: BTreeMap<String, Vec<Delivery>>,
    /// Dead letters, likewise.
    pub letters: BTreeMap<String, Vec<Delivery>>,
    /// When records were parked for the first time, likewise.
    pub parkings: BTreeMap<String, Vec<Delivery>>,
    pub blows: Vec<Blow>,
    /// When a sink took nothing, or late.
    pub outages: Vec<Stretch>,
    /// When nothing struck, and all that was struck before had come again.
    pub calm: Option<Stretch>,
    pub broker: BrokerBooks,
    /// The same of the groups that read parked records.
    pub broker_on_parked: Vec<BrokerBooks>,
    /// What each life of a worker took.
    pub footprints: Vec<Footprint>,
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
            self.aside_faults(),
            self.book_faults(),
            self.parking_faults(),
            self.duplicate_faults(),
            self.calm_faults(),
            self.footprint_faults(),
        ]
        .concat()
    }

    pub fn summary(&self) -> String {
        let told: u64 = self.blows.iter().map(|blow| blow.in_flight).sum();
        let in_flight = self.footprints.iter().map(Footprint::most_in_flight).max();
        let (lives, [first, second]) = self.long_lives();
        format!(
            "{} records, {} refused, {} of them archived and {} with a letter, {} parked, {} \
             delivered and {} letters written again after {} blows at {told} records in flight; at most {} \
             deliveries of {}; in flight at most {} of {}; of {lives} lives longer than a minute \
             resident MiB at most {} in the first half, {} in the second",
            self.log.len(),
            self.log
                .iter()
                .filter(|one| one.fate == Fate::Reject)
                .count(),
            self.broker.archived.len(),
            self.letters.len(),
            self.parkings.len(),
            self.delivered_again().len(),
            repeated(&self.letters).count(),
            self.blows.len(),
            self.broker.highest_delivery_count,
            self.limits.delivery_count,
            in_flight.unwrap_or_default(),
            self.limits.in_flight,
            first / MIB,
            second / MIB,
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
        for (what, known) in [
            ("delivered, but never produced", &self.deliveries),
            ("parked, but never produced", &self.parkings),
            ("with a letter, but never produced", &self.letters),
        ] {
            let invented = known.keys().filter(|id| !ids.contains(id.as_str()));
            faults.extend(told(what, invented));
        }
        faults
    }

    fn delivery_faults(&self) -> Vec<String> {
        let is_delivered = |record: &&Logged| self.deliveries.contains_key(&record.id);
        let (put_aside, others): (Vec<&Logged>, Vec<&Logged>) = self
            .log
            .iter()
            .partition(|record| record.fate == Fate::Reject);
        let lost = others.into_iter().filter(|record| !is_delivered(record));
        let refused = put_aside.into_iter().filter(|record| {
            let deliveries = self.deliveries.get(&record.id).into_iter().flatten();
            deliveries
                .into_iter()
                .any(|one| !self.takes_all(one.worker))
        });
        [
            told("lost", lost.map(name)),
            told("delivered, though the sink refused them", refused.map(name)),
        ]
        .concat()
    }

    /// Whether a worker's sink refuses nothing.
    fn takes_all(&self, worker: usize) -> bool {
        self.sinks[worker] == SinkKind::File
    }

    /// What is refused is where the setting says, and nothing else is there.
    /// The broker archives what is rejected, and what was delivered too often.
    fn aside_faults(&self) -> Vec<String> {
        let archived = |record: &&Logged| self.broker.archived.contains(&record.place);
        let has_letter = |record: &&Logged| self.letters.contains_key(&record.id);
        let planned = |one: &&Logged, way| one.fate == Fate::Reject && self.put_aside == way;
        let log = || self.log.iter();
        let by_attempts = log().filter(archived);
        let by_attempts = by_attempts.filter(|one| !planned(one, PutAside::Rejected));
        let by_mistake = log().filter(has_letter);
        let by_mistake = by_mistake.filter(|one| !planned(one, PutAside::Letters));
        let forgotten = log().filter(|one| {
            let nowhere = planned(one, PutAside::Rejected) && !archived(one)
                || planned(one, PutAside::Letters) && !has_letter(one);
            // What a sink took that should not have is told above.
            nowhere && !self.deliveries.contains_key(&one.id)
        });
        [
            told("archived by the broker", by_attempts.map(name)),
            told("with a letter against the plan", by_mistake.map(name)),
            told("planned to be put aside, and not", forgotten.map(name)),
        ]
        .concat()
    }

    /// The books tell of each partition up to the end of its log, or something
    /// was not read: the states of a partition lie in one log, in order. And
    /// what was in flight at a blow was delivered again.
    fn book_faults(&self) -> Vec<String> {
        let mut ends = BTreeMap::new();
        for (partition, offset) in self.log.iter().map(|record| record.place) {
            let end = ends.entry(partition).or_insert(0);
            *end = (offset + 1).max(*end);
        }
        let mut faults = Vec::new();
        for (partition, end) in ends {
            let known = self.broker.ends.get(&partition).copied();
            if known < Some(end) {
                faults.push(format!(
                    "the broker's books tell of partition {partition} up to {known:?}, it ends \
                     at {end}"
                ));
            }
        }
        let highest = self.broker.highest_delivery_count;
        let limit = self.limits.delivery_count;
        let is_worn = self.log.iter().any(|one| one.fate == Fate::Worn);
        if !is_worn && highest >= limit {
            faults.push(format!("a record was delivered {highest} times of {limit}"));
        }
        // What is on its last attempt went back once less.
        if is_worn && highest + 1 < limit {
            faults.push(format!(
                "no record came to its last attempt, but to {highest} of {limit}"
            ));
        }
        let struck: u64 = self.blows.iter().map(|blow| blow.in_flight).sum();
        if highest < 2 && struck > 0 {
            faults.push(format!(
                "{struck} records were in flight at blows, and the broker counts {highest} \
                 delivery of each"
            ));
        }
        faults
    }

    /// What was parked is delivered from there, and not archived.
    fn parking_faults(&self) -> Vec<String> {
        let lost = self.broker_on_parked.iter().flat_map(|books| {
            let archived = books.archived.iter();
            archived.map(|(partition, offset)| format!("{partition}@{offset}"))
        });
        let mut faults = told("parked records archived by the broker", lost);
        let counts = self.broker_on_parked.iter();
        let highest = counts.map(|it| it.highest_delivery_count).max();
        let limit = self.limits.delivery_count;
        if highest >= Some(limit) {
            faults.push(format!(
                "a parked record was delivered {highest:?} times of {limit}"
            ));
        }
        faults
    }

    fn footprint_faults(&self) -> Vec<String> {
        let each = self.footprints.iter();
        let mut faults: Vec<String> = each
            .flat_map(|footprint| footprint.faults(self.limits.beyond_window))
            .collect();
        if self.long_lives().0 == 0 {
            faults.push("no worker lived for long enough to judge its memory".to_owned());
        }
        faults
    }

    /// How many lives were long enough to be judged by their memory, and the
    /// most that any of them took in its first and its second half.
    fn long_lives(&self) -> (usize, [u64; 2]) {
        let peaks = self.footprints.iter().filter_map(Footprint::memory_peaks);
        peaks.fold((0, [0, 0]), |(lives, most), (first, second)| {
            (lives + 1, [most[0].max(first), most[1].max(second)])
        })
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

pub fn told(what: &str, records: impl Iterator<Item = impl AsRef<str>>) -> Vec<String> {
    let records: Vec<_> = records.collect();
    let examples = records.iter().take(EXAMPLES).map(AsRef::as_ref);
    let examples = examples.collect::<Vec<&str>>().join(", ");
    let fault = format!("{} {what}: {examples}", records.len());
    (!records.is_empty()).then_some(fault).into_iter().collect()
}
