//! Whether, when and where a connector parks records that keep failing.

use std::time::Duration;

use super::limits;
use super::reading::Reading;
use super::{DEAD_LETTER_MODE, DeadLetters, ErrorsConfig, ShareConfig, Topics};
use crate::config::connector_keys::{PARK_AFTER, PARK_BACKOFF, PARK_REPLICATION};
use crate::config::overrides::ConsumerConfig;
use crate::config::producer::ProducerConfig;

/// Where and when records are parked.
#[derive(Clone, Debug)]
pub struct ParkingConfig {
    /// In the cluster that is read. The share group that reads it has this
    /// name, too.
    pub topic: String,
    /// The connector's own share group: only what it parked is its own.
    pub group: String,
    /// When the topic is missing and we create it.
    pub replication_factor: i16,
    /// `share.park.after.ms`.
    pub after: Duration,
    /// `share.park.backoff.ms`.
    pub backoff: Duration,
    pub producer: ProducerConfig,
}

/// What parking must get along with.
pub(super) struct Surroundings<'a> {
    pub(super) connector: &'a str,
    pub(super) topics: &'a Topics,
    pub(super) consumer: &'a ConsumerConfig,
    pub(super) share: &'a ShareConfig,
    pub(super) errors: &'a ErrorsConfig,
    pub(super) dead_letters: &'a DeadLetters,
    pub(super) is_share_group: bool,
}

impl Reading<'_> {
    /// `None` when it is off.
    pub(super) fn parking(&mut self, around: &Surroundings<'_>) -> Option<ParkingConfig> {
        let after = self.reader().optional_duration(PARK_AFTER);
        let Some(after) = after else {
            for key in [PARK_BACKOFF, PARK_REPLICATION] {
                if self.settings.is_given(key) {
                    let reason = format!("{PARK_AFTER} is not set, so that no record is parked");
                    self.notes.no_effect(key, &reason);
                }
            }
            return None;
        };
        let topic = parking_topic(around.connector);
        let mut reader = self.reader();
        let backoff = limits::milliseconds(reader.int(PARK_BACKOFF));
        let replicas = reader.int(PARK_REPLICATION);
        let is_exactly_once = reader.choice("exactly.once.mode") != "off";
        let unfit = unfit(around, is_exactly_once).into_iter();
        let misnamed = misnamed(around, &topic).into_iter();
        let obstacles = unfit.chain(misnamed).chain([late(around, after, backoff)]);
        for obstacle in obstacles.flatten() {
            self.faults.add(PARK_AFTER, obstacle);
        }
        Some(ParkingConfig {
            group: around.share.group_id.clone(),
            replication_factor: i16::try_from(replicas).unwrap_or(i16::MAX),
            after,
            backoff,
            producer: self.parking_producer(around),
            topic,
        })
    }

    /// Whether a parking topic is written.
    pub(super) fn parks(&self) -> bool {
        self.settings.get(PARK_AFTER).is_some()
    }

    /// It writes to the cluster that is read, as the consumer does.
    fn parking_producer(&self, around: &Surroundings<'_>) -> ProducerConfig {
        let client_id = format!("connector-parking-producer-{}", around.connector);
        self.letter_producer(&client_id)
            .beside_consumer(&around.consumer.client, client_id)
    }
}

/// Where a connector's records are parked. By its name, not by its group:
/// another one of that group would deliver the records elsewhere.
#[must_use]
pub fn parking_topic(connector: &str) -> String {
    format!("share-{connector}-parked")
}

/// What a connector that parks cannot be, and what to do.
fn unfit(around: &Surroundings<'_>, is_exactly_once: bool) -> [Option<String>; 4] {
    let is_brokers = matches!(around.dead_letters, DeadLetters::Broker { .. });
    [
        (!around.is_share_group).then(|| {
            "a consumer group parks no records: one behind another need not wait there for long; \
             remove it, or read as a share group"
                .to_owned()
        }),
        is_exactly_once.then(|| {
            "a parked record is accepted before it is delivered, which is not exactly-once; remove \
             it, or set exactly.once.mode=off"
                .to_owned()
        }),
        around.share.releases_retriable.then(|| {
            "share.retriable=release gives a failing record back at once, so that none is ever \
             parked; remove one of them"
                .to_owned()
        }),
        is_brokers.then(|| {
            format!(
                "does not go with {DEAD_LETTER_MODE}=broker, which a topic alone means, too: the \
                 brokers write no dead letter of a record that was parked, as it was accepted in \
                 the connector's group, so that it would be lost when it is given up; set \
                 {DEAD_LETTER_MODE}=sluice, or remove {PARK_AFTER}"
            )
        }),
    ]
}

