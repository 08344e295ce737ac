//! Plugins and layers for tests, after the contract of the registries.

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader};
use super::layers::Layer;
use super::plugins::Plugins;
use crate::converters::part::Part;

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
    check_sink,
    converter_keys,
    check_converter,
};

fn sink_keys(class: &str) -> Option<&'static [Key]> {
    (class == "file").then_some(FILE)
}

fn check_sink(class: &str, properties: &Properties, faults: &mut Faults) {
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

pub(crate) fn layer(pairs: &[(&str, &str)]) -> Layer {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Layer::of(pairs.collect(), "file test")
}
