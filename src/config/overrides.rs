//! Kafka client keys below a prefix: the worker's `consumer.`, `producer.` and
//! `admin.`, a connector's `consumer.override.` and `producer.override.`.

use std::time::Duration;

use crate::kafka::client_config::{self, ClientConfig};

use super::client_properties::ClientProperties;
use super::definition::{Faults, Key, Kind, Preset};
use super::known_keys::{Inert, KnownKeys, find_inert};
use super::layers::Settings;
use super::notes::Notes;

/// What connectors may override begins with this.
pub const OVERRIDE: &str = "consumer.override.";
/// What the worker gives to all its connectors' consumers.
pub const CONSUMER: &str = "consumer.";
pub const ADMIN: &str = "admin.";

/// Keys of a share consumer that are taken, beside those of every client.
pub const CONSUMER_KEYS: &[Key] = &[
    Key {
        name: "fetch.min.bytes",
        kind: Kind::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        preset: Preset::Value("1"),
        doc: "How many bytes the broker waits for before it answers.",
    },
    Key {
        name: "fetch.max.bytes",
        kind: Kind::Int {
            min: 1,
            max: i32::MAX as i64,
        },
        preset: Preset::Value("52428800"),
        doc: "At most so many bytes in an answer; a larger record still comes.",
    },
    Key {
        name: "fetch.max.wait.ms",
        kind: Kind::Int {
            min: 0,
            max: i32::MAX as i64,
        },
        preset: Preset::Value("500"),
        doc: "How long the broker waits for fetch.min.bytes when the worker is idle; at most an eighth of the worker's task.shutdown.graceful.timeout.ms, as a stop cannot call a fetch back, and five sixths of request.timeout.ms.",
    },
    Key {
        name: "share.acquire.mode",
        kind: Kind::Choice(&["batch_optimized", "record_limit"]),
        preset: Preset::Value("batch_optimized"),
        doc: "Whether the broker may exceed the number of records asked for by whole batches.",
    },
    Key {
        name: "client.rack",
        kind: Kind::Text,
        preset: Preset::Unset,
        doc: "Where the worker stands, for brokers that place by rack.",
    },
];

/// Keys that a share consumer refuses, and what to use instead.
pub(super) const REFUSED: &[(&str, &str)] = &[
    (
        "auto.offset.reset",
        "a share group has it on the broker; use share.auto.offset.reset",
    ),
    (
        "enable.auto.commit",
        "records are acknowledged one by one; remove it",
    ),
    (
        "group.instance.id",
        "share groups have no static members; remove it",
    ),
    (
        "isolation.level",
        "a share group has it on the broker; set share.isolation.level on the group",
    ),
    (
        "partition.assignment.strategy",
        "the broker assigns the partitions of a share group; remove it",
    ),
    (
        "group.remote.assignor",
        "the broker assigns the partitions of a share group; remove it",
    ),
    (
        "interceptor.classes",
        "Java classes are not loaded; remove it",
    ),
    (
        "session.timeout.ms",
        "a share group has it on the broker; set share.session.timeout.ms on the group",
    ),
    (
        "heartbeat.interval.ms",
        "a share group has it on the broker; set share.heartbeat.interval.ms on the group",
    ),
    (
        "group.id",
        "the share group has its own key; use share.group.id",
    ),
    (
        "key.deserializer",
        "records are converted; use key.converter",
    ),
    (
        "value.deserializer",
        "records are converted; use value.converter",
    ),
    (
        "share.acknowledgement.mode",
        "records are always acknowledged one by one; remove it",
    ),
];

const ONE_BY_ONE: &str = "records are acknowledged one by one";
const NO_JMX: &str = "there is no JVM to report from";
const OWN_BACK_OFF: &str = "requests are tried again by the client's own back-off";
const SYSTEM: &str = "the operating system sizes the socket's buffers";

