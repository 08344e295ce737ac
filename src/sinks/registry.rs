//! Which sinks there are, and which of them a `connector.class` means.

use std::sync::Arc;

use sluice_actors::ports::sink::SinkFactory;

use crate::config::definition::{Faults, Key, Properties, Reader};
use crate::config::nearest::unknown_class;
use crate::config::reference::Table;
use crate::sinks::{file, http, log, null};

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
    read: fn(&mut Reader<'_>) -> Arc<dyn SinkFactory>,
}

static ALL: [Plugin; 4] = [
    Plugin {
        class: "file",
        aliases: &[
            "FileStreamSink",
            "FileStreamSinkConnector",
            "org.apache.kafka.connect.file.FileStreamSinkConnector",
        ],
        doc: "Appends records to a file, one a line.",
        keys: file::KEYS,
        read: |reader| Arc::new(file::FileFactory::new(file::FileConfig::read(reader))),
    },
    Plugin {
        class: "http",
        aliases: &[],
        doc: "Sends records to an HTTP endpoint, one or several a request.",
        keys: http::KEYS,
        read: |reader| Arc::new(http::HttpFactory::new(http::HttpConfig::read(reader))),
    },
    Plugin {
        class: "log",
        aliases: &[],
        doc: "Logs each record as a line, to look at what comes.",
        keys: log::KEYS,
        read: |reader| Arc::new(log::LogFactory::read(reader)),
    },
    Plugin {
        class: "null",
        aliases: &[],
        doc: "Drops records, or fails by rule: for tests and benchmarks.",
        keys: null::KEYS,
        read: |reader| Arc::new(null::NullFactory::new(null::NullConfig::read(reader))),
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

/// The factory of a connector's sink; what is wrong is added to the faults,
/// and then there is none.
pub fn factory(
    class: &str,
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Arc<dyn SinkFactory>> {
    let Some(plugin) = find(class) else {
        faults.add(CLASS, unknown(class));
        return None;
    };
    let before = faults.iter().count();
    let factory = (plugin.read)(&mut Reader::new(properties, "", plugin.keys, faults));
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

    fn properties(pairs: &[(&str, &str)]) -> Properties {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
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
            let factory = factory(class, &properties(&[("file", "/tmp/out")]), &mut faults);
            assert!(faults.is_empty(), "{class}: {faults}");
            assert!(factory.unwrap().traits().buffers, "{class}");
            assert_eq!(keys(class), Some(file::KEYS));
        }
    }

    #[test]
    fn unknown_class_gets_the_nearest_name() {
        let mut faults = Faults::default();
        assert!(factory("FileStreamSnik", &properties(&[]), &mut faults).is_none());
        assert_eq!(
            faults.to_string(),
            "connector.class: \"FileStreamSnik\" is not a sink; the sinks are file, http, log, null. \
             Did you mean \"FileStreamSink\"?"
        );
        assert!(keys("FileStreamSnik").is_none());
    }

    #[test]
    fn faulty_settings_make_no_factory() {
        let mut faults = Faults::default();
        faults.add("name", "is required and not set");
        assert!(factory("file", &properties(&[]), &mut faults).is_none());
        let keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
        assert_eq!(keys, ["name", "file"]);
    }

    #[test]
    fn faults_of_others_do_not_hide_a_good_sink() {
        let mut faults = Faults::default();
        faults.add("name", "is required and not set");
        assert!(factory("null", &properties(&[]), &mut faults).is_some());
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
