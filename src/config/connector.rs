//! A connector's configuration, typed.

use std::time::Duration;

use regex::Regex;

use crate::kafka::client_config;

use super::connector_keys::{
    DEAD_LETTER_MODE, DEAD_LETTER_TOPIC, LOCK_DURATION, LOCK_TIMEOUT, MAX_POLL_RECORDS,
};
pub use super::connector_keys::{GROUP_PROTOCOL, KEYS, MAX_PUT_RECORDS};
use super::definition::{Faults, Properties, Reader};
use super::known_keys::{self, KnownKeys};
use super::layers::{Layer, Settings};
use super::notes::Notes;
use super::overrides::{self, CONSUMER_KEYS, ConsumerConfig, OVERRIDE};
use super::plugins::Plugins;
use super::worker::{self, Checked, GroupProtocol, WorkerConfig};
use crate::converters::part::Part;

mod limits;

/// Which topics are read.
#[derive(Clone, Debug)]
pub enum Topics {
    Named(Vec<String>),
    /// Of the whole name.
    Matching(Regex),
}

/// The converter of one part of a record.
#[derive(Clone, Debug)]
pub struct ConverterConfig {
    pub part: Part,
    pub class: String,
    settings: Settings,
}

impl ConverterConfig {
    /// The converter's keys, with the part's prefix.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.settings.properties()
    }
}

/// What becomes of records that fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorsConfig {
    /// `errors.tolerance=all`.
    pub tolerates: bool,
    /// How long a put is tried again; `None` is without end.
    pub retry_timeout: Option<Duration>,
    pub retry_delay_max: Duration,
    pub log: bool,
    pub log_messages: bool,
}

/// Where a new share group begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetReset {
    /// The value for the group, as Kafka takes it.
    pub strategy: String,
    /// Somebody gave it, so it is meant.
    pub is_given: bool,
}

/// When a record counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcknowledgeAfter {
    Put,
    Flush,
}

/// The share group, and how much of it is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConfig {
    pub group_id: String,
    /// `None`: fits itself to what the tasks deliver.
    pub max_in_flight_records: Option<usize>,
    pub max_in_flight_bytes: usize,
    /// The next three are set on the group when they are given.
    pub partition_max_record_locks: Option<i64>,
    pub delivery_count_limit: Option<i64>,
    pub record_lock_duration: Option<Duration>,
    pub auto_offset_reset: OffsetReset,
    pub delivery_timeout: Duration,
    /// `None`: as the sink needs it.
    pub acknowledge_after: Option<AcknowledgeAfter>,
}

#[derive(Clone, Debug)]
pub struct ConnectorConfig {
    pub name: String,
    pub class: String,
    pub tasks_max: usize,
    pub topics: Topics,
    pub key_converter: ConverterConfig,
    pub value_converter: ConverterConfig,
    pub header_converter: ConverterConfig,
    pub max_put_records: usize,
    pub errors: ErrorsConfig,
    pub share: ShareConfig,
    pub consumer: ConsumerConfig,
    settings: Settings,
}

impl ConnectorConfig {
    /// Reads what the layers give, the lowest first, over the worker's
    /// defaults and the tables'.
    pub fn read(
        layers: Vec<Layer>,
        worker: &WorkerConfig,
        plugins: &Plugins,
    ) -> Result<Checked<Self>, config::ConfigError> {
        let says = |key: &str| layers.iter().any(|layer| layer.contains(key));
        let inherited = worker.inherited(says);
        let strays: Vec<Part> = Part::ALL
            .into_iter()
            .filter(|part| !says(part.class_key()))
            .collect();
        let given = Settings::merge(layers)?;
        let lower = [Layer::defaults(KEYS), inherited];
        let mut settings = Settings::merge(lower.into_iter().chain([given.as_layer()]))?;
        if given.is_given(MAX_POLL_RECORDS) && !given.is_given(MAX_PUT_RECORDS) {
            settings.forget(MAX_PUT_RECORDS);
        }
        let mut reading = Reading {
            settings: &settings,
            worker,
            plugins,
            faults: Faults::default(),
            notes: Notes::default(),
        };
        let known = reading.judge_keys();
        reading.refuse_strays(&given, &strays);
        let config = reading.read();
        let (faults, notes) = (reading.faults, reading.notes);
        Ok(Checked {
            config,
            settings,
            known,
            faults,
            notes,
        })
    }

