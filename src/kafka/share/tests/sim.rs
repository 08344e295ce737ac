//! A client without brokers: the tests answer its requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use krafka::error::ErrorCode;
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{Answer, LostRange, SettleRange, Settlement, SourceEvent};
use sluice_actors::record::{AcquiredBatch, SourcePartition, TopicId};
use sluice_actors::testing::raw_record;
use tokio::time::Instant;

use crate::kafka::share::client::{Client, Membership};
use crate::kafka::share::config::ShareSourceConfig;
use crate::kafka::share::layout::{Layout, Place, Survey};
use crate::kafka::share::reauthentication::Validity;
use crate::kafka::share::records::AcquiredRange;
use crate::kafka::share::request::{
    Acknowledgements, Acquired, Acquisition, Body, Failure, Fetch, HasRead, PartitionReply, Read,
    Refusal, Reply, Request, ToRead,
};
use crate::kafka::share::session::PartitionKey;
use crate::kafka::share::settlements::AckType;

pub(super) const LOCK: Duration = Duration::from_secs(30);
const TOPIC: &str = "orders";

pub(super) fn key(partition: i32) -> PartitionKey {
    PartitionKey {
        topic_id: TopicId([1; 16]),
        partition,
    }
}

pub(super) fn partition(index: i32) -> Arc<SourcePartition> {
    Arc::new(SourcePartition {
        topic: TOPIC.into(),
        topic_id: TopicId([1; 16]),
        partition: index,
    })
}

fn batch(acquired: Acquired) -> AcquiredBatch {
    let offsets = acquired.ranges.iter().flat_map(|r| r.first..=r.last);
    AcquiredBatch {
        partition: acquired.partition,
        records: offsets.map(raw_record).collect(),
        corrupt: Vec::new(),
        strays: Vec::new(),
        lock_deadline: acquired.deadline,
        lock: acquired.lock,
        acquired_at: acquired.arrived_at,
        held: acquired.held,
    }
}

pub(super) fn refusal(code: ErrorCode) -> Refusal {
    Refusal {
        code,
        message: String::new(),
    }
}

/// A client with a clock, and what it told.
pub(super) struct Sim {
    pub(super) client: Client,
    pub(super) credit: Arc<Credit>,
    pub(super) now: Instant,
    /// Every event in order, in short.
    pub(super) told: Vec<String>,
    /// How long the connection's credentials hold.
    pub(super) validity: Option<Validity>,
    /// How many times larger records are than in the log.
    pub(super) growth: usize,
    /// What the next answer says of it.
    pub(super) throttle: Option<Duration>,
    /// Nothing that is acquired can be read.
    pub(super) starved: bool,
    acquisitions: u64,
    batches: Vec<AcquiredBatch>,
}

impl Sim {
    /// A member that has joined, with partitions led by these brokers.
    pub(super) fn joined(window: usize, leaders: &[i32]) -> Self {
        let mut sim = Self::new(window);
        sim.lead(leaders);
        let all: Vec<i32> = (0..).zip(leaders).map(|(index, _)| index).collect();
        sim.join(&all);
        sim
    }

    /// A heartbeat's answer, with the partitions that are assigned to anybody.
    pub(super) fn join(&mut self, assigned: &[i32]) {
        let assigned = assigned.iter().map(|index| key(*index)).collect();
        let joined = Membership::Joined(Arc::new(assigned));
        self.client.membership(joined, self.now);
    }

    pub(super) fn new(window: usize) -> Self {
        let now = Instant::now();
        let credit = Credit::new(1 << 20);
        credit.set_window_records(window);
        let config = Arc::new(ShareSourceConfig::new("group", vec![TOPIC.into()]));
        Self {
            client: Client::new(config, Arc::clone(&credit), now),
            credit,
            now,
            told: Vec::new(),
            validity: None,
            growth: 1,
            throttle: None,
            starved: false,
            acquisitions: 0,
            batches: Vec::new(),
        }
    }

