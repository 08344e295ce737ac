//! The share source on a real broker: what it promises.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use krafka::__private::kafka_pool;
use krafka::auth::AuthConfig;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use sluice::kafka::client_config::Credentials;
use sluice::kafka::share::ShareSourceConfig;
use sluice_actors::ports::source::{SettleRange, Settlement, Source};
use sluice_test_support::topics::unique_name;
use sluice_test_support::wait::eventually;
use tokio::time::Instant;

use crate::cluster::{
    CREDENTIALS_LAST, PATIENCE, admin, bootstrap_servers, connect_with_credentials, credentials,
    new_topic, produce, set_group, topic_and_group, wait_until_consumed,
};
use crate::reader::Reader;

const CLOSE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn all_partitions_are_fetched_though_half_are_assigned_to_a_member_that_takes_nothing() {
    let (topic, group) = topic_and_group("all", 12).await;
    let mut idle = Reader::start(&group, &[&topic], 1).await;
    idle.until("the idle member joined", |reader| reader.ready)
        .await;
    idle.credit.set_window_records(0);
    eventually("its fetches are over", PATIENCE, async || {
        ensure!(!idle.credit.is_awaiting(), "one is under way");
        Ok(())
    })
    .await
    .unwrap();
    produce(&topic, 0..12, 1200, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 2000).await;
    reader
        .until("all records", |reader| reader.acquired.len() == 1200)
        .await;
    assert!(reader.ready);
    reader.settle_all(Settlement::Accept);
    reader
        .until("all confirmed", |reader| reader.confirmed.len() == 1200)
        .await;
    wait_until_consumed(&group, &topic).await;
    assert_eq!(idle.deliveries, 0);
    assert_eq!(reader.source.close(CLOSE).await.unconfirmed, 0);
    idle.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settlements_go_in_any_order_while_polling_goes_on() {
    let (topic, group) = topic_and_group("order", 2).await;
    produce(&topic, 0..2, 1000, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    // The first record of each partition stays open to the end.
    while reader.confirmed.len() < 998 {
        reader
            .until("more records, or the last answers", |reader| {
                reader.acquired.len() > 2 || reader.confirmed.len() == 998
            })
            .await;
        let here = reader.acquired.keys().copied();
        let mut here: Vec<_> = here.filter(|(_, offset)| *offset > 0).collect();
        here.reverse();
        for (partition, offset) in here {
            reader.settle(partition, offset..=offset, Settlement::Accept);
        }
    }
    assert_eq!(reader.acquired.len(), 2);
    reader.settle_all(Settlement::Accept);
    reader
        .until("the first records", |reader| reader.confirmed.len() == 1000)
        .await;
    assert_eq!(reader.deliveries, 1000);
    wait_until_consumed(&group, &topic).await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_bounds_what_is_open() {
    let (topic, group) = topic_and_group("window", 3).await;
    produce(&topic, 0..3, 300, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 10).await;
    reader
        .until("a full window", |reader| reader.acquired.len() == 10)
        .await;
    reader.listen(Duration::from_millis(300)).await;
    assert_eq!(reader.acquired.len(), 10);
    reader.credit.set_window_records(25);
    reader
        .until("a larger window", |reader| reader.acquired.len() == 25)
        .await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_keep_a_lock_far_over_its_time() {
    let (topic, group) = topic_and_group("renew", 1).await;
    set_group(&group, "share.record.lock.duration.ms", "1500").await;
    produce(&topic, 0..1, 10, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 10)
        .await;
    for round in 1..=6 {
        reader.listen(Duration::from_millis(700)).await;
        reader.settle(0, 0..=9, Settlement::Renew);
        reader
            .until("renewed", |reader| reader.renewed == 10 * round)
            .await;
    }
    // A final settlement replaces a renewal that was not sent yet.
    reader.settle(0, 0..=4, Settlement::Renew);
    reader.settle(0, 0..=9, Settlement::Accept);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 10)
        .await;
    assert_eq!(reader.deliveries, 10);
    assert!(reader.lost.is_empty());
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_ended_is_lost_and_comes_again() {
    let (topic, group) = topic_and_group("expire", 1).await;
    set_group(&group, "share.record.lock.duration.ms", "1000").await;
    produce(&topic, 0..1, 5, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 5)
        .await;
    reader.settle(0, 3..=4, Settlement::Accept);
    reader
        .until("two confirmed", |reader| reader.confirmed.len() == 2)
        .await;
    reader
        .until("the others again", |reader| reader.deliveries == 8)
        .await;
    assert_eq!(reader.lost.len(), 3);
    assert!(reader.acquired.values().all(|count| *count == 2));
    reader.settle(0, 0..=2, Settlement::Accept);
    reader
        .until("all confirmed", |reader| reader.confirmed.len() == 5)
        .await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_loses_what_is_open_and_brings_it_again() {
    let (topic, group) = topic_and_group("drop", 3).await;
    produce(&topic, 0..3, 30, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 30)
        .await;
    kafka_pool(&reader.kafka).close_all().await;
    let dropped = Instant::now();
    reader
        .until("all again", |reader| reader.deliveries == 60)
        .await;
    let again = dropped.elapsed();
    assert_eq!(reader.lost.len(), 30);
    assert!(
        reader.acquired.values().all(|count| *count == 2),
        "{:?}",
        reader.acquired
    );
    assert!(
        again < Duration::from_secs(3),
        "released at once, not by expiry: {again:?}"
    );
    reader.settle_all(Settlement::Accept);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 30)
        .await;
    wait_until_consumed(&group, &topic).await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_record_comes_again_and_a_rejected_one_does_not() {
    let (topic, group) = topic_and_group("release", 1).await;
    produce(&topic, 0..1, 10, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 10)
        .await;
    reader.settle(0, 2..=3, Settlement::Release);
    reader.settle(0, 4..=5, Settlement::Reject);
    reader
        .until("the released again", |reader| reader.deliveries == 12)
        .await;
    assert_eq!(reader.acquired.get(&(0, 2)), Some(&2));
    assert_eq!(reader.acquired.get(&(0, 3)), Some(&2));
    assert_eq!(reader.acquired.len(), 8);
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_gives_back_at_once_what_is_open_and_confirms_what_is_settled() {
    let (topic, group) = topic_and_group("close", 2).await;
    produce(&topic, 0..2, 20, 20).await;
    let mut first = Reader::start(&group, &[&topic], 100).await;
    first
        .until("the records", |reader| reader.acquired.len() == 20)
        .await;
    first.settle(0, 0..=4, Settlement::Accept);
    let closed = first.source.close(CLOSE).await;
    assert_eq!((closed.unconfirmed, closed.cause), (0, None));
    first.listen(CLOSE).await;
    assert_eq!(first.confirmed.len(), 5);
    let mut second = Reader::start(&group, &[&topic], 100).await;
    let started = Instant::now();
    second
        .until("the rest", |reader| reader.acquired.len() == 15)
        .await;
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    assert!(second.acquired.values().all(|count| *count == 2));
    second.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_leaves_the_subscription_is_settled_still() {
    let (topic, group) = topic_and_group("leave", 2).await;
    let other = new_topic("leave-other", 3).await;
    produce(&topic, 0..2, 20, 20).await;
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 20)
        .await;
    reader.source.set_topics(vec![Arc::from(&*other)]);
    produce(&other, 2..3, 1, 20).await;
    reader
        .until("the other topic", |reader| {
            reader.partitions.contains_key(&(other.clone(), 2))
        })
        .await;
    let partition = Arc::clone(&reader.partitions[&(topic.clone(), 1)]);
    reader.source.settle(vec![SettleRange {
        partition,
        first_offset: 0,
        last_offset: 9,
        settlement: Settlement::Accept,
    }]);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 10)
        .await;
    assert_eq!(reader.source.close(CLOSE).await.unconfirmed, 0);
    // What was open in partition 0 was given back by closing.
    let mut next = Reader::start(&group, &[&topic], 100).await;
    let started = Instant::now();
    next.until("the rest", |reader| reader.acquired.len() == 10)
        .await;
    assert!(started.elapsed() < Duration::from_secs(3));
    next.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_is_named_and_the_others_go_on() {
    let (topic, group) = topic_and_group("delete", 1).await;
    let doomed = new_topic("delete-doomed", 1).await;
    let mut config = ShareSourceConfig::new(&*group, vec![Arc::from(&*topic), Arc::from(&*doomed)]);
    config.metadata_max_age = Duration::from_millis(500);
    let mut reader = Reader::with(config, 100).await;
    reader.until("ready", |reader| reader.ready).await;
    admin().await.delete_topic(&doomed).await.unwrap();
    reader
        .until("the topic is named", |reader| {
            reader
                .troubles
                .iter()
                .any(|cause| cause.contains(&format!("topic {doomed} does not exist")))
        })
        .await;
    produce(&topic, 0..1, 10, 20).await;
    reader
        .until("the other topic goes on", |reader| {
            reader.acquired.len() == 10
        })
        .await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_id_of_a_consumer_group_fails_by_name() {
    let (topic, _) = topic_and_group("clash", 1).await;
    let group = unique_name("clash-consumer");
    let (name, of) = (group.clone(), topic.clone());
    let servers = bootstrap_servers().await;
    let joined = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", servers)
            .set("group.id", &name)
            .create()
            .unwrap();
        consumer.subscribe(&[&of]).unwrap();
        let end = Instant::now() + PATIENCE;
        while consumer.assignment().unwrap().count() == 0 && Instant::now() < end {
            let _ = consumer.poll(Duration::from_millis(100));
        }
        consumer
    });
    let _consumer = joined.await.unwrap();
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("failed", |reader| reader.failure.is_some())
        .await;
    let failure = reader.failure.clone().unwrap();
    assert!(
        failure.contains(&group) && failure.contains("consumer group"),
        "{failure}"
    );
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_records_are_no_hole_in_progress() {
    let (topic, group) = topic_and_group("gaps", 1).await;
    let of = topic.clone();
    let id = unique_name("transaction");
    let servers = bootstrap_servers().await;
    let written = tokio::task::spawn_blocking(move || {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", servers)
            .set("transactional.id", &id)
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        for _ in 0..5 {
            producer.begin_transaction().unwrap();
            for _ in 0..3 {
                let record = BaseRecord::<(), str>::to(&of).payload("x");
                producer.send(record).map_err(|(error, _)| error).unwrap();
            }
            producer.commit_transaction(PATIENCE).unwrap();
        }
    });
    written.await.unwrap();
    let mut reader = Reader::start(&group, &[&topic], 100).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 15)
        .await;
    reader.settle_all(Settlement::Accept);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 15)
        .await;
    wait_until_consumed(&group, &topic).await;
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_larger_than_every_limit_comes_through() {
    let (topic, group) = topic_and_group("large", 1).await;
    produce(&topic, 0..1, 2, 500_000).await;
    let mut config = ShareSourceConfig::new(&*group, vec![Arc::from(&*topic)]);
    config.fetch_max_bytes = 1000;
    let mut reader = Reader::with(config, 10).await;
    reader
        .until("the records", |reader| reader.acquired.len() == 2)
        .await;
    reader.settle_all(Settlement::Accept);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 2)
        .await;
    reader.source.close(CLOSE).await;
}

/// A reader whose connections log in, and authenticate anew with these.
async fn authenticating(group: &str, topic: &str, anew: AuthConfig) -> Reader {
    let mut config = ShareSourceConfig::new(group, vec![Arc::from(topic)]);
    config.credentials = Credentials::Constant(Arc::new(anew));
    Reader::over(connect_with_credentials().await, config, 1000)
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_end_cost_no_attempt_however_long_a_record_is_open() {
    let (topic, group) = topic_and_group("reauth", 3).await;
    let mut reader = authenticating(&group, &topic, credentials()).await;
    let held = [(0, 0)];
    let started = Instant::now();
    let mut written = 0;
    // Long enough to renew them twice.
    while started.elapsed() < CREDENTIALS_LAST * 9 / 4 {
        produce(&topic, 0..3, 30, 20).await;
        written += 30;
        reader
            .until("the records", |reader| reader.deliveries == written)
            .await;
        assert!(reader.acquired.values().all(|count| *count == 1));
        reader.settle_all_but(&held, Settlement::Accept);
        reader
            .until("confirmed", |reader| reader.confirmed.len() == written - 1)
            .await;
        if written == 30 {
            // A coordinator may need a while to start.
            reader.troubles.clear();
        }
    }
    reader.settle_all(Settlement::Accept);
    reader
        .until("all confirmed", |reader| reader.confirmed.len() == written)
        .await;
    assert!(reader.lost.is_empty() && reader.unknown.is_empty());
    assert!(reader.troubles.is_empty(), "{:?}", reader.troubles);
    reader.source.close(CLOSE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_refused_cost_an_attempt_and_the_reason_is_told() {
    let (topic, group) = topic_and_group("refused", 1).await;
    let wrong = AuthConfig::sasl_plain("reader", "hush-wrong");
    let mut reader = authenticating(&group, &topic, wrong).await;
    produce(&topic, 0..1, 1, 20).await;
    reader
        .until("the record", |reader| reader.acquired.len() == 1)
        .await;
    reader.troubles.clear();
    reader
        .until("lost", |reader| reader.lost.contains(&(0, 0)))
        .await;
    reader
        .until("it comes again", |reader| !reader.acquired.is_empty())
        .await;
    assert_eq!(reader.acquired[&(0, 0)], 2);
    let told = reader.troubles.join("; ");
    assert!(told.contains("refuses to authenticate"), "{told}");
    assert!(!told.contains("hush"), "{told}");
    reader.settle_all(Settlement::Accept);
    reader
        .until("confirmed", |reader| reader.confirmed.len() == 1)
        .await;
    reader.source.close(CLOSE).await;
}
