//! Plugins after the contract of the registries, so that tests of the
//! configuration, in here and in the crate, depend on no real one.

use sluice::config::definition::{Faults, Key, Kind, Preset, Properties, Reader};
use sluice::config::plugins::Plugins;
use sluice::config::producer::ProducerConfig;
use sluice::converters::part::Part;
use sluice::transforms::aliased::Aliased;

const fn key(name: &'static str, kind: Kind, preset: Preset) -> Key {
    Key {
        name,
        kind,
        preset,
        doc: "",
    }
}

const FILE: &[Key] = &[
    key("file", Kind::Text, Preset::Required),
    key("file.seal", Kind::Secret, Preset::Unset),
    key("connection.url", Kind::Text, Preset::Unset),
    key("connection.password", Kind::Secret, Preset::Unset),
    key("connection.api.token", Kind::Text, Preset::Unset),
];

const JSON: &[Key] = &[
    key("schemas.enable", Kind::Boolean, Preset::Value("true")),
    key("basic.auth.user.info", Kind::Text, Preset::Unset),
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
        Some(keys) => drop(Reader::new(properties, "", keys, faults).text("file")),
        None => faults.add(
            "connector.class",
            format!("{class:?} is no sink; did you mean file?"),
        ),
    }
}

fn converter_keys(_: Part, class: &str) -> Option<&'static [Key]> {
    match class.rsplit('.').next() {
        Some("json" | "JsonConverter") => Some(JSON),
        Some("string" | "StringConverter" | "SimpleHeaderConverter") => Some(&[]),
        _ => None,
    }
}

fn check_converter(part: Part, class: &str, properties: &Properties, faults: &mut Faults) {
    match converter_keys(part, class) {
        None => faults.add(
            part.class_key(),
            format!("{class:?} is no converter; did you mean JsonConverter?"),
        ),
        Some([]) => {}
        Some(keys) => {
            let _ = Reader::new(properties, part.prefix(), keys, faults).boolean("schemas.enable");
        }
    }
}

const REGEX_ROUTER: &[Key] = &[
    key("regex", Kind::Text, Preset::Required),
    key("replacement", Kind::Text, Preset::Required),
];
const TOPIC_NAME: &[Key] = &[key("pattern", Kind::Text, Preset::Required)];

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
