//! From settings to a connector's configuration, fault by fault.

use std::collections::BTreeMap;

use regex::Regex;
use sluice_actors::error_log::{ErrorLog, INCLUDE_MESSAGES};

use super::limits;
use super::parking::Surroundings;
use super::{
    ConnectorConfig, ConverterConfig, ErrorsConfig, FlushConfig, OffsetReset, ShareConfig, Topics,
};
use crate::config::connector_keys::{
    FLUSH_BYTES, FLUSH_RECORDS, GROUP_PROTOCOL, IN_FLIGHT_RECORDS, KEYS, LOCK_DURATION,
    LOCK_TIMEOUT, MAX_POLL_RECORDS, MAX_PUT_RECORDS,
};
use crate::config::definition::{Faults, Reader};
use crate::config::known_keys::{self, KnownKeys};
use crate::config::layers::Settings;
use crate::config::notes::Notes;
use crate::config::overrides::{CONSUMER_KEYS, ConsumerConfig, OVERRIDE, Rules};
use crate::config::plugins::Plugins;
use crate::config::producer::{self, PRODUCER_KEYS, PRODUCER_OVERRIDE, ProducerConfig};
use crate::config::worker::{self, GroupProtocol, WorkerConfig};
use crate::converters::part::Part;
use crate::kafka::client_config;
use crate::transforms::aliased::Aliased;

/// The settings of one connector while they are read.
pub(super) struct Reading<'a> {
    pub(super) settings: &'a Settings,
    pub(super) worker: &'a WorkerConfig,
    pub(super) plugins: &'a Plugins,
    pub(super) faults: Faults,
    pub(super) notes: Notes,
}

