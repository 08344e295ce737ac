//! Fakes for tests of the pipeline and of plugins.

mod as_they_are;
mod fake_sink;
mod fake_source;

use std::sync::Arc;

pub use as_they_are::{AsTheyAre, conversion_of_values};
pub use fake_sink::{Act, FakeSink, FakeSinkFactory, Seen};
pub use fake_source::{FakeSource, Fate};

use crate::record::{SinkRecord, SourcePartition, TimestampType, TopicId};
use crate::value::Datum;

/// A partition of a test topic.
#[must_use]
pub fn partition(topic: &str, number: i32) -> Arc<SourcePartition> {
    let mut id = [0; 16];
    for (place, byte) in topic.bytes().enumerate() {
        id[place % 16] ^= byte;
    }
    Arc::new(SourcePartition {
        topic: topic.into(),
        topic_id: TopicId(id),
        partition: number,
    })
}

/// A record without key and value.
#[must_use]
pub fn record(partition: &Arc<SourcePartition>, offset: i64, acquisition: u32) -> SinkRecord {
    SinkRecord {
        partition: Arc::clone(partition),
        offset,
        delivery_count: 1,
        acquisition,
        topic: Arc::clone(&partition.topic),
        timestamp: None,
        timestamp_type: TimestampType::CreateTime,
        key: Datum::null(),
        value: Datum::null(),
        headers: Vec::new(),
        original: None,
    }
}

/// Records of one partition with these offsets.
#[must_use]
pub fn records(offsets: std::ops::Range<i64>) -> Vec<SinkRecord> {
    let partition = partition("orders", 0);
    offsets
        .map(|offset| record(&partition, offset, 1))
        .collect()
}
