use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Answer};
use rdkafka::{Offset, TopicPartitionList};
use tokio::time::Instant;

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Outcome;
use sluice_actors::ports::sink::{SinkError, SinkFactory};
use sluice_actors::record::{Header, SinkRecord};
use sluice_actors::report::Report;
use sluice_actors::value::{Datum, Value};

use crate::config::connector::Topics;
use crate::config::definition::{Faults, Properties, Reader};
use crate::sinks::contract::{
    check, check_outage, factory_of, fresh, opened, producer, put, record, task, text_record,
    with_header,
};
use crate::sinks::kafka::{KEYS, KafkaConfig, KafkaFactory};

const SERVERS: &str = "producer.override.bootstrap.servers";
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster inside librdkafka, with a topic of two partitions.
fn cluster() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("copy", 2, 1).unwrap();
    cluster
}

fn factory(servers: &str, settings: &[(&str, &str)]) -> Arc<dyn SinkFactory> {
    let base = [
        (SERVERS, servers),
        ("topic", "copy"),
        ("producer.override.linger.ms", "1"),
        ("producer.override.delivery.timeout.ms", "2000"),
    ];
    let settings: Vec<_> = base.iter().chain(settings).copied().collect();
    let (factory, faults) = factory_of("kafka", &settings);
    factory.unwrap_or_else(|| panic!("{faults}"))
}

/// The first `count` records of the topic, however they lie.
fn read(servers: &str, count: usize) -> Vec<OwnedMessage> {
    let mut config = rdkafka::ClientConfig::new();
    config
        .set("bootstrap.servers", servers)
        .set("group.id", "reader");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..2 {
        assignment
            .add_partition_offset("copy", partition, Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let (since, mut messages) = (Instant::now(), Vec::new());
    while messages.len() < count {
        let read = messages.len();
        assert!(since.elapsed() < PATIENCE, "{read} of {count} are there");
        // None also when it has seen to something else than a record.
        let next = consumer.poll(Duration::from_secs(1));
        messages.extend(next.map(|message| message.unwrap().detach()));
    }
    messages
}

fn texts(count: i64) -> Vec<SinkRecord> {
    (0..count)
        .map(|offset| text_record(offset, &format!("value {offset}")))
        .collect()
}

fn delivered(outcomes: &[(usize, Outcome)]) -> Vec<usize> {
    let good =
        |(place, outcome): &(usize, Outcome)| (*outcome == Outcome::Delivered).then_some(*place);
    let mut places: Vec<usize> = outcomes.iter().filter_map(good).collect();
    places.sort_unstable();
    places
}

#[actix::test]
async fn keeps_the_contract_of_sinks() {
    let cluster = cluster();
    check(&factory(&cluster.bootstrap_servers(), &[])).await;
}

#[actix::test]
async fn a_cluster_that_goes_away_is_an_outage_as_the_contract_has_it() {
    let cluster = cluster();
    let quick = [("producer.override.delivery.timeout.ms", "1500")];
    let factory = factory(&cluster.bootstrap_servers(), &quick);
    let fall = async || cluster.broker_down(1).unwrap();
    let mend = async || cluster.broker_up(1).unwrap();
    check_outage(&factory, fall, mend).await;
}

#[tokio::test]
async fn each_part_of_a_record_arrives_as_it_was() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    let mut keyed = with_header(with_header(text_record(0, "v"), "h", "1"), "h", "");
    keyed.key = Datum::schemaless(Value::String("k".into()));
    keyed.headers.push(Header {
        key: "none".into(),
        value: Datum::null(),
    });
    let mut timeless = record(1, Datum::null());
    timeless.timestamp = None;
    let empty = text_record(2, "");
    let (result, outcomes) = put(sink.as_mut(), vec![keyed, timeless, empty]).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [0, 1, 2]);

    let written = read(&servers, 3);
    let [keyed, timeless, empty] = &written[..] else {
        panic!("{written:?}");
    };
    assert_eq!(
        (keyed.key(), keyed.payload()),
        (Some(&b"k"[..]), Some(&b"v"[..]))
    );
    assert_eq!(keyed.timestamp().to_millis(), Some(1_700_000_000_000));
    let headers: Vec<_> = keyed
        .headers()
        .unwrap()
        .iter()
        .map(|it| (it.key, it.value))
        .collect();
    assert_eq!(
        headers,
        [
            ("h", Some(&b"1"[..])),
            ("h", Some(&b""[..])),
            ("none", None)
        ]
    );
    assert_eq!((timeless.key(), timeless.payload()), (None, None));
    assert_eq!(timeless.timestamp().to_millis(), None);
    assert_eq!((empty.key(), empty.payload()), (None, Some(&b""[..])));
    assert!(written.iter().all(|it| it.partition() == 0));
}

