//! A source in memory: locks that expire, delivery counts, faults by call.
//!
//! It acquires, settles and renews as a broker with share groups does, on
//! tokio's clock, so that a test may pause it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::credit::Credit;
use crate::outcome::Cause;
use crate::ports::source::{
    Answer, AnsweredRange, LostRange, SettleRange, Settlement, Source, SourceClosed, SourceEvent,
    SourceEvents,
};
use crate::record::{AcquiredBatch, RawHeader, RawRecord, SourcePartition};
use crate::testing::raw_record;

/// More events than this mean that the test's pipeline stands still.
const EVENTS: usize = 100_000;

/// What the fake broker knows of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Available,
    Acquired {
        until: Instant,
    },
    Accepted,
    Rejected,
    /// Returned once too often.
    Archived,
}

#[derive(Clone, Debug)]
struct Stored {
    value: Option<bytes::Bytes>,
    headers: Vec<RawHeader>,
    fate: Fate,
    delivery_count: u16,
}

#[derive(Debug)]
struct Topic {
    partition: Arc<SourcePartition>,
    records: Vec<Stored>,
}

#[derive(Debug)]
struct State {
    topics: Vec<Topic>,
    settle_queue: VecDeque<SettleRange>,
    renewals: u64,
    answers_held: bool,
    closed: bool,
}

/// See the module. Clones are the same source.
#[derive(Clone, Debug)]
pub struct FakeSource {
    state: Arc<Mutex<State>>,
    wake: Arc<Notify>,
    events: mpsc::Sender<SourceEvent>,
    credit: Arc<Credit>,
    lock_duration: Duration,
    delivery_count_limit: u16,
}

impl FakeSource {
    /// A source with one partition for each number of records; must be called
    /// in a runtime.
    #[must_use]
    pub fn start(
        credit: &Arc<Credit>,
        partitions: &[usize],
        lock_duration: Duration,
    ) -> (Self, SourceEvents) {
        Self::start_of("orders", credit, partitions, lock_duration)
    }

    /// The same of another topic.
    #[must_use]
    pub fn start_of(
        topic: &str,
        credit: &Arc<Credit>,
        partitions: &[usize],
        lock_duration: Duration,
    ) -> (Self, SourceEvents) {
        let (events, receiver) = mpsc::channel(EVENTS);
        let topics = partitions
            .iter()
            .enumerate()
            .map(|(number, records)| Topic {
                partition: super::partition(topic, number as i32),
                records: (0..*records).map(|_| Stored::new(None)).collect(),
            });
        let source = Self {
            state: Arc::new(Mutex::new(State {
                topics: topics.collect(),
                settle_queue: VecDeque::new(),
                renewals: 0,
                answers_held: false,
                closed: false,
            })),
            wake: Arc::default(),
            events,
            credit: Arc::clone(credit),
            lock_duration,
            delivery_count_limit: 5,
        };
        tokio::spawn(source.clone().run());
        (source, receiver)
    }

    /// Appends a record with a value to a partition; returns its offset.
    pub fn append(&self, partition: usize, value: &'static [u8]) -> i64 {
        let mut state = self.state.lock();
        let records = &mut state.topics[partition].records;
        records.push(Stored::new(Some(bytes::Bytes::from_static(value))));
        self.wake.notify_one();
        records.len() as i64 - 1
    }

    /// The same with a header.
    pub fn append_with(
        &self,
        partition: usize,
        value: &'static [u8],
        (key, header): (&'static str, &'static str),
    ) -> i64 {
        let mut state = self.state.lock();
        let records = &mut state.topics[partition].records;
        records.push(Stored {
            headers: vec![RawHeader {
                key: bytes::Bytes::from_static(key.as_bytes()),
                value: Some(bytes::Bytes::from_static(header.as_bytes())),
            }],
            ..Stored::new(Some(bytes::Bytes::from_static(value)))
        });
        self.wake.notify_one();
        records.len() as i64 - 1
    }

    #[must_use]
    pub fn fate(&self, partition: usize, offset: i64) -> Fate {
        self.state.lock().topics[partition].records[offset as usize].fate
    }

    #[must_use]
    pub fn delivery_count(&self, partition: usize, offset: i64) -> u16 {
        self.state.lock().topics[partition].records[offset as usize].delivery_count
    }

    /// How many records have come to this end.
    #[must_use]
    pub fn count(&self, wanted: impl Fn(Fate) -> bool) -> usize {
        let state = self.state.lock();
        let records = state.topics.iter().flat_map(|topic| &topic.records);
        records.filter(|record| wanted(record.fate)).count()
    }

