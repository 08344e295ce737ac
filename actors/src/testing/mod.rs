//! Fakes for tests of the pipeline and of plugins.

mod as_they_are;
mod fake_dead_letters;
mod fake_parking;
mod fake_sink;
mod fake_source;
mod fake_tracer;
#[cfg(test)]
mod listener;
mod test_pipeline;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use as_they_are::{AsTheyAre, conversion_of_values};
pub use fake_dead_letters::{FakeDeadLetters, Post};
pub use fake_parking::FakeParking;
pub use fake_sink::{Act, FakeSink, FakeSinkFactory, Seen};
pub use fake_source::{FakeSource, Fate};
pub use fake_tracer::FakeTracer;
#[cfg(test)]
pub(crate) use listener::listen;
pub use test_pipeline::TestPipeline;

use crate::books::{Policy, Retriable, Tolerance};
use crate::conversion::Conversion;
use crate::error_log::ErrorLog;
use crate::flush::FlushPolicy;
use crate::life::{Birth, Choice, Life, Step};
use crate::ports::sink::SinkFactory;
use crate::record::{RawRecord, RecordId, SinkRecord, SourcePartition, TimestampType, TopicId};
use crate::retry::RetryPolicy;
use crate::sampling::TraceIds;
use crate::supervisor::PipelineSpec;
use crate::terms::Terms;
use crate::trace_context::Parent;
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

/// A policy with the defaults of the service.
#[must_use]
pub fn policy(tasks: usize, tolerance: Tolerance) -> Policy {
    Policy {
        tolerance,
        retry: RetryPolicy::default(),
        retriable: Retriable::Hold,
        terms: Terms::new(5, 2000),
        max_put_records: 500,
        tasks,
        max_in_flight_records: None,
        parking: None,
    }
}

/// A connector named `test` on a worker named `worker`.
#[must_use]
pub fn spec(policy: Policy, conversion: Conversion, sink: Arc<dyn SinkFactory>) -> PipelineSpec {
    PipelineSpec {
        connector: "test".into(),
        worker: "worker".into(),
        policy,
        conversion,
        sink,
        delivery_timeout: Duration::from_secs(60),
        flush: FlushPolicy::default(),
        accepts_after_put: false,
        error_log: ErrorLog {
            enable: true,
            include_messages: true,
        },
        dead_letters: None,
        parking: None,
        tracer: None,
    }
}

/// A record as a source hands it over, without key and value.
#[must_use]
pub const fn raw_record(offset: i64) -> RawRecord {
    RawRecord {
        offset,
        delivery_count: 1,
        timestamp: None,
        timestamp_type: TimestampType::CreateTime,
        key: None,
        value: None,
        headers: Vec::new(),
        parked: None,
    }
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
        parked: None,
        life: None,
    }
}

/// The life of a record that is in this step.
#[must_use]
pub fn life(origin: &RecordId, parent: Option<Parent>, step: Step) -> Arc<Life> {
    let (now, trace_id) = (Instant::now(), TraceIds::of(&origin.partition));
    let life = Life::begin(Birth {
        origin: origin.clone(),
        place: origin.clone(),
        acquisition: 1,
        delivery_count: 1,
        choice: Choice::Sampled,
        trace_id: parent.as_ref().map_or_else(
            || trace_id.id(origin.offset),
            |parent| parent.context.trace_id,
        ),
        parent,
        acquired_at: now,
    });
    life.enter(step, now);
    life
}

/// Records of one partition with these offsets.
#[must_use]
pub fn records(offsets: std::ops::Range<i64>) -> Vec<SinkRecord> {
    let partition = partition("orders", 0);
    offsets
        .map(|offset| record(&partition, offset, 1))
        .collect()
}