/// What the parking topic, which is the group's name, too, cannot be.
fn misnamed(around: &Surroundings<'_>, topic: &str) -> [Option<String>; 3] {
    let is_dead_letters = match around.dead_letters {
        DeadLetters::None => false,
        DeadLetters::Broker { topic: dead } => dead == topic,
        DeadLetters::Sluice(written) => written.topic == topic,
    };
    [
        (!limits::is_topic(topic)).then(|| {
            format!(
                "records would be parked in {topic:?}, which is no topic's name: it has up to 249 \
                 letters, digits, '.', '_' and '-'; give the connector such a name"
            )
        }),
        (around.topics.contains(topic) || is_dead_letters).then(|| {
            format!(
                "records would be parked in {topic}, which is another topic of this connector; \
                 leave that one out, or name the connector otherwise"
            )
        }),
        (around.share.group_id == topic).then(|| {
            format!(
                "share.group.id={topic} is the name of the group that reads the parked records; \
                 give share.group.id another one"
            )
        }),
    ]
}

/// A record that is given up before it is due the first time.
fn late(around: &Surroundings<'_>, after: Duration, backoff: Duration) -> Option<String> {
    let timeout = around.errors.retry_timeout?;
    (after.saturating_add(backoff) > timeout).then(|| {
        format!(
            "{} ms, with {PARK_BACKOFF} ({}), are more than errors.retry.timeout ({}): a record \
             would be given up before its first try as a parked one, so that none is ever parked \
             by time; set errors.retry.timeout to at least their sum, or these lower",
            after.as_millis(),
            backoff.as_millis(),
            timeout.as_millis()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, good, read};
    use super::*;

    const AFTER: (&str, &str) = (PARK_AFTER, "60000");

    #[test]
    fn nothing_is_parked_unless_it_is_asked_for() {
        assert!(good(&[]).parking.is_none());
        let read = read(&[(PARK_BACKOFF, "1000")]);
        assert_eq!(read.faults.to_string(), "");
        let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
        assert!(
            notes[0].starts_with("share.park.backoff.ms: has no effect"),
            "{notes:?}"
        );
    }

    #[test]
    fn records_are_parked_in_a_topic_of_the_cluster_that_is_read() {
        let parking = good(&[
            AFTER,
            ("share.group.id", "shared"),
            (PARK_REPLICATION, "1"),
            ("consumer.override.bootstrap.servers", "here:9092"),
            ("producer.override.bootstrap.servers", "elsewhere:9092"),
            ("producer.override.linger.ms", "7"),
        ]);
        let parking = parking.parking.unwrap();
        assert_eq!(parking.topic, "share-orders-parked", "of the connector");
        assert_eq!(parking.group, "shared");
        assert_eq!(
            (parking.after, parking.backoff, parking.replication_factor),
            (Duration::from_secs(60), Duration::from_secs(60), 1)
        );
        let client = &parking.producer.client;
        assert_eq!(client.bootstrap_servers, ["here:9092"]);
        assert_eq!(client.client_id, "connector-parking-producer-orders");
        let linger = ("queue.buffering.max.ms", "7".to_owned());
        assert!(parking.producer.tuning.contains(&linger));
    }

    #[test]
    fn what_parking_cannot_go_with_is_refused_with_the_remedy() {
        for (key, value, says) in [
            ("exactly.once.mode", "ledger", "set exactly.once.mode=off"),
            (
                "consumer.override.group.protocol",
                "consumer",
                "share group",
            ),
            ("share.retriable", "release", "share.retriable=release"),
            (
                "errors.retry.timeout",
                "119999",
                "60000 ms, with share.park.backoff.ms (60000), are more than \
                 errors.retry.timeout (119999)",
            ),
            (
                "share.group.id",
                "share-orders-parked",
                "share.group.id=share-orders-parked",
            ),
            ("name", "orders:mine", "no topic's name"),
            ("topics", "orders,share-orders-parked", "another topic"),
        ] {
            let faults = faults(&[AFTER, (key, value)]);
            let mut faults = faults.lines();
            let is_said = |it: &str| it.starts_with(PARK_AFTER) && it.contains(says);
            assert!(faults.any(is_said), "{key}: {faults:?}");
        }
        assert!(
            good(&[AFTER, ("errors.retry.timeout", "120000")])
                .parking
                .is_some()
        );
        assert!(
            good(&[AFTER, ("errors.retry.timeout", "-1")])
                .parking
                .is_some()
        );
    }

    #[test]
    fn the_brokers_would_drop_a_parked_record_that_is_given_up() {
        let (all, topic) = (
            ("errors.tolerance", "all"),
            ("errors.deadletterqueue.topic.name", "dlq"),
        );
        let mode = |mode: &'static str| (DEAD_LETTER_MODE, mode);
        for by in [vec![], vec![mode("broker")]] {
            let faults = faults(&[vec![AFTER, all, topic], by].concat());
            let named = [PARK_AFTER, "errors.deadletterqueue.mode=broker"];
            assert!(named.iter().all(|it| faults.contains(it)), "{faults}");
            assert!(faults.contains("set errors.deadletterqueue.mode=sluice"));
        }
        for kept in ["none", "sluice"] {
            assert!(good(&[AFTER, all, topic, mode(kept)]).parking.is_some());
        }
    }
}