#[tokio::test]
async fn timestamps_are_kept_but_for_the_first_of_all_which_is_the_next() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    let kept = |timestamp| (timestamp, timestamp);
    let timestamps = [
        (Some(0), Some(1)),
        kept(None),
        kept(Some(1)),
        kept(Some(-5)),
        kept(Some(1_700_000_000_000)),
        kept(Some(i64::MAX)),
    ];
    let records = (0..).zip(timestamps).map(|(offset, (timestamp, _))| {
        let mut record = text_record(offset, "v");
        record.timestamp = timestamp;
        record
    });
    let (result, _) = put(sink.as_mut(), records.collect()).await;
    assert_eq!(result, Ok(()));
    let written = read(&servers, timestamps.len());
    let written: Vec<_> = written
        .iter()
        .map(|it| it.timestamp().to_millis())
        .collect();
    assert_eq!(written, timestamps.map(|(_, expected)| expected));
}

#[tokio::test]
async fn keys_lie_where_javas_producer_puts_them() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[]).as_ref(), 0).await;
    // Kafka's own murmur2 of the key, its sign cut off, modulo 2.
    let placed = [("abc", 1), ("order-2", 1), ("order-1", 0), ("foobar", 0)];
    let records = placed.iter().map(|(key, _)| {
        let mut record = text_record(0, key);
        record.key = Datum::schemaless(Value::String((*key).into()));
        record
    });
    let (result, _) = put(sink.as_mut(), records.collect()).await;
    assert_eq!(result, Ok(()));
    for message in read(&servers, placed.len()) {
        let key = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
        let expected = placed.iter().find(|(placed, _)| *placed == key).unwrap().1;
        assert_eq!(message.partition(), expected, "{key}");
    }
}

/// A change of a key must not end before an earlier one of the same put. Where
/// requests fail, idempotence sees to it, which no mock does.
#[tokio::test]
async fn records_of_a_key_keep_their_order_within_a_put() {
    const RECORDS: i64 = 300;
    const KEYS: i64 = 3;
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    // Many requests.
    let settings = [("producer.override.batch.size", "200")];
    let mut sink = opened(factory(&servers, &settings).as_ref(), 0).await;
    let mut records = texts(RECORDS);
    for record in &mut records {
        let key = format!("key {}", record.offset % KEYS);
        record.key = Datum::schemaless(Value::String(key.into()));
    }
    let (result, outcomes) = put(sink.as_mut(), records).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes).len(), RECORDS as usize);
    let written = read(&servers, RECORDS as usize);
    for number in 0..KEYS {
        let key = format!("key {number}");
        let of_key = written.iter().filter(|it| it.key() == Some(key.as_bytes()));
        let values: Vec<_> = of_key.filter_map(|it| it.payload()).collect();
        let expected: Vec<_> = (number..RECORDS)
            .step_by(KEYS as usize)
            .map(|offset| format!("value {offset}"))
            .collect();
        assert_eq!(
            values,
            expected.iter().map(String::as_bytes).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn a_record_larger_than_a_request_is_rejected_alone() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let limit = [("producer.override.max.request.size", "2000")];
    let mut sink = opened(factory(&servers, &limit).as_ref(), 0).await;
    let mut records = texts(3);
    records[1] = text_record(1, &"x".repeat(3000));
    let (result, outcomes) = put(sink.as_mut(), records).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [0, 2]);
    let rejected = outcomes.iter().find(|(place, _)| *place == 1).unwrap();
    let Outcome::Reject(rejection) = &rejected.1 else {
        panic!("{outcomes:?}");
    };
    assert!(
        rejection
            .cause
            .contains("producer.override.max.request.size"),
        "{rejection}"
    );
}

