//! A reader of a share source that keeps count.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use krafka::Kafka;
use sluice::kafka::share::{ShareSource, ShareSourceConfig, start};
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{
    Answer, AnsweredRange, SettleRange, Settlement, Source, SourceEvent, SourceEvents,
};
use sluice_actors::record::{AcquiredBatch, SourcePartition};
use tokio::runtime::Handle;

use crate::cluster::{PATIENCE, connect};

/// A partition and an offset of it.
pub(crate) type Place = (i32, i64);

/// A share source with everything that it told.
pub(crate) struct Reader {
    pub(crate) kafka: Kafka,
    pub(crate) source: ShareSource,
    pub(crate) credit: Arc<Credit>,
    events: SourceEvents,
    /// The delivery count of each record that is here.
    pub(crate) acquired: BTreeMap<Place, u16>,
    /// Records that came, each delivery counted.
    pub(crate) deliveries: usize,
    pub(crate) confirmed: BTreeSet<Place>,
    pub(crate) unknown: BTreeSet<Place>,
    pub(crate) renewed: usize,
    pub(crate) lost: BTreeSet<Place>,
    pub(crate) ready: bool,
    pub(crate) troubles: Vec<String>,
    pub(crate) failure: Option<String>,
    pub(crate) partitions: BTreeMap<(String, i32), Arc<SourcePartition>>,
    batches: Vec<AcquiredBatch>,
}

impl Reader {
    pub(crate) async fn start(group: &str, topics: &[&str], window: usize) -> Self {
        let topics = topics.iter().map(|topic| Arc::from(*topic)).collect();
        Self::with(ShareSourceConfig::new(group, topics), window).await
    }

    pub(crate) async fn with(config: ShareSourceConfig, window: usize) -> Self {
        Self::over(connect().await, config, window)
    }

    pub(crate) fn over(kafka: Kafka, config: ShareSourceConfig, window: usize) -> Self {
        let credit = Credit::new(64 * 1024 * 1024);
        credit.set_window_records(window);
        let (source, events) = start(
            kafka.clone(),
            config,
            Arc::clone(&credit),
            &Handle::current(),
        );
        Self {
            kafka,
            source,
            credit,
            events,
            acquired: BTreeMap::new(),
            deliveries: 0,
            confirmed: BTreeSet::new(),
            unknown: BTreeSet::new(),
            renewed: 0,
            lost: BTreeSet::new(),
            ready: false,
            troubles: Vec::new(),
            failure: None,
            partitions: BTreeMap::new(),
            batches: Vec::new(),
        }
    }

    /// Takes events in until something holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !holds(self) {
            match tokio::time::timeout_at(end, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) => panic!("the source ended before: {what}"),
                Err(_) => panic!("not in time: {what}; {}", self.summary()),
            }
        }
    }

    /// Takes events in for a while.
    pub(crate) async fn listen(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while let Ok(Some(event)) = tokio::time::timeout_at(end, self.events.recv()).await {
            self.take(event);
        }
    }

    fn summary(&self) -> String {
        format!(
            "{} here, {} confirmed, {} unknown, {} lost, troubles {:?}, failure {:?}",
            self.acquired.len(),
            self.confirmed.len(),
            self.unknown.len(),
            self.lost.len(),
            self.troubles,
            self.failure
        )
    }

    fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Acquired(batches) => {
                for batch in batches {
                    self.take_batch(batch);
                }
            }
            SourceEvent::Answered(answers) => {
                for answered in answers {
                    self.take_answer(&answered);
                }
            }
            SourceEvent::Lost(ranges) => {
                for range in ranges {
                    for offset in range.first_offset..=range.last_offset {
                        self.acquired.remove(&(range.partition.partition, offset));
                        self.lost.insert((range.partition.partition, offset));
                    }
                }
            }
            SourceEvent::Ready => self.ready = true,
            SourceEvent::Troubled { cause } => self.troubles.push(cause.to_string()),
            SourceEvent::Failed { cause } => self.failure = Some(cause.to_string()),
        }
    }

    fn take_batch(&mut self, batch: AcquiredBatch) {
        let partition = &batch.partition;
        let key = (partition.topic.to_string(), partition.partition);
        self.partitions
            .entry(key)
            .or_insert_with(|| Arc::clone(partition));
        assert!(batch.corrupt.is_empty(), "{:?}", batch.corrupt);
        for record in &batch.records {
            let place = (partition.partition, record.offset);
            let before = self.acquired.insert(place, record.delivery_count);
            assert_eq!(before, None, "acquired twice without a loss: {place:?}");
            self.deliveries += 1;
        }
        self.batches.push(batch);
    }

    fn take_answer(&mut self, answered: &AnsweredRange) {
        let range = &answered.range;
        for offset in range.first_offset..=range.last_offset {
            let place = (range.partition.partition, offset);
            let fresh = match &answered.answer {
                Answer::Confirmed => self.confirmed.insert(place),
                Answer::Unknown { .. } => self.unknown.insert(place),
                Answer::Renewed { .. } => {
                    self.renewed += 1;
                    true
                }
            };
            assert!(fresh, "answered twice: {place:?}");
        }
    }

    /// Settles one range of the only topic.
    pub(crate) fn settle(
        &mut self,
        partition: i32,
        offsets: RangeInclusive<i64>,
        settlement: Settlement,
    ) {
        let found = self
            .partitions
            .iter()
            .find(|((_, index), _)| *index == partition);
        let partition = Arc::clone(found.unwrap().1);
        if settlement.is_final() {
            for offset in offsets.clone() {
                self.acquired.remove(&(partition.partition, offset));
            }
        }
        self.batches.clear();
        self.source.settle(vec![SettleRange {
            partition,
            first_offset: *offsets.start(),
            last_offset: *offsets.end(),
            settlement,
        }]);
    }

    /// Settles all that is here.
    pub(crate) fn settle_all(&mut self, settlement: Settlement) {
        self.settle_all_but(&[], settlement);
    }

    /// Settles what is here, except for these.
    pub(crate) fn settle_all_but(&mut self, held: &[Place], settlement: Settlement) {
        let here: Vec<Place> = self.acquired.keys().copied().collect();
        for (partition, offset) in here.into_iter().filter(|place| !held.contains(place)) {
            self.settle(partition, offset..=offset, settlement);
        }
    }
}
