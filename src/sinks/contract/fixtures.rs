//! Records, settings and calls that sinks are tried with.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, TaskContext};
use sluice_actors::record::{Header, SinkRecord, SourcePartition, TimestampType, TopicId};
use sluice_actors::report::Report;
use sluice_actors::value::{Datum, Field, Kind, Schema, SchemaRef, Value};

use crate::config::definition::{Faults, Properties};
use crate::config::layers::{Layer, Settings};
use crate::config::producer::ProducerConfig;
use crate::sinks::contract::trial::check_calls;
use crate::sinks::registry;

/// The sink of that class with these settings, if nothing is wrong with them.
pub(in crate::sinks) fn factory_of(
    class: &str,
    settings: &[(&str, &str)],
) -> (Option<Arc<dyn SinkFactory>>, Faults) {
    let properties: Properties = settings
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let mut faults = Faults::default();
    let producer = producer(&properties);
    let factory = registry::factory(class, &properties, &producer, &mut faults);
    (factory, faults)
}

/// A producer's settings for sinks that need them; their faults are not what
/// tests of sinks look at.
pub(in crate::sinks) fn producer(properties: &Properties) -> ProducerConfig {
    let layer = Layer::of(properties.clone(), "test");
    let settings = Settings::merge([layer]).expect("settings");
    let worker = Settings::default();
    ProducerConfig::read(&worker, &settings, "audit", &mut Faults::default())
}

pub(in crate::sinks) fn task(task: u32) -> TaskContext {
    TaskContext {
        connector: "audit".to_owned(),
        task,
        worker: "worker-1".to_owned(),
    }
}

pub(in crate::sinks) async fn opened(factory: &dyn SinkFactory, number: u32) -> Box<dyn Sink> {
    let mut sink = factory.create(&task(number)).expect("create");
    sink.open().await.expect("open");
    sink
}

/// Puts, and gives back what was reported while it ran.
pub(in crate::sinks) async fn put(
    sink: &mut dyn Sink,
    records: Vec<SinkRecord>,
) -> (Result<(), SinkError>, Vec<(usize, Outcome)>) {
    let (report, count) = (Report::new(records.len()), records.len());
    let result = sink.put(Chunk::new(records), report.clone()).await;
    check_calls(&report, count);
    (result, fresh(&report))
}

/// What was reported by now.
pub(in crate::sinks) fn fresh(report: &Report) -> Vec<(usize, Outcome)> {
    report.next_outcomes().now_or_never().unwrap_or_default()
}

pub(in crate::sinks) fn record(offset: i64, value: Datum) -> SinkRecord {
    let topic: Arc<str> = "orders".into();
    SinkRecord {
        partition: Arc::new(SourcePartition {
            topic: Arc::clone(&topic),
            topic_id: TopicId([1; 16]),
            partition: 0,
        }),
        offset,
        delivery_count: 1,
        acquisition: 1,
        topic,
        timestamp: Some(1_700_000_000_000),
        timestamp_type: TimestampType::CreateTime,
        key: Datum::null(),
        value,
        headers: Vec::new(),
        original: None,
        parked: None,
        life: None,
    }
}

pub(in crate::sinks) fn text_record(offset: i64, text: &str) -> SinkRecord {
    record(offset, Datum::schemaless(Value::String(text.into())))
}

pub(in crate::sinks) fn with_header(mut record: SinkRecord, key: &str, text: &str) -> SinkRecord {
    record.headers.push(Header {
        key: key.into(),
        value: Datum::schemaless(Value::String(text.into())),
    });
    record
}

/// A struct of one field.
pub(in crate::sinks) fn item(value: Value) -> Datum {
    let field = Field {
        name: "item".to_owned(),
        schema: SchemaRef::from(Schema::optional(Kind::Int64)),
    };
    let schema = SchemaRef::from(Schema::of(Kind::Struct(vec![field])));
    Datum::with_schema(schema, Value::Struct(vec![value]))
}

/// Tombstone, empty values, null and typed keys, headers without a value, no
/// timestamp, bytes that are no text.
pub(super) fn all_sorts() -> Vec<SinkRecord> {
    let mut keyed = text_record(3, "keyed");
    keyed.key = Datum::schemaless(Value::Int64(7));
    let mut timeless = with_header(text_record(4, "timeless"), "kind", "");
    timeless.timestamp = None;
    timeless.headers.push(Header {
        key: "nothing".into(),
        value: Datum::null(),
    });
    let bytes = Value::Bytes(Bytes::from_static(&[0, 159, 255]));
    vec![
        record(0, Datum::null()),
        text_record(1, ""),
        record(2, Datum::schemaless(Value::Bytes(Bytes::new()))),
        keyed,
        timeless,
        record(5, Datum::schemaless(bytes)),
        record(6, item(Value::Int64(9))),
        record(7, item(Value::Null)),
    ]
}