    /// A member with one session, whose partition 0 gave it these records.
    pub(super) fn holding(window: usize, first: i64, last: i64) -> Self {
        let mut sim = Self::joined(window, &[1]);
        sim.fetch(1);
        sim.bring(1, 0, first, last);
        sim
    }

    /// The metadata says that each partition is led by this broker (0: none).
    pub(super) fn lead(&mut self, leaders: &[i32]) {
        let places = leaders.iter().zip(0..).map(|(leader, index)| {
            let place = Place {
                partition: partition(index),
                leader: Some(*leader).filter(|leader| *leader > 0),
            };
            (key(index), place)
        });
        self.survey(&[TOPIC], places.collect());
    }

    pub(super) fn survey(&mut self, topics: &[&str], places: BTreeMap<PartitionKey, Place>) {
        let layout = Layout {
            topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
            places,
            faults: BTreeMap::new(),
        };
        self.client.surveyed(Survey::Found(layout), self.now);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// What is to be sent now.
    pub(super) fn plan(&mut self) -> Vec<Request> {
        let requests = self.client.plan(self.now);
        self.listen();
        requests
    }

    /// The only request that is to be sent now.
    pub(super) fn request(&mut self) -> Request {
        let mut requests = self.plan();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// The fetch that is to be sent to a broker now.
    pub(super) fn fetch(&mut self, broker: i32) -> Fetch {
        let requests = self.plan();
        let found = requests
            .into_iter()
            .find(|request| request.broker == broker);
        match found.map(|request| request.body) {
            Some(Body::Fetch(fetch)) => fetch,
            other => panic!("no fetch: {other:?}"),
        }
    }

    /// The acknowledgement that is to be sent now.
    pub(super) fn acknowledge(&mut self) -> Acknowledgements {
        match self.request().body {
            Body::Acknowledge(acknowledgements) => acknowledgements,
            other => panic!("no acknowledgement: {other:?}"),
        }
    }

    pub(super) fn reply(&mut self, broker: i32, partitions: Vec<PartitionReply>) -> bool {
        let reply = Reply {
            sent_at: self.now,
            throttle: self.throttle.take(),
            lock: Some(LOCK),
            validity: self.validity,
            partitions,
        };
        let dropped = self.client.answered(broker, Ok(reply), self.now);
        self.read();
        self.listen();
        dropped
    }

    /// Every offset that was acquired has a record.
    pub(super) fn read(&mut self) {
        for to_read in self.client.take_unread() {
            self.read_piece(to_read);
        }
    }

    fn read_piece(&mut self, to_read: ToRead) {
        if self.starved {
            let left = to_read.unread;
            return self.client.read(HasRead {
                left,
                ..HasRead::default()
            });
        }
        let read = to_read.unread.into_iter().map(|unread| Read {
            broker: unread.broker,
            key: unread.key,
            acquisition: unread.acquired.acquisition,
            gaps: Vec::new(),
            batch: Some(batch(unread.acquired)),
            packed: 1,
            unpacked: self.growth,
        });
        let done = HasRead {
            read: read.collect(),
            left: Vec::new(),
        };
        self.client.read(done);
    }

    /// The broker takes everything, and brings nothing.
    pub(super) fn accept(&mut self, broker: i32, partitions: &[i32]) -> bool {
        let replies = partitions.iter().map(|index| answer(*index, None, None));
        self.reply(broker, replies.collect())
    }

    /// The broker brings records of a partition.
    pub(super) fn bring(&mut self, broker: i32, index: i32, first: i64, last: i64) {
        self.bring_also(broker, index, first, last, Vec::new());
    }

    pub(super) fn bring_also(
        &mut self,
        broker: i32,
        index: i32,
        first: i64,
        last: i64,
        mut others: Vec<PartitionReply>,
    ) {
        others.push(self.acquired(index, &[(first, last)]));
        self.reply(broker, others);
    }

    /// What an answer brings of a partition.
    pub(super) fn acquired(&mut self, index: i32, ranges: &[(i64, i64)]) -> PartitionReply {
        self.acquisitions += 1;
        let range = |&(first, last): &(i64, i64)| AcquiredRange {
            first,
            last,
            delivery_count: 1,
        };
        PartitionReply {
            acquired: Some(Acquired {
                acquisition: Acquisition(self.acquisitions),
                partition: partition(index),
                ranges: ranges.iter().map(range).collect(),
                doubled: false,
                deadline: self.now + LOCK,
                lock: LOCK,
                arrived_at: self.now,
                bytes: None,
                held: self.credit.hold(1),
            }),
            ..answer(index, None, None)
        }
    }

    pub(super) fn fail(&mut self, broker: i32, failure: Failure) -> bool {
        let dropped = self.client.answered(broker, Err(failure), self.now);
        self.listen();
        dropped
    }

    pub(super) fn refuse(&mut self, broker: i32, code: ErrorCode) -> bool {
        self.fail(broker, Failure::Refused(refusal(code)))
    }

    pub(super) fn disconnect(&mut self, broker: i32) -> bool {
        self.fail(broker, Failure::Lost("connection reset".into()))
    }

    pub(super) fn settle(&mut self, index: i32, first: i64, last: i64, settlement: Settlement) {
        let range = SettleRange {
            partition: partition(index),
            first_offset: first,
            last_offset: last,
            settlement,
        };
        self.client.settle(&[range], self.now);
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(event) = self.client.next_event() {
            self.told.extend(describe(&event));
            if let SourceEvent::Acquired(batches) = event {
                self.batches.extend(batches);
            }
        }
    }

    /// The records that the pipeline was told of and is not done with.
    pub(super) fn offsets(&self) -> Vec<i64> {
        let records = self.batches.iter().flat_map(|batch| &batch.records);
        records.map(|record| record.offset).collect()
    }

    /// The pipeline is done with all that it was told of.
    pub(super) fn give_back(&mut self) {
        self.batches.clear();
    }

    /// What was told since the last call.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

/// A partition's part of a reply.
pub(super) fn answer(
    index: i32,
    fetch_error: Option<ErrorCode>,
    acknowledge_error: Option<ErrorCode>,
) -> PartitionReply {
    PartitionReply {
        key: key(index),
        fetch_error: fetch_error.map(refusal),
        acknowledge_error: acknowledge_error.map(refusal),
        acquired: None,
    }
}

/// What a request says about a partition, in short.
pub(super) fn batches(acknowledgements: &Acknowledgements, index: i32) -> Vec<(i64, i64, AckType)> {
    acknowledgements
        .iter()
        .filter(|(of, _)| *of == key(index))
        .flat_map(|(_, batches)| batches)
        .map(|batch| (batch.first, batch.last, batch.kind))
        .collect()
}

/// An event in short.
pub(super) fn describe(event: &SourceEvent) -> Vec<String> {
    match event {
        SourceEvent::Acquired(batches) => {
            let indices: Vec<i32> = batches.iter().map(|b| b.partition.partition).collect();
            vec![format!("acquired {indices:?}")]
        }
        SourceEvent::Answered(answers) => answers
            .iter()
            .map(|answered| {
                let range = &answered.range;
                let (first, last) = (range.first_offset, range.last_offset);
                let what = match answered.answer {
                    Answer::Confirmed => "confirmed",
                    Answer::Renewed { .. } => "renewed",
                    Answer::Unknown { .. } => "unknown",
                };
                format!("{what} {:?} {first}-{last}", range.settlement)
            })
            .collect(),
        SourceEvent::Lost(ranges) => {
            let told = ranges
                .chunk_by(adjoin)
                .filter_map(|run| run.first().zip(run.last()))
                .map(|(first, last)| format!("lost {}-{}", first.first_offset, last.last_offset));
            told.collect()
        }
        SourceEvent::Ready => vec!["ready".into()],
        SourceEvent::Troubled { cause } => vec![format!("troubled {cause}")],
        SourceEvent::Failed { cause } => vec![format!("failed {cause}")],
    }
}

/// Whether two ranges lie together, however many acquisitions they came with:
/// what a broker gives out with one answer or several depends on the time.
fn adjoin(range: &LostRange, next: &LostRange) -> bool {
    range.partition == next.partition && range.last_offset + 1 == next.first_offset
}