#[tokio::test]
async fn records_of_a_refused_batch_are_sent_one_by_one() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    // The batch, and then the first record by itself.
    let too_large = Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large, too_large]);
    let (result, outcomes) = put(sink.as_mut(), texts(3)).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [1, 2]);
    assert!(
        matches!(outcomes[0], (0, Outcome::Reject(_))),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn lost_rights_make_the_sink_unavailable_and_no_record_is_to_blame() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    let denied = Answer::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[denied]);
    let (result, outcomes) = put(sink.as_mut(), texts(2)).await;
    let Err(SinkError::Unavailable(cause)) = result else {
        panic!("{result:?}");
    };
    assert!(
        cause.contains("topic copy") && cause.contains("grant WRITE"),
        "{cause}"
    );
    assert_eq!(outcomes, []);
    let (result, _) = put(sink.as_mut(), texts(2)).await;
    assert_eq!(result, Ok(()), "when the rights are back");
}

#[tokio::test]
async fn an_outage_is_told_as_one_and_ends_with_it() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let quick = [("producer.override.delivery.timeout.ms", "1500")];
    let mut sink = opened(factory(&servers, &quick).as_ref(), 0).await;
    cluster.broker_down(1).unwrap();
    let (result, outcomes) = put(sink.as_mut(), texts(2)).await;
    assert!(
        matches!(result, Err(SinkError::Unavailable(_))),
        "{result:?}"
    );
    assert_eq!(outcomes, []);
    cluster.broker_up(1).unwrap();
    let (result, outcomes) = put(sink.as_mut(), texts(2)).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [0, 1]);
}

#[tokio::test]
async fn a_cluster_that_nobody_answers_for_is_named_at_open() {
    let servers = "127.0.0.1:1";
    let mut sink = factory(servers, &[]).create(&task(0)).unwrap();
    let Err(SinkError::Unavailable(cause)) = sink.open().await else {
        panic!("it opened");
    };
    assert!(
        cause.contains(SERVERS) && cause.contains(servers),
        "{cause}"
    );
}

#[tokio::test]
async fn a_partition_that_the_topic_does_not_have_is_the_settings_fault() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    let mut record = text_record(0, "v");
    Arc::get_mut(&mut record.partition).unwrap().partition = 7;
    let (result, _) = put(sink.as_mut(), vec![record]).await;
    let Err(SinkError::Fatal(cause)) = result else {
        panic!("{result:?}");
    };
    assert!(cause.contains("partition=key"), "{cause}");
}

#[tokio::test]
async fn a_dead_producer_makes_way_for_another() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("partition", "source")]).as_ref(), 0).await;
    let fenced = Answer::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    cluster.request_errors(RDKafkaApiKey::Produce, &[fenced]);
    let (result, outcomes) = put(sink.as_mut(), texts(2)).await;
    assert_eq!(result, Ok(()));
    let retries = outcomes
        .iter()
        .all(|(_, it)| matches!(it, Outcome::Retry(_)));
    assert!(retries && outcomes.len() == 2, "{outcomes:?}");
    let (result, outcomes) = put(sink.as_mut(), texts(2)).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [0, 1]);
}

