//! A reader of a share source that keeps count, and the cluster it reads from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use krafka::Kafka;
use krafka::admin::{
    AdminClient, ConfigOp, ConfigResource, CreateTopicsOptions, DeleteTopicsOptions,
    DescribeShareGroupOffsetsOptions, IncrementalAlterConfigsOptions, NewTopic,
};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use sluice::kafka::share::{ShareSource, ShareSourceConfig, start};
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{
    Answer, AnsweredRange, SettleRange, Settlement, Source, SourceEvent, SourceEvents,
};
use sluice_actors::record::{AcquiredBatch, SourcePartition};
use tokio::runtime::Handle;

/// The longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The broker under test.
pub(crate) fn bootstrap_servers() -> &'static str {
    option_env!("SLUICE_TEST_BOOTSTRAP_SERVERS").unwrap_or("localhost:19192")
}

/// Its listener with SASL, whose credentials last four seconds.
pub(crate) fn sasl_bootstrap_servers() -> &'static str {
    option_env!("SLUICE_TEST_SASL_BOOTSTRAP_SERVERS").unwrap_or("localhost:19194")
}

pub(crate) async fn connect() -> Kafka {
    Kafka::builder(bootstrap_servers()).connect().await.unwrap()
}

pub(crate) async fn admin() -> AdminClient {
    connect().await.admin()
}

/// A name that no other test has.
pub(crate) fn unique(stem: &str) -> String {
    format!("{stem}-{}", uuid::Uuid::new_v4().simple())
}

/// A new topic, and a share group that reads it from its start.
pub(crate) async fn topic_and_group(stem: &str, partitions: i32) -> (String, String) {
    let (topic, group) = (unique(stem), unique(stem));
    create_topic(&topic, partitions).await;
    set_group(&group, "share.auto.offset.reset", "earliest").await;
    (topic, group)
}

pub(crate) async fn create_topic(topic: &str, partitions: i32) {
    let created = admin()
        .await
        .create_topics(
            [NewTopic::new(topic, partitions, 1).unwrap()],
            CreateTopicsOptions::default(),
        )
        .await
        .unwrap();
    for (_, result) in created {
        result.unwrap();
    }
}

pub(crate) async fn delete_topic(topic: &str) {
    let deleted = admin()
        .await
        .delete_topics([topic], DeleteTopicsOptions::default())
        .await
        .unwrap();
    for (_, result) in deleted {
        result.unwrap();
    }
}

pub(crate) async fn set_group(group: &str, key: &str, value: &str) {
    let change = (
        ConfigResource::group(group),
        vec![ConfigOp::set(key, value)],
    );
    let options = IncrementalAlterConfigsOptions::default();
    let changed = admin()
        .await
        .incremental_alter_configs([change], options)
        .await;
    for (_, result) in changed.unwrap() {
        result.unwrap();
    }
}

