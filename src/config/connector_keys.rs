//! The table of a connector's keys: Kafka Connect's, and those of share
//! groups. A sink's own keys are in the sink's table.

use sluice_actors::error_log::INCLUDE_MESSAGES;

use super::definition::{Key, Kind, Preset, key};

pub const MAX_PUT_RECORDS: &str = "max.put.records";
/// What Connect's users call [`MAX_PUT_RECORDS`].
pub(super) const MAX_POLL_RECORDS: &str = "consumer.override.max.poll.records";
pub(super) const LOCK_DURATION: &str = "share.record.lock.duration.ms";
/// What KIP-1302 calls [`LOCK_DURATION`].
pub(super) const LOCK_TIMEOUT: &str = "share.acquisition.lock.timeout.ms";
pub const GROUP_PROTOCOL: &str = "consumer.override.group.protocol";
pub(super) const FLUSH_RECORDS: &str = "share.flush.records";
pub(super) const FLUSH_BYTES: &str = "share.flush.bytes";
pub(super) const IN_FLIGHT_RECORDS: &str = "share.max.in.flight.records";
pub(crate) const DEAD_LETTER_TOPIC: &str = "errors.deadletterqueue.topic.name";
pub(crate) const DEAD_LETTER_MODE: &str = "errors.deadletterqueue.mode";
pub(crate) const DEAD_LETTER_REPLICATION: &str = "errors.deadletterqueue.topic.replication.factor";
pub(crate) const PARK_AFTER: &str = "share.park.after.ms";
pub(super) const PARK_BACKOFF: &str = "share.park.backoff.ms";
pub(crate) const PARK_REPLICATION: &str = "share.park.topic.replication.factor";
pub(super) const DEAD_LETTER_HEADERS: &str = "errors.deadletterqueue.context.headers.enable";

const PUT_RECORDS: Kind = Kind::Int {
    min: 1,
    max: 100_000,
};
const LOCK_MS: Kind = Kind::Int {
    min: 1_000,
    max: 3_600_000,
};

