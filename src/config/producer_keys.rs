//! The table of a producer's keys, and of those that cannot be taken. Keys of
//! every client are in [`client_config::KEYS`](crate::kafka::client_config::KEYS).

use super::definition::{Key, Kind, Preset, key};
use super::known_keys::{Inert, inert};

const INT_MAX: i64 = i32::MAX as i64;
const BACK_OFF_MS: Kind = Kind::Int {
    min: 1,
    max: 300_000,
};
const RECONNECT_MS: Kind = Kind::Int {
    min: 0,
    max: 3_600_000,
};

pub const PRODUCER_KEYS: &[Key] = &[
    key(
        "acks",
        Kind::Choice(&["all", "-1"]),
        Preset::Value("all"),
        "Who must have a record before it counts as delivered: all replicas in sync.",
    ),
    key(
        "enable.idempotence",
        Kind::Boolean,
        Preset::Value("true"),
        "Must be true: the producer's own repetitions write nothing twice.",
    ),
    key(
        "linger.ms",
        Kind::Int {
            min: 0,
            max: 900_000,
        },
        Preset::Value("5"),
        "How long a record waits for others to be sent along.",
    ),
    key(
        "batch.size",
        Kind::Int {
            min: 1,
            max: INT_MAX,
        },
        Preset::Value("1000000"),
        "At most so many bytes in the batch of a partition.",
    ),
    key(
        "buffer.memory",
        Kind::Int {
            min: 1024,
            max: 1 << 40,
        },
        Preset::Value("33554432"),
        "Bytes of records that wait or are under way, in all tasks; a put waits for room.",
    ),
    key(
        "compression.type",
        Kind::Choice(&["none", "gzip", "snappy", "lz4", "zstd"]),
        Preset::Value("none"),
        "How batches are compressed.",
    ),
    key(
        "delivery.timeout.ms",
        Kind::Int {
            min: 1,
            max: INT_MAX,
        },
        Preset::Value("120000"),
        "How long the producer tries to deliver a record; then the put is tried again.",
    ),
    key(
        "max.request.size",
        Kind::Int {
            min: 1000,
            max: 1_000_000_000,
        },
        Preset::Value("1048576"),
        "A record of more bytes is rejected before it is sent.",
    ),
    key(
        "max.in.flight.requests.per.connection",
        Kind::Int { min: 1, max: 5 },
        Preset::Value("5"),
        "How many requests to a broker may wait for their answers.",
    ),
    key(
        "retries",
        Kind::Int {
            min: 1,
            max: INT_MAX,
        },
        Preset::Value("2147483647"),
        "How often a request is repeated within delivery.timeout.ms.",
    ),
    key(
        "retry.backoff.ms",
        BACK_OFF_MS,
        Preset::Value("100"),
        "The pause before a request is repeated; it grows.",
    ),
    key(
        "retry.backoff.max.ms",
        BACK_OFF_MS,
        Preset::Value("1000"),
        "How far retry.backoff.ms may grow.",
    ),
    key(
        "reconnect.backoff.ms",
        RECONNECT_MS,
        Preset::Value("50"),
        "The pause before a broker is connected to again; it grows.",
    ),
    key(
        "reconnect.backoff.max.ms",
        RECONNECT_MS,
        Preset::Value("1000"),
        "How far reconnect.backoff.ms may grow.",
    ),
];

const CODEC_LEVEL: &str = "the codec's usual level is taken; remove it";
const TRANSACTIONS: &str = "exactly-once has its own key; see exactly.once.mode";
const PARTITIONER: &str =
    "records go by Kafka's hash of their keys; the kafka sink's partition says otherwise";

/// Producer keys that cannot be taken, and what to do instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("transactional.id", TRANSACTIONS),
    ("transaction.timeout.ms", TRANSACTIONS),
    ("transaction.two.phase.commit.enable", TRANSACTIONS),
    ("partitioner.class", PARTITIONER),
    ("partitioner.ignore.keys", PARTITIONER),
    (
        "key.serializer",
        "keys are written as the kafka sink's key.format says; remove it",
    ),
    (
        "value.serializer",
        "values are written as the kafka sink's value.format says; remove it",
    ),
    (
        "interceptor.classes",
        "Java classes are not loaded; remove it",
    ),
    (
        "max.block.ms",
        "a put waits for room until share.delivery.timeout.ms; remove it",
    ),
    ("compression.gzip.level", CODEC_LEVEL),
    ("compression.lz4.level", CODEC_LEVEL),
    ("compression.zstd.level", CODEC_LEVEL),
    (
        "metadata.max.idle.ms",
        "topics are forgotten by the client's own rule; remove it",
    ),
];

const NO_JMX: &str = "there is no JVM to report from";
const SYSTEM: &str = "the operating system sizes the socket's buffers";
const STICKY: &str = "records without a key stay with a partition for some milliseconds";

pub(super) const INERT: &[Inert] = &[
    inert("partitioner.adaptive.partitioning.enable", STICKY),
    inert("partitioner.availability.timeout.ms", STICKY),
    inert("client.dns.lookup", "all addresses of a name are tried"),
    inert(
        "socket.connection.setup.timeout.max.ms",
        "connecting is tried again by reconnect.backoff.ms",
    ),
    inert(
        "metadata.recovery.",
        "the client goes back to bootstrap.servers when no broker answers",
    ),
    inert(
        "config.providers",
        "they are the worker's: config.providers",
    ),
    inert("send.buffer.bytes", SYSTEM),
    inert("receive.buffer.bytes", SYSTEM),
    inert("auto.include.jmx.reporter", NO_JMX),
    inert("enable.metrics.push", NO_JMX),
    inert("metric.reporters", NO_JMX),
    inert("metrics.", NO_JMX),
];
