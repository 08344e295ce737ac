//! The worker's configuration: Kafka Connect's names, as far as sinks need
//! them.

use std::time::Duration;

use tracing::level_filters::LevelFilter;

use crate::kafka::client_config::{self, ClientConfig};

use super::definition::{Faults, Key, Kind, Preset, Reader};
use super::known_keys::{self, KnownKeys};
use super::layers::{Layer, Settings};
use super::listeners::Listener;
use super::metrics::MetricsConfig;
use super::notes::Notes;
use super::overrides::{self, ADMIN, CONSUMER, CONSUMER_KEYS, OverridePolicy, Rules};
use super::plugins::Plugins;
use super::producer::{self, PRODUCER, PRODUCER_KEYS, ProducerConfig};
use super::providers::Providers;
use super::traces::TraceConfig;
use super::{connector, metrics, otlp, providers, secrets, traces};
use crate::converters::part::Part;

const POLICY: &str = "connector.client.config.override.policy";
pub const GROUP_PROTOCOL: &str = "consumer.group.protocol";
const MAX_POLL_RECORDS: &str = "consumer.max.poll.records";
const LISTENERS: &str = "listeners";
const LOG_LEVELS: &str = "log.levels";
const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];
const REST_EXTENSIONS: &str = "rest.extension.classes";
pub const FLUSH_INTERVAL: &str = "offset.flush.interval.ms";
const CLIENT_ID: &str = "sluice";

/// A worker's own keys; those of its Kafka clients are in
/// [`client_config::KEYS`].
pub const KEYS: &[Key] = &[
    Key {
        name: "key.converter",
        kind: Kind::Text,
        preset: Preset::Unset,
        doc: "The converter of keys for connectors that name none.",
    },
    Key {
        name: "value.converter",
        kind: Kind::Text,
        preset: Preset::Unset,
        doc: "The converter of values for connectors that name none.",
    },
    Key {
        name: "header.converter",
        kind: Kind::Text,
        preset: Preset::Value("org.apache.kafka.connect.storage.SimpleHeaderConverter"),
        doc: "The converter of headers for connectors that name none.",
    },
    Key {
        name: GROUP_PROTOCOL,
        kind: Kind::Choice(&["consumer", "share"]),
        preset: Preset::Value("consumer"),
        doc: "How connectors read that do not say it themselves; share is a share group (KIP-1302).",
    },
    Key {
        name: MAX_POLL_RECORDS,
        kind: Kind::Int {
            min: 1,
            max: 100_000,
        },
        preset: Preset::Unset,
        doc: "max.put.records of connectors that do not say it themselves.",
    },
    Key {
        name: POLICY,
        kind: Kind::Text,
        preset: Preset::Value("All"),
        doc: "Which consumer.override.* and producer.override.* connectors may set: All, None, Principal.",
    },
    Key {
        name: FLUSH_INTERVAL,
        kind: Kind::DurationMs,
        preset: Preset::Value("500"),
        doc: "How long records wait in a sink that buffers before it is flushed while more keep coming; without more it is flushed at once. At most a third of their locks' time is taken. Connect's default is 60000.",
    },
    Key {
        name: "task.shutdown.graceful.timeout.ms",
        kind: Kind::DurationMs,
        preset: Preset::Value("5000"),
        doc: "How long a stopping worker finishes what it has begun.",
    },
    Key {
        name: LISTENERS,
        kind: Kind::List,
        preset: Preset::Value("http://:8083"),
        doc: "Where REST and metrics are served, http only; a port of 0 takes any that is free, an empty list turns both off.",
    },
    Key {
        name: REST_EXTENSIONS,
        kind: Kind::List,
        preset: Preset::Unset,
        doc: "Refused: they are Java classes. To keep others out, listen on 127.0.0.1 behind a proxy.",
    },
    Key {
        name: "log.level",
        kind: Kind::Choice(LEVELS),
        preset: Preset::Value("info"),
        doc: "What is logged to standard error, of all that log.levels says nothing of.",
    },
    Key {
        name: LOG_LEVELS,
        kind: Kind::List,
        preset: Preset::Unset,
        doc: "Levels of single modules and connectors: sluice::rest=warn,connector.orders=debug. Modules are in the log lines, as target; PUT /admin/loggers changes them at run time.",
    },
    Key {
        name: "log.format",
        kind: Kind::Choice(&["text", "json"]),
        preset: Preset::Value("text"),
        doc: "Lines of text, or JSON objects, one a line.",
    },
    Key {
        name: "status.log.interval.ms",
        kind: Kind::DurationMs,
        preset: Preset::Value("60000"),
        doc: "How often each connector's status is logged; 0 turns it off.",
    },
    Key {
        name: providers::PROVIDERS,
        kind: Kind::List,
        preset: Preset::Unset,
        doc: "Names of config providers; values of the worker and of connectors then refer to what these know by `${NAME:path:key}`.",
    },
];

