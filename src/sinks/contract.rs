//! What every sink must pass, and the records that sinks are tried with.

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
use crate::sinks::registry;

/// Tries a sink that is in good health: it must take whatever may lie in a
/// topic, and stand being used as the pipeline uses it.
pub(in crate::sinks) async fn check(factory: &dyn SinkFactory) {
    opens_and_closes_without_a_put(factory).await;
    takes_all_that_may_lie_in_a_topic(factory).await;
    takes_the_same_records_again(factory).await;
    stands_a_report_that_is_over(factory).await;
    stands_a_put_that_is_dropped(factory).await;
}

async fn opens_and_closes_without_a_put(factory: &dyn SinkFactory) {
    let mut sink = opened(factory, 0).await;
    sink.flush().await.expect("flush of nothing");
    sink.close().await;
}

async fn takes_all_that_may_lie_in_a_topic(factory: &dyn SinkFactory) {
    let mut sink = opened(factory, 0).await;
    let (result, outcomes) = put(sink.as_mut(), all_sorts()).await;
    result.expect("put of all sorts");
    assert!(
        outcomes.iter().all(|(_, outcome)| is_good(outcome)),
        "{outcomes:?}"
    );
    if factory.traits().buffers {
        assert!(
            !outcomes.iter().any(|(_, one)| *one == Outcome::Delivered),
            "a sink that buffers called records delivered before the flush"
        );
    }
    sink.flush().await.expect("flush");
    sink.close().await;
}

async fn takes_the_same_records_again(factory: &dyn SinkFactory) {
    for task in [0, 0, 1] {
        let mut sink = opened(factory, task).await;
        let (result, _) = put(sink.as_mut(), all_sorts()).await;
        result.expect("put of records that came before");
        sink.close().await;
    }
}

async fn stands_a_report_that_is_over(factory: &dyn SinkFactory) {
    let mut sink = opened(factory, 0).await;
    let chunk = Chunk::new(all_sorts());
    let report = Report::new(chunk.len());
    assert_eq!(report.abandon().len(), chunk.len());
    sink.put(chunk, report.clone()).await.expect("late put");
    assert_eq!(fresh(&report), [], "outcomes after the end of the put");
    sink.close().await;
}

async fn stands_a_put_that_is_dropped(factory: &dyn SinkFactory) {
    let mut sink = opened(factory, 0).await;
    let chunk = Chunk::new(all_sorts());
    let late = Report::new(chunk.len());
    let dropped = sink.put(chunk.clone(), late.clone()).now_or_never();
    drop(dropped);
    let _ = late.abandon();
    let _ = fresh(&late);
    let mut other = opened(factory, 0).await;
    let (result, _) = put(other.as_mut(), chunk.to_vec()).await;
    result.expect("put beside a dropped one");
    other.flush().await.expect("flush beside a dropped put");
    assert_eq!(fresh(&late), [], "a late result of the dropped put");
    other.close().await;
    sink.close().await;
}

/// Tries a sink whose destination is away until `mend` brings it back: it must
/// say so, blame no record for it and call none delivered, and then go on as
/// the same instance.
pub(in crate::sinks) async fn check_outage(factory: &dyn SinkFactory, mend: impl AsyncFnOnce()) {
    let mut sink = factory.create(&task(0)).expect("create");
    let records = || vec![text_record(0, "a"), text_record(1, "b")];
    let opened = sink.open().await;
    if opened.is_ok() {
        let (result, outcomes) = put(sink.as_mut(), records()).await;
        let retried = |(_, outcome): &(usize, Outcome)| matches!(outcome, Outcome::Retry(_));
        if factory.traits().buffers {
            let flushed = match result {
                Ok(()) => sink.flush().await,
                Err(error) => Err(error),
            };
            blames_no_record(&flushed.expect_err("a flush during an outage"));
        } else {
            assert!(outcomes.iter().all(retried), "{outcomes:?}");
            match result {
                Ok(()) => assert_eq!(outcomes.len(), records().len(), "delivered in an outage"),
                Err(error) => blames_no_record(&error),
            }
        }
    } else {
        blames_no_record(&opened.clone().expect_err("an open during an outage"));
    }
    mend().await;
    if opened.is_err() {
        sink.open().await.expect("open after an outage");
    }
    let (result, outcomes) = put(sink.as_mut(), records()).await;
    result.expect("put after an outage");
    assert!(outcomes.iter().all(|(_, one)| is_good(one)), "{outcomes:?}");
    sink.flush().await.expect("flush after an outage");
    sink.close().await;
}

fn blames_no_record(error: &SinkError) {
    let blameless = matches!(
        error,
        SinkError::Unavailable(_) | SinkError::UnavailableFor(..) | SinkError::Retry(_)
    );
    assert!(blameless, "{error:?}");
}

fn is_good(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Delivered | Outcome::Buffered)
}

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
    let report = Report::new(records.len());
    let result = sink.put(Chunk::new(records), report.clone()).await;
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
fn all_sorts() -> Vec<SinkRecord> {
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
