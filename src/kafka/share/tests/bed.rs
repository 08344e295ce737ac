//! The whole source on an in-process broker that fails on demand. It has no
//! lock expiry and releases nothing on a lost connection, so what a broker
//! gives out again is shown elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use krafka::Record;
use krafka::testing::{ApiKey, FakeBroker, ShareAckType};
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{
    SettleRange, Settlement, Source, SourceClosed, SourceEvent, SourceEvents,
};
use sluice_actors::record::{AcquiredBatch, SourcePartition};
use tokio::runtime::Handle;

use super::sim::describe;
use crate::kafka::share::{ShareSource, ShareSourceConfig, start};

pub(super) const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const GROUP: &str = "share-billing";
pub(super) const TOPIC: &str = "orders";

/// A source on a fake cluster, and everything that it told.
pub(super) struct Bed {
    pub(super) broker: FakeBroker,
    pub(super) source: ShareSource,
    pub(super) events: SourceEvents,
    pub(super) told: Vec<String>,
    pub(super) partition: Option<Arc<SourcePartition>>,
    pub(super) batches: Vec<AcquiredBatch>,
}

impl Bed {
    pub(super) async fn start(brokers: usize) -> Self {
        let broker = FakeBroker::start_cluster(brokers).await.unwrap();
        broker.create_topic(TOPIC, 1);
        Self::on(broker, |_| {}).await
    }

    pub(super) async fn on(broker: FakeBroker, set: impl FnOnce(&mut ShareSourceConfig)) -> Self {
        let mut config = ShareSourceConfig::new(GROUP, vec![TOPIC.into()]);
        set(&mut config);
        let kafka = broker.kafka().connect().await.unwrap();
        let credit = Credit::new(1 << 20);
        credit.set_window_records(1000);
        let (source, events) = start(kafka, config, credit, &Handle::current());
        Self {
            broker,
            source,
            events,
            told: Vec::new(),
            partition: None,
            batches: Vec::new(),
        }
    }

    pub(super) async fn produce(&self, count: usize) {
        self.produce_to(0, count).await;
    }

    pub(super) async fn produce_to(&self, partition: i32, count: usize) {
        let kafka = self.broker.kafka().connect().await.unwrap();
        let producer = kafka.producer().build().await.unwrap();
        for index in 0..count {
            let record = Record::new(TOPIC, index.to_string()).partition(partition);
            let written = producer.send(record).await.unwrap();
            assert_eq!(written.partition, partition);
        }
    }

    /// Takes events in until all of these were told.
    pub(super) async fn until(&mut self, expected: &[&str]) {
        let waiting = async {
            while !expected
                .iter()
                .all(|part| self.told.iter().any(|told| told.contains(part)))
            {
                let event = self.events.recv().await.expect("the source lives");
                self.told.extend(describe(&event));
                if let SourceEvent::Acquired(batches) = event {
                    self.partition = batches.first().map(|batch| Arc::clone(&batch.partition));
                    self.batches.extend(batches);
                }
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            panic!("{expected:?} not told in time: {:?}", self.told);
        }
    }

    /// Waits until that many records are here.
    pub(super) async fn records(&mut self, count: usize) {
        while self.offsets().len() < count {
            self.told.retain(|told| !told.contains("acquired"));
            self.until(&["acquired"]).await;
        }
    }

    pub(super) fn offsets(&self) -> Vec<i64> {
        let records = self.batches.iter().flat_map(|batch| &batch.records);
        records.map(|record| record.offset).collect()
    }

    pub(super) fn settle(&self, first: i64, last: i64, settlement: Settlement) {
        self.source.settle(vec![SettleRange {
            partition: Arc::clone(self.partition.as_ref().expect("records came")),
            first_offset: first,
            last_offset: last,
            settlement,
        }]);
    }

    pub(super) fn acknowledged(&self) -> Vec<(i64, Vec<ShareAckType>)> {
        let all = self.broker.share_acknowledgements(GROUP, TOPIC, 0);
        all.into_iter().collect()
    }

    pub(super) fn connections(&self, api: ApiKey) -> BTreeSet<u64> {
        let requests = self.broker.requests();
        let of_api = requests.iter().filter(|request| request.api_key == api);
        of_api.map(|request| request.connection).collect()
    }

    pub(super) async fn close(&self) -> SourceClosed {
        self.source.close(PATIENCE).await
    }
}