pub const KEYS: &[Key] = &[
    key(
        "name",
        Kind::Text,
        Preset::Required,
        "What the connector is called.",
    ),
    key(
        "connector.class",
        Kind::Text,
        Preset::Required,
        "The sink, by its short name or by Connect's class.",
    ),
    key(
        "tasks.max",
        Kind::Int {
            min: 1,
            max: 10_000,
        },
        Preset::Value("1"),
        "How many tasks deliver at once, each with a sink of its own.",
    ),
    key(
        "topics",
        Kind::List,
        Preset::Unset,
        "Topics to read. Either this or topics.regex.",
    ),
    key(
        "topics.regex",
        Kind::Text,
        Preset::Unset,
        "Topics to read, as a pattern of the whole name.",
    ),
    key(
        "key.converter",
        Kind::Text,
        Preset::Unset,
        "The converter of keys; the worker's if unset.",
    ),
    key(
        "value.converter",
        Kind::Text,
        Preset::Unset,
        "The converter of values; the worker's if unset.",
    ),
    key(
        "header.converter",
        Kind::Text,
        Preset::Unset,
        "The converter of headers; the worker's if unset.",
    ),
    key(
        "transforms",
        Kind::List,
        Preset::Unset,
        "Names for changes to each record, in their order; each is told by the keys below transforms.NAME.",
    ),
    key(
        "predicates",
        Kind::List,
        Preset::Unset,
        "Names for conditions of transforms; each is told by the keys below predicates.NAME.",
    ),
    key(
        GROUP_PROTOCOL,
        Kind::Choice(&["consumer", "share"]),
        Preset::Unset,
        "share reads as a share group (KIP-1302); consumer is still to come. The worker's consumer.group.protocol if unset.",
    ),
    key(
        "errors.tolerance",
        Kind::Choice(&["none", "all"]),
        Preset::Value("none"),
        "Whether a record that can never be delivered stops the connector (none) or is put aside (all).",
    ),
    key(
        "errors.retry.timeout",
        Kind::Int {
            min: -1,
            max: i64::MAX,
        },
        Preset::Unset,
        "Milliseconds for which a put is tried again; 0 is not at all, -1 or unset is without end.",
    ),
    key(
        "errors.retry.delay.max.ms",
        Kind::DurationMs,
        Preset::Value("60000"),
        "The longest pause between two tries.",
    ),
    key(
        "errors.log.enable",
        Kind::Boolean,
        Preset::Value("false"),
        "Whether each record that is put aside is logged, with stage and cause.",
    ),
    key(
        INCLUDE_MESSAGES,
        Kind::Boolean,
        Preset::Value("false"),
        "Whether that names the record, by topic, partition and offset, and whether causes, there, in other lines and in the status, have the words of others that may quote it: answers of endpoints, and messages of panics. Never its key or value by themselves.",
    ),
    key(
        DEAD_LETTER_MODE,
        Kind::Choice(&["none", "broker", "sluice"]),
        Preset::Unset,
        "Who writes the records that errors.tolerance=all puts aside. none: nobody. broker: the brokers, into the group's dead-letter topic (KIP-1191), at best effort and without headers and cause. sluice: this worker, with all that the record had, confirmed before the record is done. broker if a topic is named, else none.",
    ),
    key(
        DEAD_LETTER_TOPIC,
        Kind::Text,
        Preset::Unset,
        "The topic of dead letters.",
    ),
    key(
        DEAD_LETTER_REPLICATION,
        Kind::Int {
            min: 1,
            max: i16::MAX as i64,
        },
        Preset::Value("3"),
        "Replicas of the dead-letter topic if it is missing and this worker creates it.",
    ),
    key(
        DEAD_LETTER_HEADERS,
        Kind::Boolean,
        Preset::Value("false"),
        "Whether dead letters tell in headers (__connect.errors.*) where they come from and why they are dead.",
    ),
    key(
        "share.group.id",
        Kind::Text,
        Preset::Unset,
        "The share group; share-NAME if unset.",
    ),
    key(
        IN_FLIGHT_RECORDS,
        Kind::Int {
            min: 1,
            max: 10_000_000,
        },
        Preset::Unset,
        "Records that are acquired and not settled; fits itself to what the tasks deliver if unset.",
    ),
    key(
        "share.max.in.flight.bytes",
        Kind::Size,
        Preset::Value("67108864"),
        "Bytes of records that are acquired and not settled.",
    ),
    key(
        "share.partition.max.record.locks",
        Kind::Int {
            min: 100,
            max: 10_000,
        },
        Preset::Unset,
        "Offsets that the group may have in flight in a partition; set on the group.",
    ),
    key(
        "share.delivery.count.limit",
        Kind::Int { min: 2, max: 25 },
        Preset::Unset,
        "How often the broker hands out a record; set on the group.",
    ),
    key(
        LOCK_DURATION,
        LOCK_MS,
        Preset::Unset,
        "How long the broker locks a record; set on the group.",
    ),
    key(
        LOCK_TIMEOUT,
        LOCK_MS,
        Preset::Unset,
        "Another name of share.record.lock.duration.ms.",
    ),
    key(
        "share.delivery.timeout.ms",
        Kind::Int {
            min: 1,
            max: i64::MAX,
        },
        Preset::Value("300000"),
        "How long a put may take before it is abandoned; locks are renewed until then.",
    ),
    key(
        "share.retriable",
        Kind::Choice(&["hold", "release"]),
        Preset::Value("hold"),
        "What happens to a record that the sink wants again: hold keeps its lock and tries again, as errors.retry.timeout says; release gives it back at once, each time for a delivery attempt (KIP-1302), until its last one, which is held.",
    ),
    key(
        "share.auto.offset.reset",
        Kind::Text,
        Preset::Value("earliest"),
        "Where a new group begins: earliest, latest, or by_duration:PT1H; set on the group.",
    ),
    key(
        "share.acknowledge.after",
        Kind::Choice(&["put", "flush"]),
        Preset::Unset,
        "When a record in a sink that buffers counts as delivered: flush, the default, after the sink has made it last; put, as KIP-1302 says, before that: what the worker or the sink loses in between is lost. Any other sink's records count after their put.",
    ),
    key(
        FLUSH_RECORDS,
        Kind::Int {
            min: 1,
            max: 10_000_000,
        },
        Preset::Unset,
        "A task's sink that buffers so many records is flushed; no bound if unset.",
    ),
    key(
        FLUSH_BYTES,
        Kind::Size,
        Preset::Value("0"),
        "The same for the bytes of keys, values and headers; 0 is no bound.",
    ),
    key(
        "share.flush.idle.ms",
        Kind::DurationMs,
        Preset::Value("5"),
        "A sink that buffers is flushed after so long without more records, and never later than offset.flush.interval.ms of the worker after the first one.",
    ),
    key(
        MAX_PUT_RECORDS,
        PUT_RECORDS,
        Preset::Value("500"),
        "At most so many records in a put.",
    ),
    key(
        MAX_POLL_RECORDS,
        PUT_RECORDS,
        Preset::Unset,
        "Another name of max.put.records.",
    ),
    key(
        "share.order",
        Kind::Choice(&["none", "key"]),
        Preset::Value("none"),
        "Whether records of one key are delivered one after the other. key is still to come.",
    ),
    key(
        PARK_AFTER,
        Kind::DurationMs,
        Preset::Unset,
        "A record that the sink wants again for so long, while it takes others, is parked: written to the topic share-NAME-parked, in the cluster that is read, and tried again from there; at once if it keeps its partition back. No record is parked if unset.",
    ),
    key(
        PARK_BACKOFF,
        Kind::Int {
            min: 100,
            max: 3_600_000,
        },
        Preset::Value("60000"),
        "How long a parked record waits before it is tried again.",
    ),
    key(
        PARK_REPLICATION,
        Kind::Int {
            min: 1,
            max: i16::MAX as i64,
        },
        Preset::Value("3"),
        "Replicas of the parking topic if it is missing and this worker creates it.",
    ),
    key(
        "exactly.once.mode",
        Kind::Choice(&["off", "auto", "ledger", "broker"]),
        Preset::Value("off"),
        "Whether outputs and acknowledgements are one transaction. All but off are still to come.",
    ),
];