    #[must_use]
    pub fn renewals(&self) -> u64 {
        self.state.lock().renewals
    }

    /// Keeps answers back, as a broker that is slow; or lets them come.
    pub fn hold_answers(&self, held: bool) {
        self.state.lock().answers_held = held;
        self.wake.notify_one();
    }

    /// Loses the connection: all locks are gone, what was to be settled is
    /// unknown.
    pub fn lose_connection(&self) {
        let mut state = self.state.lock();
        let unknown: Vec<AnsweredRange> = state
            .settle_queue
            .drain(..)
            .filter(|range| range.settlement.is_final())
            .map(|range| AnsweredRange {
                range,
                answer: Answer::Unknown {
                    cause: "connection lost".into(),
                },
            })
            .collect();
        let limit = self.delivery_count_limit;
        let mut lost = Vec::new();
        for topic in &mut state.topics {
            for (offset, record) in topic.records.iter_mut().enumerate() {
                if matches!(record.fate, Fate::Acquired { .. }) {
                    record.give_back(limit);
                    lost.push(LostRange {
                        partition: Arc::clone(&topic.partition),
                        first_offset: offset as i64,
                        last_offset: offset as i64,
                        cause: "connection lost".into(),
                    });
                }
            }
        }
        drop(state);
        self.send(SourceEvent::Answered(unknown));
        self.send(SourceEvent::Lost(lost));
        self.wake.notify_one();
    }

    pub fn send(&self, event: SourceEvent) {
        match self.events.try_send(event) {
            // The pipeline may be gone already.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => panic!("nobody takes the events"),
        }
    }

    async fn run(self) {
        self.send(SourceEvent::Ready);
        loop {
            let expiry = self.step(Instant::now());
            let sleep = async {
                match expiry {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = self.credit.changed() => {}
                () = sleep => {}
            }
            if self.state.lock().closed {
                return;
            }
        }
    }

    /// One round of the broker; returns when the next lock ends.
    fn step(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let limit = self.delivery_count_limit;
        for topic in &mut state.topics {
            for record in &mut topic.records {
                if matches!(record.fate, Fate::Acquired { until } if until <= now) {
                    record.give_back(limit);
                }
            }
        }
        let mut answers = Vec::new();
        if !state.answers_held {
            while let Some(range) = state.settle_queue.pop_front() {
                answers.push(self.settle_range(&mut state, range, now));
            }
        }
        let acquired = self.acquire(&mut state, now);
        let expiry = state
            .topics
            .iter()
            .flat_map(|topic| &topic.records)
            .filter_map(|record| match record.fate {
                Fate::Acquired { until } => Some(until),
                _ => None,
            })
            .min();
        drop(state);
        if !answers.is_empty() {
            self.send(SourceEvent::Answered(answers));
        }
        if !acquired.is_empty() {
            self.send(SourceEvent::Acquired(acquired));
        }
        expiry
    }

    fn settle_range(&self, state: &mut State, range: SettleRange, now: Instant) -> AnsweredRange {
        let until = now + self.lock_duration;
        let topic = state
            .topics
            .iter_mut()
            .find(|topic| topic.partition == range.partition);
        let offsets = range.first_offset as usize..=range.last_offset as usize;
        let records = topic.and_then(|topic| topic.records.get_mut(offsets));
        let ours = |records: &&mut [Stored]| {
            let acquired = |record: &Stored| matches!(record.fate, Fate::Acquired { .. });
            records.iter().all(acquired)
        };
        let Some(records) = records.filter(ours) else {
            let cause: Cause = "INVALID_RECORD_STATE".into();
            return AnsweredRange {
                range,
                answer: Answer::Unknown { cause },
            };
        };
        for record in records {
            match range.settlement {
                Settlement::Accept => record.fate = Fate::Accepted,
                Settlement::Reject => record.fate = Fate::Rejected,
                Settlement::Release => record.give_back(self.delivery_count_limit),
                Settlement::Renew => record.fate = Fate::Acquired { until },
            }
        }
        if range.settlement == Settlement::Renew {
            state.renewals += 1;
            return AnsweredRange {
                range,
                answer: Answer::Renewed {
                    lock_deadline: until,
                },
            };
        }
        AnsweredRange {
            range,
            answer: Answer::Confirmed,
        }
    }

    fn acquire(&self, state: &mut State, now: Instant) -> Vec<AcquiredBatch> {
        let all = state.topics.iter().flat_map(|topic| &topic.records);
        let open = all
            .filter(|record| matches!(record.fate, Fate::Acquired { .. }))
            .count();
        let mut free = self.credit.window_records().saturating_sub(open);
        let until = now + self.lock_duration;
        let mut batches = Vec::new();
        for topic in &mut state.topics {
            let mut records = Vec::new();
            for (offset, record) in topic.records.iter_mut().enumerate() {
                if free == 0 {
                    break;
                }
                if record.fate == Fate::Available {
                    free -= 1;
                    record.delivery_count += 1;
                    record.fate = Fate::Acquired { until };
                    records.push(record.raw(offset as i64));
                }
            }
            if !records.is_empty() {
                let bytes = records
                    .iter()
                    .map(|r| r.value.as_ref().map_or(0, bytes::Bytes::len));
                batches.push(AcquiredBatch {
                    partition: Arc::clone(&topic.partition),
                    held: self.credit.hold(bytes.sum()),
                    records,
                    corrupt: Vec::new(),
                    strays: Vec::new(),
                    lock_deadline: until,
                    lock: self.lock_duration,
                    acquired_at: now,
                });
            }
        }
        batches
    }
}

impl Stored {
    const fn new(value: Option<bytes::Bytes>) -> Self {
        Self {
            value,
            headers: Vec::new(),
            fate: Fate::Available,
            delivery_count: 0,
        }
    }

