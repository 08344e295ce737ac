//! TopicNameMatches: records of topics of a pattern.

use std::sync::Arc;

use sluice_actors::record::SinkRecord;

use crate::config::definition::{Key, Kind, Preset, Reader, key};
use crate::transforms::chain::Predicate;
use crate::transforms::entry::Entry;
use crate::transforms::java_regex::Pattern;

const PATTERN: &str = "pattern";

const KEYS: &[Key] = &[key(
    PATTERN,
    Kind::Text,
    Preset::Required,
    "A pattern of the topic's whole name, as in RegexRouter.",
)];

pub(in crate::transforms) const ENTRIES: &[Entry<dyn Predicate>] = &[Entry {
    class: "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    doc: "Holds for records whose topic, as transforms before have left it, matches a pattern.",
    keys: KEYS,
    build: |reader| Arc::new(TopicNameMatches::read(reader)),
}];

struct TopicNameMatches {
    /// Nothing matches while it is faulty.
    pattern: Option<Pattern>,
}

impl TopicNameMatches {
    fn read(reader: &mut Reader<'_>) -> Self {
        if reader.optional_text(PATTERN).as_deref() == Some("") {
            reader.fault(PATTERN, "is empty; give a regular expression");
        }
        Self {
            pattern: Pattern::read(reader, PATTERN),
        }
    }
}

impl Predicate for TopicNameMatches {
    fn test(&self, record: &SinkRecord) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_some_and(|pattern| pattern.matches(&record.topic))
    }
}
