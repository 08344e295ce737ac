//! What is written into the topics of a run, and what lies there in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use sluice_test_support::consume::{Follower, Received, read_topic};
use sluice_test_support::produce::{NewRecord, json_records};

use super::cluster::{LETTERS, PARTITIONS, TOPIC};
use super::connectors::worker_of;
use super::fate::Fate;
use super::verdict::{Delivery, Logged};

const PARKED_COUNT: &str = "__sluice.parked.count";
/// What a record's time is cut to.
const MILLISECOND: Duration = Duration::from_millis(1);

/// How many of the next records have a fate that the schedule asks for.
#[derive(Default)]
pub struct Wanted {
    pub outages: AtomicUsize,
    pub worn: AtomicUsize,
}

impl Wanted {
    fn next(&self) -> Option<Fate> {
        let one_less = |wanted: usize| wanted.checked_sub(1);
        let each = [(&self.outages, Fate::Outage), (&self.worn, Fate::Worn)];
        each.into_iter().find_map(|(wanted, fate)| {
            let one = wanted.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
            one.ok().map(|_| fate)
        })
    }
}

/// Records without end, each with the key of its fate.
pub fn records(seed: u64, wanted: Arc<Wanted>) -> impl Iterator<Item = NewRecord> + Send {
    let records = (0..).zip(json_records(usize::MAX, PARTITIONS, 100));
    records.map(move |(number, record)| {
        let fate = wanted.next().unwrap_or_else(|| Fate::of(seed, number));
        record.key(fate.key())
    })
}

pub async fn logged(servers: &str) -> Result<Vec<Logged>> {
    let records = read_topic(servers, TOPIC).await?;
    let logged = records.into_iter().map(|record| {
        let place = (record.partition, record.offset);
        let fate = record.key.as_deref().and_then(Fate::of_key);
        let id = id(&record)?;
        let fate = fate.with_context(|| format!("{id} has no fate"))?;
        Ok(Logged { id, place, fate })
    });
    logged.collect()
}

/// The letters by id, each in the order of time. `began` is when the clock of
/// the run did, since 1970.
pub async fn letters(servers: &str, began: Duration) -> Result<BTreeMap<String, Vec<Delivery>>> {
    let mut letters = BTreeMap::new();
    for letter in read_topic(servers, LETTERS).await? {
        let id = id(&letter)?;
        let written = written(&letter, began).with_context(|| format!("the letter of {id}"))?;
        letters.entry(id).or_insert_with(Vec::new).push(written);
    }
    let each = letters.values_mut();
    each.for_each(|of_one: &mut Vec<Delivery>| of_one.sort_by_key(|one| one.until));
    Ok(letters)
}

/// Records that workers have parked, and not parked again: by id, each in the
/// order of time.
pub async fn parkings(
    of_workers: Vec<(usize, Follower)>,
    began: Duration,
) -> Result<BTreeMap<String, Vec<Delivery>>> {
    let mut parkings = BTreeMap::new();
    for (worker, follower) in of_workers {
        for parked in follower.stop().await? {
            if parked.header(PARKED_COUNT).as_deref() == Some("1") {
                let all = parkings.entry(id(&parked)?).or_insert_with(Vec::new);
                all.push(at_time(&parked, worker, began)?);
            }
        }
    }
    let each = parkings.values_mut();
    each.for_each(|of_one: &mut Vec<Delivery>| of_one.sort_by_key(|one| one.until));
    Ok(parkings)
}

fn written(letter: &Received, began: Duration) -> Result<Delivery> {
    let connector = letter.header("__connect.errors.connector.name");
    let worker = connector.as_deref().and_then(worker_of);
    let worker = worker.with_context(|| format!("no worker has connector {connector:?}"))?;
    at_time(letter, worker, began)
}

fn at_time(record: &Received, worker: usize, began: Duration) -> Result<Delivery> {
    let at = u64::try_from(record.timestamp.context("no time")?)?;
    let from = Duration::from_millis(at).saturating_sub(began);
    Ok(Delivery {
        worker,
        from,
        until: from + MILLISECOND,
    })
}

fn id(record: &Received) -> Result<String> {
    let value: Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default())?;
    let id = value["id"].as_str().context("a record without id")?;
    Ok(id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(connector: &str) -> Received {
        let name = "__connect.errors.connector.name".to_owned();
        Received {
            partition: 0,
            offset: 0,
            key: None,
            value: Some(br#"{"id":"a"}"#.to_vec()),
            headers: vec![(name, Some(connector.as_bytes().to_vec()))],
            timestamp: Some(61_500),
        }
    }

    #[test]
    fn a_letter_tells_its_writer_and_its_time_by_the_clock_of_the_run() {
        let written = written(&letter("chaos-2"), Duration::from_secs(60)).unwrap();
        assert_eq!(written.worker, 2);
        let times = (written.from, written.until);
        assert_eq!(
            times,
            (Duration::from_millis(1500), Duration::from_millis(1501))
        );
    }

    #[test]
    fn the_next_records_have_the_fates_that_are_wanted_each_once() {
        let wanted = Wanted::default();
        wanted.outages.store(1, Ordering::Release);
        wanted.worn.store(2, Ordering::Release);
        let next = [(); 4].map(|()| wanted.next());
        let (outage, worn) = (Some(Fate::Outage), Some(Fate::Worn));
        assert_eq!(next, [outage, worn, worn, None]);
    }

    #[test]
    fn a_letter_of_a_stranger_is_an_error() {
        for name in ["chaos-3", "chaos", "other-1"] {
            written(&letter(name), Duration::ZERO).unwrap_err();
        }
    }
}