    const fn give_back(&mut self, limit: u16) {
        self.fate = if self.delivery_count >= limit {
            Fate::Archived
        } else {
            Fate::Available
        };
    }

    fn raw(&self, offset: i64) -> RawRecord {
        RawRecord {
            delivery_count: self.delivery_count,
            value: self.value.clone(),
            headers: self.headers.clone(),
            ..raw_record(offset)
        }
    }
}

impl Source for FakeSource {
    fn settle(&self, ranges: Vec<SettleRange>) {
        self.state.lock().settle_queue.extend(ranges);
        self.wake.notify_one();
    }

    fn close(&self, _deadline: Duration) -> BoxFuture<'static, SourceClosed> {
        let source = self.clone();
        Box::pin(async move {
            // It waits for the answers of a slow broker as well.
            source.hold_answers(false);
            source.step(Instant::now());
            let mut state = source.state.lock();
            state.closed = true;
            for topic in &mut state.topics {
                for record in &mut topic.records {
                    if matches!(record.fate, Fate::Acquired { .. }) {
                        record.give_back(source.delivery_count_limit);
                    }
                }
            }
            drop(state);
            source.wake.notify_one();
            SourceClosed::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next_acquired(events: &mut SourceEvents) -> Vec<(i64, u16)> {
        loop {
            if let Some(SourceEvent::Acquired(batches)) = events.recv().await {
                let records = batches.iter().flat_map(|batch| &batch.records);
                return records.map(|r| (r.offset, r.delivery_count)).collect();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_that_expires_gives_the_record_back_with_the_next_count() {
        let credit = Credit::new(1000);
        let (source, mut events) = FakeSource::start(&credit, &[1], Duration::from_secs(1));
        credit.set_window_records(10);
        assert_eq!(next_acquired(&mut events).await, [(0, 1)]);
        assert_eq!(next_acquired(&mut events).await, [(0, 2)]);
        for _ in 3..=5 {
            next_acquired(&mut events).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(source.fate(0, 0), Fate::Archived);
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_to_the_window_and_takes_settlements() {
        let credit = Credit::new(1000);
        let (source, mut events) = FakeSource::start(&credit, &[5], Duration::from_secs(1));
        credit.set_window_records(2);
        assert_eq!(next_acquired(&mut events).await.len(), 2);
        source.settle(vec![SettleRange {
            partition: super::super::partition("orders", 0),
            first_offset: 0,
            last_offset: 1,
            settlement: Settlement::Accept,
        }]);
        assert_eq!(next_acquired(&mut events).await, [(2, 1), (3, 1)]);
        assert_eq!(source.count(|fate| fate == Fate::Accepted), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_settlement_without_a_lock_is_unknown() {
        let credit = Credit::new(1000);
        let (source, mut events) = FakeSource::start(&credit, &[1], Duration::from_secs(1));
        source.settle(vec![SettleRange {
            partition: super::super::partition("orders", 0),
            first_offset: 0,
            last_offset: 0,
            settlement: Settlement::Accept,
        }]);
        loop {
            if let Some(SourceEvent::Answered(answers)) = events.recv().await {
                assert!(matches!(answers[0].answer, Answer::Unknown { .. }));
                break;
            }
        }
        assert_eq!(source.fate(0, 0), Fate::Available);
    }
}