pub(super) const INERT: &[Inert] = &[
    Inert {
        name: "auto.commit.interval.ms",
        reason: ONE_BY_ONE,
    },
    Inert {
        name: "max.poll.interval.ms",
        reason: "a slow sink keeps its locks by renewal; see share.delivery.timeout.ms",
    },
    Inert {
        name: "max.partition.fetch.bytes",
        reason: "a share fetch has one limit; see fetch.max.bytes",
    },
    Inert {
        name: "check.crcs",
        reason: "checksums are always checked",
    },
    Inert {
        name: "exclude.internal.topics",
        reason: "topics are named by topics or topics.regex",
    },
    Inert {
        name: "allow.auto.create.topics",
        reason: "topics are never created by reading",
    },
    Inert {
        name: "default.api.timeout.ms",
        reason: "request.timeout.ms bounds each request",
    },
    Inert {
        name: "client.dns.lookup",
        reason: "all addresses of a name are tried",
    },
    Inert {
        name: "config.providers",
        reason: "they are the worker's: config.providers",
    },
    Inert {
        name: "retries",
        reason: OWN_BACK_OFF,
    },
    Inert {
        name: "retry.backoff.",
        reason: OWN_BACK_OFF,
    },
    Inert {
        name: "reconnect.backoff.",
        reason: OWN_BACK_OFF,
    },
    Inert {
        name: "socket.connection.setup.timeout.max.ms",
        reason: OWN_BACK_OFF,
    },
    Inert {
        name: "metadata.recovery.",
        reason: "the client goes back to bootstrap.servers when no broker answers",
    },
    Inert {
        name: "send.buffer.bytes",
        reason: SYSTEM,
    },
    Inert {
        name: "receive.buffer.bytes",
        reason: SYSTEM,
    },
    Inert {
        name: "auto.include.jmx.reporter",
        reason: NO_JMX,
    },
    Inert {
        name: "enable.metrics.push",
        reason: NO_JMX,
    },
    Inert {
        name: "metric.reporters",
        reason: NO_JMX,
    },
    Inert {
        name: "metrics.",
        reason: NO_JMX,
    },
];

/// Which client keys connectors may override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverridePolicy {
    All,
    None,
    Principal,
}

impl OverridePolicy {
    /// By Connect's short name, or its class.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.rsplit('.').next().unwrap_or_default();
        let name = name
            .strip_suffix("ConnectorClientConfigOverridePolicy")
            .unwrap_or(name);
        match name {
            "All" => Some(Self::All),
            "None" => Some(Self::None),
            "Principal" => Some(Self::Principal),
            _ => None,
        }
    }

    fn allows(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Principal => {
                ["sasl.jaas.config", "sasl.mechanism", "security.protocol"].contains(&name)
            }
        }
    }
}

/// What holds for the client keys below a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub prefix: &'static str,
    pub policy: OverridePolicy,
    /// The keys that are taken, and all others of the same place.
    pub known: &'a KnownKeys,
    /// Keys that cannot be taken, and what to use instead.
    pub refused: &'static [(&'static str, &'static str)],
    /// Keys that do nothing.
    pub inert: &'static [Inert],
}

impl<'a> Rules<'a> {
    /// Those of share consumers.
    #[must_use]
    pub const fn of_consumers(
        prefix: &'static str,
        policy: OverridePolicy,
        known: &'a KnownKeys,
    ) -> Self {
        Self {
            prefix,
            policy,
            known,
            refused: REFUSED,
            inert: INERT,
        }
    }

    /// Judges all given keys below the prefix; those of the table that holds
    /// the settings themselves are known before.
    pub fn judge(&self, settings: &Settings, faults: &mut Faults, notes: &mut Notes) {
        for (key, _) in settings.given() {
            let Some(name) = key.strip_prefix(self.prefix) else {
                continue;
            };
            let refused = self.refused.iter().find(|(refused, _)| *refused == name);
            if !self.policy.allows(name) {
                let policy = self.policy;
                faults.add(key, format!("is not allowed by the worker's connector.client.config.override.policy={policy:?}"));
            } else if let Some((_, reason)) = refused {
                faults.add(key, format!("is refused: {reason}"));
            } else if client_config::refusal(name).is_some() {
                // Its fault comes from reading the client's properties.
            } else if let Some(inert) = find_inert(self.inert, name) {
                notes.no_effect(key, inert.reason);
            } else {
                self.known.judge(key, faults, notes);
            }
        }
    }
}

/// Which records the broker hands out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    BatchOptimized,
    RecordLimit,
}

/// How a connector's share consumer reaches its cluster and fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    pub client: ClientConfig,
    pub fetch_min_bytes: i64,
    pub fetch_max_bytes: i64,
    pub fetch_max_wait: Duration,
    pub acquire_mode: AcquireMode,
    pub rack: Option<String>,
}

