//! Which keys there are: a key that nothing reads is refused, with the one
//! that was probably meant.

use std::borrow::Cow;

use super::definition::{Faults, Key};
use super::nearest::nearest_key;
use super::notes::Notes;

/// A key of Kafka Connect that does nothing here. A name with a dot at its
/// end stands for all keys that begin with it.
#[derive(Clone, Copy, Debug)]
pub struct Inert {
    pub name: &'static str,
    /// Completes "has no effect here, because ...".
    pub reason: &'static str,
}

pub(super) const fn inert(name: &'static str, reason: &'static str) -> Inert {
    Inert { name, reason }
}

const ALONE: &str = "workers do not form a cluster: share groups distribute the records";
const FILES: &str = "connectors come from files and the environment, not from a topic";
const NO_OFFSETS: &str = "the broker keeps a share group's progress, record by record";
pub(super) const BUILT_IN: &str = "plugins are built in";
const HTTP_ONLY: &str = "REST is plain HTTP so far";
const LISTENERS: &str = "listeners says where REST listens";
const SINKS_ONLY: &str = "there are only sinks here";
const NO_LOG4J: &str = "there is no Log4j: set log.level, and log.levels for single modules";
const NO_JMX: &str = "there is no JVM to report from";

/// Worker keys that a worker file of Kafka Connect has.
pub const WORKER: &[Inert] = &[
    inert("group.id", ALONE),
    inert("config.storage.", FILES),
    inert("status.storage.", ALONE),
    inert("offset.storage.", NO_OFFSETS),
    inert("offset.flush.timeout.ms", NO_OFFSETS),
    inert("session.timeout.ms", ALONE),
    inert("heartbeat.interval.ms", ALONE),
    inert("rebalance.timeout.ms", ALONE),
    inert("scheduled.rebalance.max.delay.ms", ALONE),
    inert("worker.sync.timeout.ms", ALONE),
    inert("worker.unsync.backoff.ms", ALONE),
    inert("connect.protocol", ALONE),
    inert("inter.worker.", ALONE),
    inert("internal.topics.automatic.creation.enable", FILES),
    inert(
        "config.providers.",
        "config.providers does not name that one",
    ),
    inert("plugin.path", BUILT_IN),
    inert("plugin.discovery", BUILT_IN),
    inert("key.converter.plugin.version", BUILT_IN),
    inert("value.converter.plugin.version", BUILT_IN),
    inert("header.converter.plugin.version", BUILT_IN),
    inert("internal.key.converter", FILES),
    inert("internal.key.converter.", FILES),
    inert("internal.value.converter", FILES),
    inert("internal.value.converter.", FILES),
    inert("listeners.", HTTP_ONLY),
    inert("admin.listeners", "all of REST is on listeners"),
    inert("admin.listeners.", HTTP_ONLY),
    inert("rest.advertised.", ALONE),
    // Kafka has dropped these, images of Connect still set them.
    inert("rest.port", LISTENERS),
    inert("rest.host.name", LISTENERS),
    inert("zookeeper.connect", "Kafka has none any more"),
    inert("access.control.", "REST sends no headers for other origins"),
    inert(
        "response.http.headers.config",
        "REST sends no headers for browsers",
    ),
    inert("exactly.once.source.support", SINKS_ONLY),
    inert("topic.creation.enable", SINKS_ONLY),
    inert(
        "topic.tracking.",
        "topics that a connector has used are always told",
    ),
    inert("metric.reporters", NO_JMX),
    inert("auto.include.jmx.reporter", NO_JMX),
    inert("metrics.", NO_JMX),
    inert("log4j.", NO_LOG4J),
    inert("cub.", "it is a setting of an image's start script"),
];

/// Connector keys of Kafka Connect.
pub const CONNECTOR: &[Inert] = &[
    inert("connector.plugin.version", BUILT_IN),
    inert("key.converter.plugin.version", BUILT_IN),
    inert("value.converter.plugin.version", BUILT_IN),
    inert("header.converter.plugin.version", BUILT_IN),
    inert(
        "tasks.max.enforce",
        "a connector never gets more tasks than tasks.max",
    ),
    inert(
        "config.action.reload",
        "what config providers know is read at the start",
    ),
];

/// The entry of that key, if it does nothing.
#[must_use]
pub fn find_inert<'a>(inert: &'a [Inert], key: &str) -> Option<&'a Inert> {
    inert
        .iter()
        .find(|it| it.name == key || (it.name.ends_with('.') && key.starts_with(it.name)))
}

/// The tables of one place, and what to say about keys that are in none.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys {
    tables: Vec<(Cow<'static, str>, &'static [Key])>,
    inert: &'static [Inert],
    /// The table of another place, and what to call its keys.
    elsewhere: Option<(&'static [Key], &'static str)>,
}