/// Waits until nothing of the topic is left for the group.
pub(crate) async fn wait_until_consumed(group: &str, partitions: usize) {
    let admin = admin().await;
    let look = async {
        loop {
            let options = DescribeShareGroupOffsetsOptions::default();
            let offsets = admin
                .describe_share_group_offsets(group, options)
                .await
                .unwrap();
            let done = offsets
                .values()
                .filter(|offset| offset.as_ref().is_ok_and(|offset| offset.lag == Some(0)))
                .count();
            if done == partitions {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look)
        .await
        .expect("lag of the share group");
}

pub(crate) fn producer() -> ThreadedProducer<rdkafka::producer::DefaultProducerContext> {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers())
        .set("linger.ms", "5")
        .set("queue.buffering.max.kbytes", "200000")
        .create()
        .unwrap()
}

/// Writes that many records of that many bytes, spread over the partitions.
pub(crate) async fn produce(topic: &str, partitions: Range<i32>, count: usize, bytes: usize) {
    let topic = topic.to_owned();
    let written = tokio::task::spawn_blocking(move || {
        let producer = producer();
        let payload = vec![b'x'; bytes];
        for partition in partitions.cycle().take(count) {
            let mut record = BaseRecord::<(), Vec<u8>>::to(&topic)
                .partition(partition)
                .payload(&payload);
            while let Err((error, back)) = producer.send(record) {
                assert_eq!(
                    error.rdkafka_error_code(),
                    Some(RDKafkaErrorCode::QueueFull)
                );
                producer.flush(Duration::from_millis(100)).ok();
                record = back;
            }
        }
        producer.flush(PATIENCE).unwrap();
    });
    written.await.unwrap();
}

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
        let here: Vec<Place> = self.acquired.keys().copied().collect();
        for (partition, offset) in here {
            self.settle(partition, offset..=offset, settlement);
        }
    }

    /// Settles each batch as soon as it comes, in whole ranges, until that
    /// many records have come, each once; the time counts from the first.
    pub(crate) async fn accept_until(&mut self, count: usize) -> (usize, Duration) {
        let (mut seen, mut first) = (0, None);
        let mut next: BTreeMap<i32, i64> = BTreeMap::new();
        while seen < count {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await {
                Ok(Some(SourceEvent::Acquired(batches))) => {
                    first.get_or_insert_with(tokio::time::Instant::now);
                    let mut ranges = Vec::new();
                    for batch in batches {
                        seen += batch.records.len();
                        let next = next.entry(batch.partition.partition).or_default();
                        for record in &batch.records {
                            assert_eq!((record.offset, record.delivery_count), (*next, 1));
                            *next += 1;
                        }
                        ranges.extend(whole(&batch));
                    }
                    self.source.settle(ranges);
                }
                Ok(Some(_)) => {}
                end => panic!("{seen} of {count} came: {end:?}"),
            }
        }
        (seen, first.map_or(Duration::ZERO, |first| first.elapsed()))
    }

    /// Settles each record on its own, as that many workers would that take a
    /// millisecond for one, and a second for one in `slow_every`.
    pub(crate) async fn work(
        &mut self,
        count: usize,
        workers: usize,
        slow_every: usize,
    ) -> Duration {
        let started = tokio::time::Instant::now();
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        let mut queue: VecDeque<SettleRange> = VecDeque::new();
        let mut busy: VecDeque<(tokio::time::Instant, SettleRange)> = VecDeque::new();
        let (mut taken, mut done) = (0, 0);
        while done < count {
            tokio::select! {
                event = self.events.recv() => {
                    if let Some(SourceEvent::Acquired(batches)) = event {
                        queue.extend(batches.iter().flat_map(singles));
                    }
                }
                now = tick.tick() => {
                    let mut ranges = Vec::new();
                    while busy.front().is_some_and(|(until, _)| *until <= now) {
                        ranges.extend(busy.pop_front().map(|(_, range)| range));
                    }
                    for _ in busy.len()..workers {
                        let Some(range) = queue.pop_front() else { break };
                        taken += 1;
                        if taken % slow_every == 0 {
                            busy.push_back((now + Duration::from_secs(1), range));
                        } else {
                            ranges.push(range);
                        }
                    }
                    done += ranges.len();
                    self.source.settle(ranges);
                }
            }
        }
        started.elapsed()
    }
}

fn singles(batch: &AcquiredBatch) -> Vec<SettleRange> {
    let records = batch.records.iter();
    records
        .map(|record| SettleRange {
            partition: Arc::clone(&batch.partition),
            first_offset: record.offset,
            last_offset: record.offset,
            settlement: Settlement::Accept,
        })
        .collect()
}

fn whole(batch: &AcquiredBatch) -> Vec<SettleRange> {
    let mut ranges: Vec<SettleRange> = Vec::new();
    for record in &batch.records {
        match ranges.last_mut() {
            Some(range) if range.last_offset + 1 == record.offset => range.last_offset += 1,
            _ => ranges.push(SettleRange {
                partition: Arc::clone(&batch.partition),
                first_offset: record.offset,
                last_offset: record.offset,
                settlement: Settlement::Accept,
            }),
        }
    }
    ranges
}