/// Keys that OpenTelemetry has variables of.
pub(super) const OPENTELEMETRY: [&[Key]; 3] = [otlp::KEYS, traces::KEYS, metrics::KEYS];

/// A configuration after reading: what it says, what is wrong with it, what
/// is worth a word. It may be used only when nothing is wrong.
#[derive(Clone, Debug)]
pub struct Checked<T> {
    pub config: T,
    pub settings: Settings,
    pub known: KnownKeys,
    pub faults: Faults,
    pub notes: Notes,
}

impl<T> Checked<T> {
    /// The effective settings as they may be shown: key, value, origin.
    pub fn shown(&self) -> impl Iterator<Item = (&str, String, &str)> {
        self.settings.properties().keys().filter_map(|key| {
            let value = secrets::setting(&self.settings, key, self.known.find(key))?;
            Some((key.as_str(), value.into_owned(), self.settings.origin(key)))
        })
    }
}

/// How a connector's records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    Consumer,
    Share,
}

impl GroupProtocol {
    pub(super) fn of(choice: &str) -> Self {
        match choice {
            "share" => Self::Share,
            _ => Self::Consumer,
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub level: LevelFilter,
    /// Of single loggers.
    pub levels: Vec<(String, LevelFilter)>,
    pub format: LogFormat,
    /// `None`: no status lines.
    pub status_interval: Option<Duration>,
}

impl LogConfig {
    fn read(reader: &mut Reader<'_>) -> Self {
        let interval = reader.duration("status.log.interval.ms");
        Self {
            level: level(reader.choice("log.level")).unwrap_or(LevelFilter::INFO),
            levels: levels(reader),
            format: match reader.choice("log.format") {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            status_interval: (!interval.is_zero()).then_some(interval),
        }
    }
}

/// `off` too, which the whole log must not be.
fn level(name: &str) -> Option<LevelFilter> {
    let is_known = name == "off" || LEVELS.contains(&name);
    is_known.then(|| name.parse().ok()).flatten()
}

fn levels(reader: &mut Reader<'_>) -> Vec<(String, LevelFilter)> {
    let mut levels = Vec::new();
    for item in reader.list(LOG_LEVELS) {
        let read = item.split_once('=').and_then(|(logger, name)| {
            let name = name.trim().to_ascii_lowercase();
            Some((logger.trim().to_owned(), level(&name)?))
        });
        match read {
            Some((logger, level)) if !logger.is_empty() => levels.push((logger, level)),
            _ => reader.fault(
                LOG_LEVELS,
                format!(
                    "{item:?} is no MODULE=LEVEL; levels are {}, off",
                    LEVELS.join(", ")
                ),
            ),
        }
    }
    levels
}

#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The worker's own client, for what is nobody's but the cluster's.
    pub admin: ClientConfig,
    pub group_protocol: GroupProtocol,
    pub override_policy: OverridePolicy,
    /// `offset.flush.interval.ms`.
    pub flush_interval: Duration,
    pub shutdown_timeout: Duration,
    /// Where REST listens; nowhere if empty.
    pub listeners: Vec<Listener>,
    pub log: LogConfig,
    /// What values may refer to, the connectors' too.
    pub providers: Providers,
    /// `None`: nothing is traced.
    pub traces: Option<TraceConfig>,
    /// `None`: metrics are not pushed.
    pub pushed_metrics: Option<MetricsConfig>,
    settings: Settings,
}

impl WorkerConfig {
    /// The lowest layer.
    #[must_use]
    pub fn defaults() -> Layer {
        let mut layer = Layer::defaults(KEYS);
        layer.or(Layer::defaults(client_config::KEYS));
        for keys in OPENTELEMETRY {
            layer.or(Layer::defaults(keys));
        }
        layer
    }

    #[must_use]
    pub fn read(settings: Settings, plugins: &Plugins) -> Checked<Self> {
        let (mut faults, mut notes) = (Faults::default(), Notes::default());
        let known = known_keys(&settings, plugins);
        for (key, _) in settings.given() {
            let is_clients = key.starts_with(CONSUMER) || key.starts_with(PRODUCER);
            if !is_clients && client_config::refusal(key).is_none() {
                known.judge(key, &mut faults, &mut notes);
            }
        }
        judge_clients(&settings, &known, &mut faults, &mut notes);
        check_converters(&settings, plugins, &mut faults);
        let admin = read_clients(&settings, &mut faults);
        let traces = TraceConfig::read(settings.properties(), &mut faults);
        let pushed_metrics = MetricsConfig::read(settings.properties(), &mut faults);
        let mut reader = Reader::new(settings.properties(), "", KEYS, &mut faults);
        let config = Self {
            admin,
            group_protocol: GroupProtocol::of(reader.choice(GROUP_PROTOCOL)),
            override_policy: read_policy(&mut reader),
            flush_interval: reader.duration(FLUSH_INTERVAL),
            shutdown_timeout: reader.duration("task.shutdown.graceful.timeout.ms"),
            listeners: read_listeners(&mut reader),
            log: LogConfig::read(&mut reader),
            providers: Providers::default(),
            traces,
            pushed_metrics,
            settings: settings.clone(),
        };
        let _ = reader.optional_int(MAX_POLL_RECORDS);
        if !reader.list(REST_EXTENSIONS).is_empty() {
            reader.fault(REST_EXTENSIONS, "extensions are Java classes and do not run here; remove it, and to keep others out listen on 127.0.0.1 behind a proxy");
        }
        Checked {
            config,
            settings,
            known,
            faults,
            notes,
        }
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What a connector has from its worker when it does not say it itself:
    /// converters with their keys, as one, and the size of puts.
    #[must_use]
    pub fn inherited(&self, says: impl Fn(&str) -> bool) -> Layer {
        let mut layer = Layer::default();
        let mut inherit = |from: &str, to: &str| {
            if let Some(value) = self.settings.as_written(from) {
                let origin = match self.settings.origin(from) {
                    super::layers::DEFAULT => super::layers::DEFAULT.to_owned(),
                    origin => format!("worker, {origin}"),
                };
                layer.put(to, value, origin);
            }
        };
        for part in Part::ALL.into_iter().filter(|part| !says(part.class_key())) {
            inherit(part.class_key(), part.class_key());
            for key in self.settings.below(part.prefix()).properties().keys() {
                inherit(key, key);
            }
        }
        inherit(MAX_POLL_RECORDS, connector::MAX_PUT_RECORDS);
        layer
    }
}

fn known_keys(settings: &Settings, plugins: &Plugins) -> KnownKeys {
    let known = KnownKeys::new(known_keys::WORKER)
        .with("", KEYS)
        .with("", client_config::KEYS)
        .with("", otlp::KEYS)
        .with("", traces::KEYS)
        .with("", metrics::KEYS)
        .with(CONSUMER, client_config::KEYS)
        .with(CONSUMER, CONSUMER_KEYS)
        .with(PRODUCER, client_config::KEYS)
        .with(PRODUCER, PRODUCER_KEYS)
        .with(ADMIN, client_config::KEYS)
        .with_elsewhere(connector::KEYS, "a connector's");
    let known = providers::names(settings).fold(known, |known, name| {
        known.with(providers::prefix(name), providers::KEYS)
    });
    Part::ALL.into_iter().fold(known, |known, part| {
        let class = settings.get(part.class_key());
        let keys = class.and_then(|class| (plugins.converter_keys)(part, class));
        known.with(part.prefix(), keys.unwrap_or_default())
    })
}

/// `consumer.` and `producer.` keys; `consumer.group.protocol` and the like
/// are in the worker's own table.
fn judge_clients(settings: &Settings, known: &KnownKeys, faults: &mut Faults, notes: &mut Notes) {
    let all = OverridePolicy::All;
    Rules::of_consumers(CONSUMER, all, known).judge(settings, faults, notes);
    producer::rules(PRODUCER, all, known).judge(settings, faults, notes);
}

fn check_converters(settings: &Settings, plugins: &Plugins, faults: &mut Faults) {
    for part in Part::ALL {
        if let Some(class) = settings.get(part.class_key()) {
            (plugins.check_converter)(part, class, settings.properties(), faults);
        }
    }
}

/// The worker's client; and what connectors' clients begin with is looked at
/// here as well, so that its faults stand where their keys do.
fn read_clients(settings: &Settings, faults: &mut Faults) -> ClientConfig {
    let consumer = overrides::client_properties(settings, CONSUMER);
    let mut consumer_faults = Faults::default();
    ClientConfig::read(&consumer, CLIENT_ID, &mut consumer_faults);
    consumer.read(CONSUMER_KEYS, &mut consumer_faults, |reader| {
        let _ = (reader.int("fetch.min.bytes"), reader.int("fetch.max.bytes"));
        let _ = (
            reader.int("fetch.max.wait.ms"),
            reader.choice("share.acquire.mode"),
        );
    });
    let mut producer_faults = Faults::default();
    let producer = overrides::client_properties(settings, PRODUCER);
    ProducerConfig::of(&producer, CLIENT_ID, &mut producer_faults);
    let admin = overrides::client_properties(settings, ADMIN);
    let admin = ClientConfig::read(&admin, CLIENT_ID, faults);
    faults.absorb(consumer_faults);
    faults.absorb(producer_faults);
    admin
}

fn read_listeners(reader: &mut Reader<'_>) -> Vec<Listener> {
    let mut listeners = Vec::new();
    for text in reader.list(LISTENERS) {
        match Listener::parse(&text) {
            Ok(listener) => listeners.push(listener),
            Err(message) => reader.fault(LISTENERS, message),
        }
    }
    listeners
}

fn read_policy(reader: &mut Reader<'_>) -> OverridePolicy {
    let text = reader.text(POLICY);
    OverridePolicy::parse(&text).unwrap_or_else(|| {
        reader.fault(
            POLICY,
            format!("{text:?} is not one of All, None, Principal"),
        );
        OverridePolicy::All
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::{PLUGINS, layer};

    fn read(pairs: &[(&str, &str)]) -> Checked<WorkerConfig> {
        let settings = Settings::merge([WorkerConfig::defaults(), layer(pairs)]).unwrap();
        WorkerConfig::read(settings, &PLUGINS)
    }

    #[test]
    fn a_worker_needs_brokers_and_no_more() {
        let worker = read(&[("bootstrap.servers", "a:9092, b:9092")]);
        assert_eq!(worker.faults.to_string(), "");
        assert_eq!(worker.config.admin.bootstrap_servers, ["a:9092", "b:9092"]);
        assert_eq!(worker.config.admin.client_id, "sluice");
        assert_eq!(worker.config.flush_interval, Duration::from_millis(500));
        assert_eq!(worker.config.shutdown_timeout, Duration::from_secs(5));
        assert_eq!(worker.config.group_protocol, GroupProtocol::Consumer);
        assert_eq!(worker.config.listeners[0].to_string(), "http://:8083");
    }

    #[test]
    fn a_worker_without_brokers_is_told_every_way_to_get_one() {
        for nothing in [&[][..], &[("bootstrap.servers", " ")]] {
            let faults = read(nothing).faults;
            assert_eq!(faults.len(), 1, "{faults}");
            let text = faults.to_string();
            for part in [
                "bootstrap.servers: is required and not set",
                "SLUICE_BOOTSTRAP_SERVERS",
                "`sluice demo`",
                "--embedded-broker",
            ] {
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn levels_of_loggers_are_read_and_what_is_none_is_told() {
        let log = |levels| {
            let worker = read(&[("bootstrap.servers", "a:9092"), ("log.levels", levels)]);
            (worker.config.log.levels, worker.faults.to_string())
        };
        let (levels, faults) = log("sluice::rest = DEBUG, connector.a.b=off");
        assert_eq!(faults, "");
        let expected = [
            ("sluice::rest".to_owned(), LevelFilter::DEBUG),
            ("connector.a.b".to_owned(), LevelFilter::OFF),
        ];
        assert_eq!(levels, expected);
        for wrong in ["sluice::rest", "sluice::rest=loud", "=debug", "a=1"] {
            let (_, faults) = log(wrong);
            let told = format!("log.levels: {wrong:?} is no MODULE=LEVEL");
            assert!(faults.starts_with(&told), "{faults}");
        }
    }

    #[test]
    fn a_distributed_workers_file_is_taken_with_notes() {
        let worker = read(&[
            ("bootstrap.servers", "a:9092"),
            ("group.id", "connect"),
            ("config.storage.topic", "c"),
            ("offset.flush.interval.ms", "1"),
            ("plugin.path", "/p"),
            ("rest.advertised.host.name", "h"),
            ("consumer.max.poll.interval.ms", "1"),
        ]);
        assert_eq!(worker.faults.to_string(), "");
        assert_eq!(worker.notes.iter().count(), 5);
        assert_eq!(worker.config.flush_interval, Duration::from_millis(1));
    }

    #[test]
    fn a_fault_that_two_clients_share_is_told_once() {
        let worker = read(&[
            ("bootstrap.servers", "nonsense"),
            ("request.timeout.ms", "x"),
        ]);
        assert_eq!(
            worker.faults.to_string(),
            "bootstrap.servers: \"nonsense\" is not host:port\nrequest.timeout.ms: \"x\" is not a number of milliseconds"
        );
    }

    #[test]
    fn what_would_leave_rest_open_or_elsewhere_is_refused() {
        let worker = read(&[
            ("bootstrap.servers", "a:9092"),
            ("listeners", "http://a:1, https://b:2"),
            ("rest.extension.classes", "BasicAuth"),
        ]);
        let faults = worker.faults.to_string();
        assert!(faults.contains("listeners: \"https://b:2\""), "{faults}");
        assert!(faults.contains("rest.extension.classes: "), "{faults}");
        let off = read(&[("bootstrap.servers", "a:9092"), ("listeners", "")]);
        assert_eq!(off.faults.to_string(), "");
        assert!(off.config.listeners.is_empty());
    }

    #[test]
    fn a_connector_inherits_a_converter_with_its_keys_or_not_at_all() {
        let worker = read(&[
            ("bootstrap.servers", "a:9092"),
            ("value.converter", "json"),
            ("value.converter.schemas.enable", "false"),
            ("consumer.max.poll.records", "50"),
        ]);
        assert_eq!(worker.faults.to_string(), "");
        let all = worker.config.inherited(|_| false);
        assert_eq!(all.get("value.converter"), Some("json"));
        assert_eq!(all.get("value.converter.schemas.enable"), Some("false"));
        assert_eq!(all.get("max.put.records"), Some("50"));
        let own = worker.config.inherited(|key| key == "value.converter");
        assert!(!own.contains("value.converter"));
        assert!(!own.contains("value.converter.schemas.enable"));
    }

    #[test]
    fn a_connectors_key_in_the_worker_is_told_apart() {
        let worker = read(&[("bootstrap.servers", "a:9092"), ("errors.tolerance", "all")]);
        assert_eq!(
            worker.faults.to_string(),
            "errors.tolerance: is not known here; it is a connector's key"
        );
    }
}