impl KnownKeys {
    #[must_use]
    pub fn new(inert: &'static [Inert]) -> Self {
        Self {
            inert,
            ..Self::default()
        }
    }

    /// Takes in a table, each key with a prefix.
    #[must_use]
    pub fn with(mut self, prefix: impl Into<Cow<'static, str>>, keys: &'static [Key]) -> Self {
        self.tables.push((prefix.into(), keys));
        self
    }

    /// Keys that belong somewhere else; `whose` is like "a connector's".
    #[must_use]
    pub fn with_elsewhere(mut self, keys: &'static [Key], whose: &'static str) -> Self {
        self.elsewhere = Some((keys, whose));
        self
    }

    /// All tables, each with the prefix of its keys.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &'static [Key])> {
        self.tables.iter().map(|(prefix, keys)| (&**prefix, *keys))
    }

    /// A key's line in its table.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&'static Key> {
        self.tables.iter().find_map(|(prefix, keys)| {
            let name = key.strip_prefix(&**prefix)?;
            keys.iter().find(|it| it.name == name)
        })
    }

    /// Says what there is to say about a key, if it is not known.
    pub fn judge(&self, key: &str, faults: &mut Faults, notes: &mut Notes) {
        if self.find(key).is_some() {
            return;
        }
        let elsewhere = self
            .elsewhere
            .filter(|(keys, _)| keys.iter().any(|it| it.name == key));
        if let Some(inert) = find_inert(self.inert, key) {
            notes.no_effect(key, inert.reason);
        } else if let Some((_, whose)) = elsewhere {
            faults.add(key, format!("is not known here; it is {whose} key"));
        } else {
            faults.add(key, unknown(key, self.names()));
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let names = self
            .tables
            .iter()
            .flat_map(|(prefix, keys)| keys.iter().map(move |key| format!("{prefix}{}", key.name)));
        names.chain(self.inert.iter().map(|it| it.name.to_owned()))
    }
}

/// The message for a key that is not known.
fn unknown(key: &str, known: impl Iterator<Item = String>) -> String {
    // A name with a dot at its end stands for many.
    let known = known.filter(|name| !name.ends_with('.'));
    match nearest_key(key, known) {
        Some(name) => format!("is not a known key; did you mean {name}?"),
        None => "is not a known key".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Kind, Preset};

    fn judged(known: &KnownKeys, key: &str) -> (String, String) {
        let (mut faults, mut notes) = (Faults::default(), Notes::default());
        known.judge(key, &mut faults, &mut notes);
        let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
        (faults.to_string(), notes.join("\n"))
    }

    const fn key(name: &'static str) -> Key {
        Key {
            name,
            kind: Kind::Text,
            preset: Preset::Unset,
            doc: "",
        }
    }

    fn known() -> KnownKeys {
        KnownKeys::new(WORKER)
            .with(
                "",
                const { &[key("errors.deadletterqueue.context.headers.enable")] },
            )
            .with("value.converter.", const { &[key("schemas.enable")] })
            .with_elsewhere(const { &[key("topics")] }, "a connector's")
    }

    #[test]
    fn a_known_key_passes_in_silence() {
        let silence = (String::new(), String::new());
        assert_eq!(judged(&known(), "value.converter.schemas.enable"), silence);
    }

    #[test]
    fn a_misspelt_key_is_refused_with_the_one_meant() {
        for (wrong, right) in [
            (
                "errors.deadletterqueue.context.header.enable",
                "errors.deadletterqueue.context.headers.enable",
            ),
            (
                "value.converter.schema.enabled",
                "value.converter.schemas.enable",
            ),
            // The prefix was forgotten.
            ("schemas.enable", "value.converter.schemas.enable"),
        ] {
            let (fault, _) = judged(&known(), wrong);
            assert_eq!(
                fault,
                format!("{wrong}: is not a known key; did you mean {right}?")
            );
        }
    }

    #[test]
    fn nothing_is_suggested_for_what_resembles_nothing() {
        assert_eq!(judged(&known(), "abc.def").0, "abc.def: is not a known key");
    }

    #[test]
    fn connects_own_keys_are_taken_with_a_note() {
        for key in [
            "group.id",
            "offset.storage.topic",
            "plugin.path",
            "listeners.https.ssl.keystore.location",
        ] {
            let (fault, note) = judged(&known(), key);
            assert_eq!(fault, "");
            assert!(
                note.starts_with(&format!("{key}: has no effect here, because ")),
                "{note}"
            );
        }
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_its_own() {
        assert_eq!(
            judged(&known(), "topics").0,
            "topics: is not known here; it is a connector's key"
        );
    }
}