    /// All settings, for the sink to read its own.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.settings.properties()
    }
}

struct Reading<'a> {
    settings: &'a Settings,
    worker: &'a WorkerConfig,
    plugins: &'a Plugins,
    faults: Faults,
    notes: Notes,
}

impl Reading<'_> {
    fn class(&self, key: &str) -> &str {
        self.settings.get(key).unwrap_or_default().trim()
    }

    fn judge_keys(&mut self) -> KnownKeys {
        let sink = (self.plugins.sink_keys)(self.class("connector.class"));
        let mut known = KnownKeys::new(known_keys::CONNECTOR)
            .with("", KEYS)
            .with("", sink.unwrap_or_default())
            .with(OVERRIDE, client_config::KEYS)
            .with(OVERRIDE, CONSUMER_KEYS)
            .with_elsewhere(worker::KEYS, "a worker's");
        for part in Part::ALL {
            let keys = (self.plugins.converter_keys)(part, self.class(part.class_key()));
            known = known.with(part.prefix(), keys.unwrap_or_default());
        }
        for (key, _) in self.settings.given() {
            if !self.is_judged_elsewhere(key, sink.is_none()) {
                known.judge(key, &mut self.faults, &mut self.notes);
            }
        }
        let policy = self.worker.override_policy;
        overrides::judge(
            self.settings,
            OVERRIDE,
            policy,
            &known,
            &mut self.faults,
            &mut self.notes,
        );
        known
    }

    /// Keys that the table of a plugin would know if there were one, and keys
    /// with rules of their own.
    fn is_judged_elsewhere(&mut self, key: &str, sink_is_unknown: bool) -> bool {
        if let Some(name) = key.strip_prefix("admin.override.") {
            self.faults.add(
                key,
                format!("is not taken: there is one client for all; use {OVERRIDE}{name}"),
            );
            return true;
        }
        let converter = Part::ALL
            .into_iter()
            .find(|part| key.starts_with(part.prefix()));
        if let Some(part) = converter {
            return (self.plugins.converter_keys)(part, self.class(part.class_key())).is_none();
        }
        let chained = ["transforms", "predicates"].into_iter().any(|chain| {
            let rest = key
                .strip_prefix(chain)
                .and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| self.is_listed(chain, rest))
        });
        let is_own = KEYS.iter().any(|own| own.name == key)
            || known_keys::find_inert(known_keys::CONNECTOR, key).is_some();
        chained || key.starts_with(OVERRIDE) || (sink_is_unknown && !is_own)
    }

    /// Whether `transforms.NAME.rest` belongs to a NAME in `transforms`.
    fn is_listed(&self, chain: &str, rest: &str) -> bool {
        let listed = self.class(chain);
        listed.split(',').map(str::trim).any(|name| {
            rest.strip_prefix(name)
                .is_some_and(|tail| tail.starts_with('.'))
        })
    }

    /// A converter's keys without the converter go nowhere: Connect drops
    /// them without a word.
    fn refuse_strays(&mut self, given: &Settings, strays: &[Part]) {
        for part in strays {
            let inert = format!("{}.plugin.version", part.class_key());
            for key in given.below(part.prefix()).properties().keys() {
                if *key != inert {
                    self.faults.add(key, format!("has no effect without {} in the same connector; the worker's converter has the worker's keys", part.class_key()));
                }
            }
        }
    }

    fn read(&mut self) -> ConnectorConfig {
        self.check_plugins();
        let name = self.name();
        let topics = self.topics();
        self.check_group_protocol();
        self.refuse_what_is_to_come();
        let consumer = ConsumerConfig::read(
            self.worker.settings(),
            self.settings,
            &format!("connector-consumer-{name}"),
            &mut self.faults,
        );
        let share = self.share(&name);
        let max_put_records = self.aliased(MAX_PUT_RECORDS, MAX_POLL_RECORDS).unwrap_or(1);
        let errors = self.errors();
        let mut reader = self.reader();
        let class = reader.text("connector.class");
        let tasks_max = limits::count(reader.int("tasks.max"));
        ConnectorConfig {
            name,
            class,
            tasks_max,
            topics,
            key_converter: self.converter(Part::Key),
            value_converter: self.converter(Part::Value),
            header_converter: self.converter(Part::Header),
            max_put_records: limits::count(max_put_records),
            errors,
            share,
            consumer,
            settings: self.settings.clone(),
        }
    }

    fn reader(&mut self) -> Reader<'_> {
        Reader::new(self.settings.properties(), "", KEYS, &mut self.faults)
    }

    /// Plugins look at their own values. An unknown class is theirs to tell.
    fn check_plugins(&mut self) {
        let properties = self.settings.properties();
        if let Some(class) = self.settings.get("connector.class") {
            (self.plugins.check_sink)(class.trim(), properties, &mut self.faults);
        }
        for part in Part::ALL {
            match self.settings.get(part.class_key()) {
                Some(class) => {
                    (self.plugins.check_converter)(
                        part,
                        class.trim(),
                        properties,
                        &mut self.faults,
                    );
                }
                None => self.faults.add(
                    part.class_key(),
                    "is required: set it here, or in the worker for all connectors",
                ),
            }
        }
    }

    fn name(&mut self) -> String {
        let name = self.reader().text("name");
        let is_plain =
            |it: char| it.is_ascii_graphic() && !matches!(it, '/' | '\\' | '?' | '#' | '%');
        if !name.chars().all(is_plain) {
            self.faults.add("name", format!("{name:?} has characters that a group or an address cannot have; use letters, digits, -, _ and ."));
        }
        name
    }

    fn topics(&mut self) -> Topics {
        let mut reader = self.reader();
        let mut named = reader.list("topics");
        let pattern = reader
            .optional_text("topics.regex")
            .filter(|it| !it.is_empty());
        if let Some(topic) = named.iter().find(|topic| !limits::is_topic(topic)) {
            let message = format!(
                "{topic:?} is no topic's name; it has up to 249 letters, digits, '.', '_' and '-'"
            );
            reader.fault("topics", message);
        }
        named.sort();
        named.dedup();
        match pattern {
            None if named.is_empty() => reader.fault("topics", "is required and not set (or topics.regex)"),
            Some(_) if !named.is_empty() => reader.fault("topics.regex", "excludes topics; set one of them"),
            None => {}
            // Connect's patterns are of the whole name.
            Some(pattern) => match Regex::new(&format!("^(?:{pattern})$")) {
                Ok(pattern) => return Topics::Matching(pattern),
                Err(_) => reader.fault("topics.regex", "is not a regular expression that is understood here; look-around and back-references are not"),
            },
        }
        Topics::Named(named)
    }

    fn check_group_protocol(&mut self) {
        let worker = self.worker.group_protocol;
        let is_given = self.settings.is_given(GROUP_PROTOCOL);
        let mut reader = self.reader();
        let (protocol, origin) = match reader.optional_choice(GROUP_PROTOCOL) {
            Some(choice) => (GroupProtocol::of(choice), "consumer"),
            // It was given and is none of the choices, which is fault enough.
            None if is_given => return,
            None => (worker, "consumer in the worker"),
        };
        if protocol != GroupProtocol::Share {
            reader.fault(GROUP_PROTOCOL, format!("is {origin}: reading as a consumer group is still to come; set {GROUP_PROTOCOL}=share here, or {}=share in the worker", worker::GROUP_PROTOCOL));
        }
    }

    /// Settings whose feature is not there yet are refused, so that nobody
    /// counts on them.
    fn refuse_what_is_to_come(&mut self) {
        let mut reader = self.reader();
        for chain in ["transforms", "predicates"] {
            if !reader.list(chain).is_empty() {
                reader.fault(chain, "is still to come; remove it and its keys");
            }
        }
        for (name, off) in [
            ("share.retriable", "hold"),
            ("share.order", "none"),
            ("exactly.once.mode", "off"),
        ] {
            let choice = reader.choice(name);
            if choice != off {
                reader.fault(
                    name,
                    format!("{choice} is still to come; set it to {off} or remove it"),
                );
            }
        }
        if reader.optional_duration("share.park.after.ms").is_some() {
            reader.fault("share.park.after.ms", "parking is still to come; remove it");
        }
        self.check_dead_letters();
    }

    /// Without a mode, a topic's name means the broker's dead letters.
    fn check_dead_letters(&mut self) {
        let mut reader = self.reader();
        let topic = reader
            .optional_text(DEAD_LETTER_TOPIC)
            .filter(|it| !it.is_empty());
        let mode = reader.optional_choice(DEAD_LETTER_MODE);
        match (mode, topic) {
            (Some(mode @ ("broker" | "sluice")), _) => reader.fault(DEAD_LETTER_MODE, format!("{mode} is still to come; set it to none: records that are tolerated are then dropped and logged")),
            (Some(_), Some(_)) => self.notes.no_effect(DEAD_LETTER_TOPIC, "errors.deadletterqueue.mode is none"),
            (None, Some(_)) => reader.fault(DEAD_LETTER_TOPIC, "dead letters to a topic are still to come; remove it, or set errors.deadletterqueue.mode=none: records that are tolerated are then dropped and logged"),
            (_, None) => {}
        }
    }

    fn share(&mut self, name: &str) -> ShareConfig {
        let lock_ms = self.aliased(LOCK_DURATION, LOCK_TIMEOUT);
        let auto_offset_reset = self.offset_reset();
        let mut reader = self.reader();
        let max_in_flight_bytes = reader.size("share.max.in.flight.bytes");
        if max_in_flight_bytes == 0 {
            reader.fault(
                "share.max.in.flight.bytes",
                "0 lets no record in; set at least 1",
            );
        }
        ShareConfig {
            group_id: reader
                .optional_text("share.group.id")
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| format!("share-{name}")),
            max_in_flight_records: reader
                .optional_int("share.max.in.flight.records")
                .map(limits::count),
            max_in_flight_bytes,
            partition_max_record_locks: reader.optional_int("share.partition.max.record.locks"),
            delivery_count_limit: reader.optional_int("share.delivery.count.limit"),
            record_lock_duration: lock_ms.map(limits::milliseconds),
            auto_offset_reset,
            delivery_timeout: limits::milliseconds(reader.int("share.delivery.timeout.ms")),
            acknowledge_after: reader
                .optional_choice("share.acknowledge.after")
                .map(|choice| match choice {
                    "flush" => AcknowledgeAfter::Flush,
                    _ => AcknowledgeAfter::Put,
                }),
        }
    }

    fn offset_reset(&mut self) -> OffsetReset {
        let name = "share.auto.offset.reset";
        let is_given = self.settings.is_given(name);
        let mut reader = self.reader();
        let strategy = reader.text(name);
        if !limits::is_offset_reset(&strategy) {
            let message = format!(
                "{strategy:?} is not one of earliest, latest, by_duration:PT1H (or another ISO 8601 duration)"
            );
            reader.fault(name, message);
        }
        OffsetReset { strategy, is_given }
    }

    fn errors(&mut self) -> ErrorsConfig {
        let mut reader = self.reader();
        ErrorsConfig {
            tolerates: reader.choice("errors.tolerance") == "all",
            retry_timeout: reader
                .optional_int("errors.retry.timeout")
                .filter(|timeout| *timeout >= 0)
                .map(limits::milliseconds),
            retry_delay_max: reader.duration("errors.retry.delay.max.ms"),
            log: reader.boolean("errors.log.enable"),
            log_messages: reader.boolean("errors.log.include.messages"),
        }
    }

    /// A number with two names. Faults name the one that was used.
    fn aliased(&mut self, name: &'static str, alias: &'static str) -> Option<i64> {
        let both = self.settings.is_given(name) && self.settings.is_given(alias);
        if both {
            self.faults.add(
                alias,
                format!("is another name of {name}, which is set too; remove one of them"),
            );
            return None;
        }
        if self.settings.get(alias).is_some() {
            self.notes.add(alias, format!("is taken as {name}"));
            return self.reader().optional_int(alias);
        }
        self.reader().optional_int(name)
    }

    fn converter(&self, part: Part) -> ConverterConfig {
        ConverterConfig {
            part,
            class: self.class(part.class_key()).to_owned(),
            settings: self.settings.below(part.prefix()),
        }
    }
}

#[cfg(test)]
mod tests;
