//! Which sinks there are, and which of them a `connector.class` means.

use std::sync::Arc;

use sluice_actors::ports::sink::SinkFactory;

use crate::config::definition::{Faults, Key, Properties, Reader};
use crate::config::nearest::unknown_class;
use crate::config::producer::ProducerConfig;
use crate::config::reference::Table;
use crate::sinks::{file, http, kafka, log, null};

const CLASS: &str = "connector.class";

/// A sink that can be named in a connector's configuration.
#[derive(Debug)]
pub struct Plugin {
    /// What `connector.class` calls it.
    pub class: &'static str,
    /// Connect's names for a sink that does the same.
    pub aliases: &'static [&'static str],
    pub doc: &'static str,
    pub keys: &'static [Key],
    read: Read,
}

/// What a sink is made from.
#[derive(Debug)]
enum Read {
    /// Its own keys.
    Plain(fn(&mut Reader<'_>) -> Arc<dyn SinkFactory>),
    /// Its own keys and a producer's settings.
    Producing(fn(&mut Reader<'_>, &ProducerConfig) -> Arc<dyn SinkFactory>),
}

static ALL: [Plugin; 5] = [
    Plugin {
        class: "file",
        aliases: &[
            "FileStreamSink",
            "FileStreamSinkConnector",
            "org.apache.kafka.connect.file.FileStreamSinkConnector",
        ],
        doc: "Appends records to a file, one a line.",
        keys: file::KEYS,
        read: Read::Plain(|reader| {
            Arc::new(file::FileFactory::new(file::FileConfig::read(reader)))
        }),
    },
    Plugin {
        class: "http",
        aliases: &[],
        doc: "Sends records to an HTTP endpoint, one or several a request.",
        keys: http::KEYS,
        read: Read::Plain(|reader| {
            Arc::new(http::HttpFactory::new(http::HttpConfig::read(reader)))
        }),
    },
    Plugin {
        class: "kafka",
        aliases: &[],
        doc: "Writes records to Kafka, the same cluster or another one \
              (`producer.override.bootstrap.servers`); see docs/sinks/kafka.md.",
        keys: kafka::KEYS,
        read: Read::Producing(|reader, producer| {
            let config = kafka::KafkaConfig::read(reader, producer);
            Arc::new(kafka::KafkaFactory::new(config))
        }),
    },
    Plugin {
        class: "log",
        aliases: &[],
        doc: "Logs each record as a line, to look at what comes.",
        keys: log::KEYS,
        read: Read::Plain(|reader| Arc::new(log::LogFactory::read(reader))),
    },
    Plugin {
        class: "null",
        aliases: &[],
        doc: "Drops records, or fails by rule: for tests and benchmarks.",
        keys: null::KEYS,
        read: Read::Plain(|reader| {
            Arc::new(null::NullFactory::new(null::NullConfig::read(reader)))
        }),
    },
];

impl Plugin {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.class).chain(self.aliases.iter().copied())
    }
}

/// All sinks, by class.
#[must_use]
pub fn all() -> &'static [Plugin] {
    &ALL
}

/// What the reference says of each sink.
#[must_use]
pub fn tables() -> Vec<Table> {
    let names = |plugin: &Plugin| {
        let names = plugin.names().map(|name| format!("`{name}`"));
        names.collect::<Vec<_>>().join(", ")
    };
    let table = |plugin: &Plugin| Table {
        title: format!("Sink {}", plugin.class).into(),
        text: format!("{} `connector.class`: {}.", plugin.doc, names(plugin)).into(),
        keys: plugin.keys,
    };
    ALL.iter().map(table).collect()
}

/// The keys of a sink, by any of its names.
#[must_use]
pub fn keys(class: &str) -> Option<&'static [Key]> {
    find(class).map(|plugin| plugin.keys)
}

/// Whether the sink writes to Kafka.
#[must_use]
pub fn produces(class: &str) -> bool {
    find(class).is_some_and(|plugin| matches!(plugin.read, Read::Producing(_)))
}

/// The factory of a connector's sink; what is wrong is added to the faults,
/// and then there is none.
pub fn factory(
    class: &str,
    properties: &Properties,
    producer: &ProducerConfig,
    faults: &mut Faults,
) -> Option<Arc<dyn SinkFactory>> {
    let Some(plugin) = find(class) else {
        faults.add(CLASS, unknown(class));
        return None;
    };
    let before = faults.iter().count();
    let mut reader = Reader::new(properties, "", plugin.keys, faults);
    let factory = match plugin.read {
        Read::Plain(read) => read(&mut reader),
        Read::Producing(read) => read(&mut reader, producer),
    };
    (faults.iter().count() == before).then_some(factory)
}

fn find(class: &str) -> Option<&'static Plugin> {
    ALL.iter()
        .find(|plugin| plugin.names().any(|name| name == class))
}

fn unknown(class: &str) -> String {
    let names = ALL.iter().flat_map(Plugin::names);
    unknown_class("sink", class, names, ALL.iter().map(|plugin| plugin.class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::producer;

    fn made(
        class: &str,
        pairs: &[(&str, &str)],
        faults: &mut Faults,
    ) -> Option<Arc<dyn SinkFactory>> {
        let properties: Properties = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        factory(class, &properties, &producer(&properties), faults)
    }

    #[test]
    fn connects_names_mean_the_file_sink() {
        for class in [
            "file",
            "FileStreamSink",
            "FileStreamSinkConnector",
            "org.apache.kafka.connect.file.FileStreamSinkConnector",
        ] {
            let mut faults = Faults::default();
            let factory = made(class, &[("file", "/tmp/out")], &mut faults);
            assert!(faults.is_empty(), "{class}: {faults}");
            assert!(factory.unwrap().traits().buffers, "{class}");
            assert_eq!(keys(class), Some(file::KEYS));
        }
    }

    #[test]
    fn unknown_class_gets_the_nearest_name() {
        let mut faults = Faults::default();
        assert!(made("FileStreamSnik", &[], &mut faults).is_none());
        assert_eq!(
            faults.to_string(),
            "connector.class: \"FileStreamSnik\" is not a sink; the sinks are file, http, kafka, log, \
             null. \
             Did you mean \"FileStreamSink\"?"
        );
        assert!(keys("FileStreamSnik").is_none());
    }

    #[test]
    fn faulty_settings_make_no_factory() {
        let mut faults = Faults::default();
        faults.add("name", "is required and not set");
        assert!(made("file", &[], &mut faults).is_none());
        let keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
        assert_eq!(keys, ["name", "file"]);
    }

    #[test]
    fn faults_of_others_do_not_hide_a_good_sink() {
        let mut faults = Faults::default();
        faults.add("name", "is required and not set");
        assert!(made("null", &[], &mut faults).is_some());
    }

    #[test]
    fn names_are_unique_and_keys_are_described() {
        let mut names: Vec<_> = all().iter().flat_map(Plugin::names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for key in all().iter().flat_map(|plugin| plugin.keys) {
            assert!(!key.doc.is_empty(), "{}", key.name);
        }
    }
}