#[tokio::test]
async fn close_waits_for_records_of_a_put_that_was_given_up() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(
        factory(&servers, &[("producer.override.linger.ms", "300")]).as_ref(),
        0,
    )
    .await;
    let report = Report::new(2);
    let given_up = tokio::time::timeout(
        Duration::from_millis(50),
        sink.put(Chunk::new(texts(2)), report.clone()),
    );
    assert!(given_up.await.is_err(), "the put was over before linger.ms");
    sink.close().await;
    assert_eq!(delivered(&fresh(&report)), [0, 1]);
}

#[tokio::test]
async fn a_full_buffer_is_waited_for() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let small = [
        ("producer.override.max.request.size", "2000"),
        ("producer.override.buffer.memory", "4096"),
    ];
    let mut sink = opened(factory(&servers, &small).as_ref(), 0).await;
    let records = (0..40).map(|offset| text_record(offset, &"x".repeat(1000)));
    let (result, outcomes) = put(sink.as_mut(), records.collect()).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes).len(), 40);
}

#[tokio::test]
async fn a_topic_that_has_no_topics_name_rejects_its_record() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let mut sink = opened(factory(&servers, &[("topic", "${topic}")]).as_ref(), 0).await;
    let (mut good, mut bad) = (text_record(0, "v"), text_record(1, "w"));
    good.topic = "copy".into();
    bad.topic = "no topic".into();
    let (result, outcomes) = put(sink.as_mut(), vec![bad, good]).await;
    assert_eq!(result, Ok(()));
    assert_eq!(delivered(&outcomes), [1]);
}

#[tokio::test]
async fn a_loop_that_only_records_show_stops_the_connector() {
    let cluster = cluster();
    let servers = cluster.bootstrap_servers();
    let settings = [(SERVERS, servers.as_str()), ("transforms", "rename")];
    let topics = Topics::Named(vec!["orders".to_owned()]);
    let (config, faults) = reading(&topics, &settings);
    assert_eq!(faults, "");
    let mut sink = opened(&KafkaFactory::new(config), 0).await;
    let (result, outcomes) = put(sink.as_mut(), texts(1)).await;
    let Err(SinkError::Fatal(cause)) = result else {
        panic!("{result:?}");
    };
    assert!(
        cause.contains("orders is read by this connector"),
        "{cause}"
    );
    assert_eq!(outcomes, []);
}

/// A sink whose connector reads `topics` from the cluster that it writes to,
/// and its faults.
fn reading(topics: &Topics, settings: &[(&str, &str)]) -> (KafkaConfig, String) {
    let properties: Properties = settings
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let producer = producer(&properties);
    let producer = producer.clone().beside(&producer.client, topics);
    let mut faults = Faults::default();
    let mut reader = Reader::new(&properties, "", KEYS, &mut faults);
    let config = KafkaConfig::read(&mut reader, &producer);
    (config, faults.to_string())
}

#[test]
fn a_topic_that_is_read_from_the_same_cluster_is_refused() {
    let servers = (SERVERS, "kafka:9092");
    let named = Topics::Named(vec!["orders".to_owned(), "copy-of-orders".to_owned()]);
    let matching = Topics::Matching(regex::Regex::new("^(?:copy.*)$").unwrap());
    for (topics, settings, refused) in [
        (&named, &[servers][..], true),
        (&named, &[servers, ("topic", "orders")], true),
        (&named, &[servers, ("topic", "copy-of-${topic}")], true),
        (&named, &[servers, ("topic", "audit-${topic}")], false),
        (&named, &[servers, ("transforms", "rename")], false),
        (&matching, &[servers], true),
        (&matching, &[servers, ("topic", "copy")], true),
        (&matching, &[servers, ("topic", "audit")], false),
    ] {
        let (_, faults) = reading(topics, settings);
        assert_eq!(
            faults.starts_with("topic: "),
            refused,
            "{settings:?}: {faults}"
        );
    }
}
