//! A connector's configuration, typed.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use sluice_actors::error_log::ErrorLog;

pub(crate) use super::connector_keys::{
    DEAD_LETTER_MODE, DEAD_LETTER_REPLICATION, DEAD_LETTER_TOPIC, PARK_AFTER, PARK_REPLICATION,
};
pub use super::connector_keys::{GROUP_PROTOCOL, KEYS, MAX_PUT_RECORDS};

use super::connector_keys::MAX_POLL_RECORDS;
use super::definition::{Faults, Properties};
use super::layers::{Layer, Settings};
use super::notes::Notes;
use super::overrides::ConsumerConfig;
use super::plugins::Plugins;
use super::producer::ProducerConfig;
use super::secrets;
use super::worker::{Checked, WorkerConfig};
use crate::converters::part::Part;

mod chain;
mod dead_letters;
mod limits;
mod parking;
mod reading;

pub use chain::{PredicateConfig, TransformConfig};
pub use dead_letters::{DeadLetters, WrittenDeadLetters};
pub(crate) use limits::is_topic;
pub use parking::{ParkingConfig, parking_topic};
use reading::Reading;

/// Which topics are read.
#[derive(Clone, Debug)]
pub enum Topics {
    Named(Vec<String>),
    /// Of the whole name.
    Matching(Regex),
}

impl Topics {
    /// Whether that topic is among them.
    #[must_use]
    pub fn contains(&self, topic: &str) -> bool {
        match self {
            Self::Named(names) => names.iter().any(|name| name == topic),
            Self::Matching(pattern) => pattern.is_match(topic),
        }
    }
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
    pub log: ErrorLog,
}

/// Where a new share group begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetReset {
    /// The value for the group, as Kafka takes it.
    pub strategy: String,
    /// Somebody gave it, so it is meant.
    pub is_given: bool,
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
    /// `share.retriable=release`: what is to be tried again goes back at once.
    pub releases_retriable: bool,
}

/// When a sink that buffers is flushed, and its records are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushConfig {
    /// The worker's `offset.flush.interval.ms`.
    pub interval: Duration,
    pub idle: Duration,
    pub records: Option<usize>,
    pub bytes: Option<usize>,
    /// `share.acknowledge.after=put`.
    pub accepts_after_put: bool,
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
    /// In the order in which they are applied.
    pub transforms: Vec<TransformConfig>,
    pub max_put_records: usize,
    pub flush: FlushConfig,
    pub errors: ErrorsConfig,
    pub dead_letters: DeadLetters,
    /// `None`: no record is parked.
    pub parking: Option<ParkingConfig>,
    pub share: ShareConfig,
    pub consumer: ConsumerConfig,
    pub producer: ProducerConfig,
    /// What was given for it, as it may be shown.
    pub shown: BTreeMap<String, String>,
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
        let filled = worker.providers.fill_in(&mut settings);
        let mut reading = Reading {
            settings: &settings,
            worker,
            plugins,
            faults: Faults::default(),
            notes: Notes::default(),
        };
        let known = reading.judge_keys();
        reading.refuse_strays(&given, &strays);
        let mut config = reading.read();
        config.shown = given
            .given()
            .filter_map(|(key, _)| {
                let value = secrets::setting(&settings, key, known.find(key))?;
                Some((key.to_owned(), value.into_owned()))
            })
            .collect();
        let (mut faults, notes) = (reading.faults, reading.notes);
        filled.tell(&mut faults);
        Ok(Checked {
            config,
            settings,
            known,
            faults,
            notes,
        })
    }

    /// The group that Connect would read with, whose positions are taken over.
    #[must_use]
    pub fn connect_group(&self) -> String {
        format!("connect-{}", self.name)
    }

    /// All settings, for the sink to read its own.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.settings.properties()
    }
}

#[cfg(test)]
pub(crate) mod tests;