impl ConsumerConfig {
    /// From the worker's own properties, its `consumer.` ones, and the
    /// connector's `consumer.override.` ones.
    pub fn read(
        worker: &Settings,
        connector: &Settings,
        client_id: &str,
        faults: &mut Faults,
    ) -> Self {
        let properties =
            client_properties(worker, CONSUMER)
                .at_home(OVERRIDE)
                .with(connector, OVERRIDE, |_| true);
        let client = ClientConfig::read(&properties, client_id, faults);
        properties.read(CONSUMER_KEYS, faults, |reader| Self {
            client,
            fetch_min_bytes: reader.int("fetch.min.bytes"),
            fetch_max_bytes: reader.int("fetch.max.bytes"),
            fetch_max_wait: Duration::from_millis(reader.int("fetch.max.wait.ms").unsigned_abs()),
            acquire_mode: match reader.choice("share.acquire.mode") {
                "record_limit" => AcquireMode::RecordLimit,
                _ => AcquireMode::BatchOptimized,
            },
            rack: reader.optional_text("client.rack"),
        })
    }
}

/// The worker's own client properties with those below a prefix on top. The
/// worker's client.id is its own.
#[must_use]
pub fn client_properties(worker: &Settings, prefix: &str) -> ClientProperties {
    let is_shared = |name: &str| {
        let is_known = client_config::KEYS.iter().any(|key| key.name == name);
        (is_known && (name != "client.id" || prefix == ADMIN))
            || client_config::refusal(name).is_some()
    };
    ClientProperties::new("")
        .with(worker, "", is_shared)
        .with(worker, prefix, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::layers::Layer;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::merge([Layer::of(pairs.collect(), "file")]).unwrap()
    }

    fn judged(policy: OverridePolicy, name: &str) -> (String, String) {
        let (mut faults, mut notes) = (Faults::default(), Notes::default());
        let known = KnownKeys::new(&[])
            .with(OVERRIDE, CONSUMER_KEYS)
            .with(OVERRIDE, client_config::KEYS);
        let settings = settings(&[(&format!("{OVERRIDE}{name}"), "x")]);
        let rules = Rules::of_consumers(OVERRIDE, policy, &known);
        rules.judge(&settings, &mut faults, &mut notes);
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        (faults.to_string(), notes.join("\n"))
    }

    #[test]
    fn what_a_share_consumer_refuses_is_refused_with_the_way_out() {
        for (name, reason) in REFUSED {
            let (fault, _) = judged(OverridePolicy::All, name);
            assert_eq!(fault, format!("{OVERRIDE}{name}: is refused: {reason}"));
        }
    }

    #[test]
    fn what_does_nothing_is_listed_with_its_reason() {
        for inert in INERT {
            let (fault, note) = judged(OverridePolicy::All, inert.name);
            assert_eq!(fault, "");
            assert!(note.ends_with(inert.reason), "{note}");
        }
    }

    #[test]
    fn what_is_taken_needs_no_word_and_a_slip_gets_one() {
        for name in ["fetch.min.bytes", "share.acquire.mode", "sasl.jaas.config"] {
            assert_eq!(judged(OverridePolicy::All, name), Default::default());
        }
        assert_eq!(
            judged(OverridePolicy::All, "fetch.min.byte").0,
            "consumer.override.fetch.min.byte: is not a known key; did you mean consumer.override.fetch.min.bytes?"
        );
    }

    #[test]
    fn the_policy_decides_what_may_be_overridden() {
        use OverridePolicy::{All, None, Principal};
        for (policy, name, allowed) in [
            (All, "fetch.min.bytes", true),
            (None, "sasl.jaas.config", false),
            (Principal, "sasl.jaas.config", true),
            (Principal, "fetch.min.bytes", false),
        ] {
            assert_eq!(
                judged(policy, name).0.is_empty(),
                allowed,
                "{policy:?} {name}"
            );
        }
        let class = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy";
        assert_eq!(OverridePolicy::parse(class), Some(Principal));
        assert_eq!(OverridePolicy::parse("Allowlist"), Option::None);
    }

    #[test]
    fn the_narrowest_property_counts() {
        let worker = settings(&[
            ("bootstrap.servers", "a:1"),
            ("client.id", "worker"),
            ("request.timeout.ms", "1000"),
            ("consumer.request.timeout.ms", "2000"),
            ("consumer.fetch.max.wait.ms", "50"),
        ]);
        let connector = settings(&[("consumer.override.bootstrap.servers", "b:2,c:3")]);
        let mut faults = Faults::default();
        let consumer =
            ConsumerConfig::read(&worker, &connector, "connector-consumer-n", &mut faults);
        assert_eq!(faults.to_string(), "");
        assert_eq!(consumer.client.bootstrap_servers, ["b:2", "c:3"]);
        assert_eq!(consumer.client.client_id, "connector-consumer-n");
        assert_eq!(consumer.client.request_timeout, Duration::from_secs(2));
        assert_eq!(consumer.fetch_max_wait, Duration::from_millis(50));
        assert_eq!(consumer.acquire_mode, AcquireMode::BatchOptimized);
    }
}
