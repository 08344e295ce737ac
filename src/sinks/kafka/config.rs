//! What the kafka sink is told, beside its producer's settings.

use crate::config::connector::Topics;
use crate::config::definition::{Key, Kind, Preset, Reader, key};
use crate::config::producer::{ProducerConfig, ReadTopics};
use crate::sinks::kafka::encode::Format;
use crate::sinks::kafka::route::Route;

const TOPIC: &str = "topic";
const PARTITION: &str = "partition";
const KEY_FORMAT: &str = "key.format";
const VALUE_FORMAT: &str = "value.format";

const SOURCE: &str = "source";
const JSON: &str = "json";
const ENVELOPE: &str = "envelope";
const FORMAT: Kind = Kind::Choice(&["raw", JSON, ENVELOPE]);

/// The keys of the kafka sink.
pub const KEYS: &[Key] = &[
    key(
        TOPIC,
        Kind::Text,
        Preset::Value("${topic}"),
        "The topic to write to. ${topic} is the record's own, as transforms left it. A topic that \
         the connector reads from the same cluster is refused.",
    ),
    key(
        PARTITION,
        Kind::Choice(&["key", SOURCE]),
        Preset::Value("key"),
        "key: by Kafka's hash of the key (murmur2), records without a key anywhere. source: the \
         partition that the record came from; the topic must have it.",
    ),
    key(
        KEY_FORMAT,
        FORMAT,
        Preset::Value("raw"),
        "How keys are written. raw: bytes and text as they are, all else as JSON. json: text in \
         quotes and bytes as base64, too. envelope: JSON with the schema, as Connect's \
         JsonConverter writes it. Null stays null.",
    ),
    key(
        VALUE_FORMAT,
        FORMAT,
        Preset::Value("raw"),
        "How values are written, as key.format; null stays a tombstone. Headers are raw.",
    ),
];

/// A kafka sink's settings.
#[derive(Debug)]
pub struct KafkaConfig {
    pub(super) route: Route,
    pub(super) keeps_partition: bool,
    pub(super) key_format: Format,
    pub(super) value_format: Format,
    pub(super) producer: ProducerConfig,
}

impl KafkaConfig {
    pub fn read(reader: &mut Reader<'_>, producer: &ProducerConfig) -> Self {
        let route = Route::parse(&reader.text(TOPIC)).unwrap_or_else(|message| {
            reader.fault(TOPIC, message);
            Route::default()
        });
        // What transforms make of a topic shows with the records.
        if reader.list("transforms").is_empty() {
            let own = producer.reads.as_ref().and_then(ReadTopics::known_here);
            check_loop(reader, &route, own);
        }
        Self {
            route,
            keeps_partition: reader.choice(PARTITION) == SOURCE,
            key_format: format(reader.choice(KEY_FORMAT)),
            value_format: format(reader.choice(VALUE_FORMAT)),
            producer: producer.clone(),
        }
    }
}

fn format(choice: &str) -> Format {
    match choice {
        JSON => Format::Json,
        ENVELOPE => Format::Envelope,
        _ => Format::Raw,
    }
}

/// Records that come back to the connector would go round for ever.
fn check_loop(reader: &mut Reader<'_>, route: &Route, own: Option<&Topics>) {
    let Some(own) = own else {
        return;
    };
    let written: Vec<String> = match own {
        Topics::Named(names) => names
            .iter()
            .map(|name| route.fill(name).into_owned())
            .collect(),
        Topics::Matching(_) if route.keeps_topic() => {
            return reader.fault(TOPIC, loop_message("${topic}"));
        }
        // Which topics match shows with the records.
        Topics::Matching(_) => route.fixed().map(str::to_owned).into_iter().collect(),
    };
    if let Some(topic) = written.iter().find(|topic| own.contains(topic)) {
        reader.fault(TOPIC, loop_message(topic));
    }
}

/// Why records are not written into a topic that is read.
pub(super) fn loop_message(topic: &str) -> String {
    format!(
        "{topic} is read by this connector in the same cluster, so that its records would go \
         round for ever; set topic to another one, such as copy-of-${{topic}}, or \
         producer.override.bootstrap.servers to another cluster"
    )
}