impl Reading<'_> {
    pub(super) fn class(&self, key: &str) -> &str {
        self.settings.get(key).unwrap_or_default().trim()
    }

    pub(super) fn judge_keys(&mut self) -> KnownKeys {
        let sink = (self.plugins.sink_keys)(self.class("connector.class"));
        let mut known = KnownKeys::new(known_keys::CONNECTOR)
            .with("", KEYS)
            .with("", sink.unwrap_or_default())
            .with(OVERRIDE, client_config::KEYS)
            .with(OVERRIDE, CONSUMER_KEYS)
            .with(PRODUCER_OVERRIDE, client_config::KEYS)
            .with(PRODUCER_OVERRIDE, PRODUCER_KEYS)
            .with_elsewhere(worker::KEYS, "a worker's");
        for part in Part::ALL {
            let keys = (self.plugins.converter_keys)(part, self.class(part.class_key()));
            known = known.with(part.prefix(), keys.unwrap_or_default());
        }
        known = self.know_aliased(known);
        for (key, _) in self.settings.given() {
            if !self.is_judged_elsewhere(key, sink.is_none()) {
                known.judge(key, &mut self.faults, &mut self.notes);
            }
        }
        self.judge_overrides(&known);
        known
    }

    fn judge_overrides(&mut self, known: &KnownKeys) {
        let policy = self.worker.override_policy;
        let (faults, notes) = (&mut self.faults, &mut self.notes);
        Rules::of_consumers(OVERRIDE, policy, known).judge(self.settings, faults, notes);
        producer::rules(PRODUCER_OVERRIDE, policy, known).judge(self.settings, faults, notes);
        let produces = (self.plugins.sink_produces)(self.class("connector.class"));
        if !produces && !self.writes_dead_letters() && !self.parks() {
            for key in self.settings.below(PRODUCER_OVERRIDE).properties().keys() {
                self.notes
                    .no_effect(key, "this connector writes nothing to Kafka");
            }
        }
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
        if Aliased::ALL.into_iter().any(|kind| kind.owns(key)) {
            return self.judge_aliased(key);
        }
        let is_own = KEYS.iter().any(|own| own.name == key)
            || known_keys::find_inert(known_keys::CONNECTOR, key).is_some();
        let is_clients = key.starts_with(OVERRIDE) || key.starts_with(PRODUCER_OVERRIDE);
        is_clients || (sink_is_unknown && !is_own)
    }

    /// A converter's keys without the converter go nowhere: Connect drops
    /// them without a word.
    pub(super) fn refuse_strays(&mut self, given: &Settings, strays: &[Part]) {
        for part in strays {
            let inert = format!("{}.plugin.version", part.class_key());
            for key in given.below(part.prefix()).properties().keys() {
                if *key != inert {
                    self.faults.add(key, format!("has no effect without {} in the same connector; the worker's converter has the worker's keys", part.class_key()));
                }
            }
        }
    }

    pub(super) fn read(&mut self) -> ConnectorConfig {
        let name = self.name();
        let topics = self.topics();
        let is_share_group = self.check_group_protocol();
        self.refuse_what_is_to_come();
        let consumer = ConsumerConfig::read(
            self.worker.settings(),
            self.settings,
            &format!("connector-consumer-{name}"),
            &mut self.faults,
        );
        let producer = self.producer(&name, &topics, &consumer);
        self.check_plugins(&producer);
        let share = self.share(&name);
        let max_put_records = self.aliased(MAX_PUT_RECORDS, MAX_POLL_RECORDS).unwrap_or(1);
        let flush = self.flush(&share);
        let errors = self.errors();
        let dead_letters = self.dead_letters(&name, &topics, &consumer, errors.tolerates);
        let parking = self.parking(&Surroundings {
            connector: &name,
            topics: &topics,
            consumer: &consumer,
            share: &share,
            errors: &errors,
            dead_letters: &dead_letters,
            is_share_group,
        });
        let transforms = self.transforms();
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
            transforms,
            max_put_records: limits::count(max_put_records),
            flush,
            errors,
            dead_letters,
            parking,
            share,
            consumer,
            producer,
            shown: BTreeMap::new(),
            settings: self.settings.clone(),
        }
    }

    fn producer(
        &mut self,
        name: &str,
        topics: &Topics,
        consumer: &ConsumerConfig,
    ) -> ProducerConfig {
        let client_id = format!("connector-producer-{name}");
        let (worker, own) = (self.worker.settings(), self.settings);
        ProducerConfig::read(worker, own, &client_id, &mut self.faults)
            .beside(&consumer.client, topics)
    }

    /// Of letters. What is wrong with its settings was told of the sink's
    /// producer.
    pub(super) fn letter_producer(&self, client_id: &str) -> ProducerConfig {
        let (worker, own) = (self.worker.settings(), self.settings);
        ProducerConfig::read(worker, own, client_id, &mut Faults::default())
    }

    pub(super) fn reader(&mut self) -> Reader<'_> {
        Reader::new(self.settings.properties(), "", KEYS, &mut self.faults)
    }

    /// Plugins look at their own values. An unknown class is theirs to tell.
    fn check_plugins(&mut self, producer: &ProducerConfig) {
        let properties = self.settings.properties();
        if let Some(class) = self.settings.get("connector.class") {
            (self.plugins.check_sink)(class.trim(), properties, producer, &mut self.faults);
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

    /// Whether records are read as a share group.
    fn check_group_protocol(&mut self) -> bool {
        let worker = self.worker.group_protocol;
        let is_given = self.settings.is_given(GROUP_PROTOCOL);
        let mut reader = self.reader();
        let (protocol, origin) = match reader.optional_choice(GROUP_PROTOCOL) {
            Some(choice) => (GroupProtocol::of(choice), "consumer"),
            // It was given and is none of the choices, which is fault enough.
            None if is_given => return true,
            None => (worker, "consumer in the worker"),
        };
        if protocol != GroupProtocol::Share {
            reader.fault(GROUP_PROTOCOL, format!("is {origin}: reading as a consumer group is still to come; set {GROUP_PROTOCOL}=share here, or {}=share in the worker", worker::GROUP_PROTOCOL));
        }
        protocol == GroupProtocol::Share
    }

    /// Settings whose feature is not there yet are refused, so that nobody
    /// counts on them.
    fn refuse_what_is_to_come(&mut self) {
        let mut reader = self.reader();
        for (name, off) in [("share.order", "none"), ("exactly.once.mode", "off")] {
            let choice = reader.choice(name);
            if choice != off {
                reader.fault(
                    name,
                    format!("{choice} is still to come; set it to {off} or remove it"),
                );
            }
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
            releases_retriable: reader.choice("share.retriable") == "release",
        }
    }

    fn flush(&mut self, share: &ShareConfig) -> FlushConfig {
        let interval = self.worker.flush_interval;
        let mut reader = self.reader();
        let flush = FlushConfig {
            interval,
            idle: reader.duration("share.flush.idle.ms"),
            records: reader.optional_int(FLUSH_RECORDS).map(limits::count),
            bytes: Some(reader.size(FLUSH_BYTES)).filter(|bytes| *bytes > 0),
            accepts_after_put: reader.optional_choice("share.acknowledge.after") == Some("put"),
        };
        let within = |wanted: Option<usize>, limit| wanted.is_none_or(|wanted| wanted <= limit);
        if !within(
            flush.records,
            share.max_in_flight_records.unwrap_or(usize::MAX),
        ) {
            reader.fault(
                FLUSH_RECORDS,
                format!("is more than {IN_FLIGHT_RECORDS}, so it is never reached; set it lower"),
            );
        }
        if !within(flush.bytes, share.max_in_flight_bytes) {
            reader.fault(
                FLUSH_BYTES,
                "is more than share.max.in.flight.bytes, so it is never reached; set it lower",
            );
        }
        flush
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
            log: ErrorLog {
                enable: reader.boolean("errors.log.enable"),
                include_messages: reader.boolean(INCLUDE_MESSAGES),
            },
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
