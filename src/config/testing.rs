//! Plugins and layers for tests, after the contract of the registries.

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader};
use super::layers::Layer;
use super::plugins::Plugins;
use super::producer::ProducerConfig;
use crate::converters::part::Part;
use crate::transforms::aliased::Aliased;

const JSON: &[Key] = &[Key {
    name: "schemas.enable",
    kind: Kind::Boolean,
    preset: Preset::Value("true"),
    doc: "",
}];

const FILE: &[Key] = &[
    Key {
        name: "file",
        kind: Kind::Text,
        preset: Preset::Required,
        doc: "",
    },
    Key {
        name: "file.seal",
        kind: Kind::Secret,
        preset: Preset::Unset,
        doc: "",
    },
];

pub(crate) const PLUGINS: Plugins = Plugins {
    sink_keys,
    sink_produces: |_| false,
    check_sink,
    converter_keys,
    check_converter,
    aliased_keys,
    check_aliased,
};

fn sink_keys(class: &str) -> Option<&'static [Key]> {
    (class == "file").then_some(FILE)
}

fn check_sink(class: &str, properties: &Properties, _: &ProducerConfig, faults: &mut Faults) {
    match sink_keys(class) {
        Some(keys) => {
            let _ = Reader::new(properties, "", keys, faults).text("file");
        }
        None => faults.add("connector.class", format!("{class:?} is no sink")),
    }
}

fn converter_keys(_: Part, class: &str) -> Option<&'static [Key]> {
    match class {
        "json" => Some(JSON),
        "string" | "org.apache.kafka.connect.storage.SimpleHeaderConverter" => Some(&[]),
        _ => None,
    }
}

fn check_converter(part: Part, class: &str, properties: &Properties, faults: &mut Faults) {
    match converter_keys(part, class) {
        None => faults.add(part.class_key(), format!("{class:?} is no converter")),
        Some([]) => {}
        Some(keys) => {
            let _ = Reader::new(properties, part.prefix(), keys, faults).boolean("schemas.enable");
        }
    }
}

const REGEX_ROUTER: &[Key] = &[
    Key {
        name: "regex",
        kind: Kind::Text,
        preset: Preset::Required,
        doc: "",
    },
    Key {
        name: "replacement",
        kind: Kind::Text,
        preset: Preset::Required,
        doc: "",
    },
];
const TOPIC_NAME: &[Key] = &[Key {
    name: "pattern",
    kind: Kind::Text,
    preset: Preset::Required,
    doc: "",
}];

fn aliased_keys(kind: Aliased, class: &str) -> Option<&'static [Key]> {
    match (kind, class.rsplit('.').next()) {
        (Aliased::Transform, Some("RegexRouter")) => Some(REGEX_ROUTER),
        (Aliased::Predicate, Some("TopicNameMatches")) => Some(TOPIC_NAME),
        _ => None,
    }
}

fn check_aliased(
    kind: Aliased,
    alias: &str,
    class: &str,
    properties: &Properties,
    faults: &mut Faults,
) {
    let prefix = kind.prefix(alias);
    match aliased_keys(kind, class) {
        Some(keys) => {
            let mut reader = Reader::new(properties, &prefix, keys, faults);
            for key in keys {
                let _ = reader.text(key.name);
            }
        }
        None => faults.add(
            format!("{prefix}type"),
            format!("{class:?} is no {}", kind.name()),
        ),
    }
}

pub(crate) fn layer(pairs: &[(&str, &str)]) -> Layer {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Layer::of(pairs.collect(), "file test")
}
