//! RegexRouter: another topic, by a pattern of its name.

use std::convert::Infallible;
use std::sync::Arc;

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;

use super::entry::Entry;
use super::java_regex::{Pattern, Replacement};
use super::recent::Recent;
use crate::config::definition::{Key, Kind, Preset, Reader, key};

const REGEX: &str = "regex";
const REPLACEMENT: &str = "replacement";

const KEYS: &[Key] = &[
    key(
        REGEX,
        Kind::Text,
        Preset::Required,
        "A pattern of the topic's whole name, as Java has them, but without look-around, \
         back-references and possessive quantifiers. Other topics stay.",
    ),
    key(
        REPLACEMENT,
        Kind::Text,
        Preset::Required,
        "The new topic; $1 and ${name} stand for what the pattern's groups matched.",
    ),
];

pub(super) const ENTRIES: &[Entry<dyn Transform>] = &[Entry {
    class: "org.apache.kafka.connect.transforms.RegexRouter",
    doc: "Changes the topic that the sink sees; where the record came from stays.",
    keys: KEYS,
    build: |reader| Arc::new(RegexRouter::read(reader)),
}];

struct RegexRouter {
    /// Nothing is routed while it is faulty.
    rule: Option<(Pattern, Replacement)>,
    routes: Recent<Arc<str>, Option<Arc<str>>>,
}

impl RegexRouter {
    fn read(reader: &mut Reader<'_>) -> Self {
        let pattern = Pattern::read(reader, REGEX);
        // Its fault is told if it is missing, whatever the pattern.
        let replacement = reader.text(REPLACEMENT);
        let rule = pattern.and_then(|pattern| match pattern.replacement(&replacement) {
            Ok(replacement) => Some((pattern, replacement)),
            Err(message) => {
                reader.fault(REPLACEMENT, message);
                None
            }
        });
        Self {
            rule,
            routes: Recent::by(PartialEq::eq),
        }
    }

    fn route(&self, topic: &str) -> Option<Arc<str>> {
        let (pattern, replacement) = self.rule.as_ref()?;
        pattern.replace(topic, replacement).map(Arc::from)
    }
}

impl Transform for RegexRouter {
    fn apply(&self, mut record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        let topic = &record.topic;
        let make = || Ok::<_, Infallible>(self.route(topic));
        if let Ok(Some(route)) = self.routes.get(topic, make) {
            record.topic = route;
        }
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transforms::aliased::Aliased;
    use crate::transforms::testing::{applied, build, faults, record};
    use sluice_actors::value::Datum;

    const CLASS: &str = "RegexRouter";

    #[test]
    fn the_sink_sees_another_topic_and_the_record_keeps_its_id() {
        let route = build(CLASS, &[(REGEX, "(.*)s"), (REPLACEMENT, "$1")]);
        let routed = applied(&route, record(Datum::null(), Datum::null()));
        assert_eq!(&*routed.topic, "order");
        assert_eq!(routed.id().to_string(), "orders-3@42");
        let again = applied(&route, record(Datum::null(), Datum::null()));
        assert!(Arc::ptr_eq(&routed.topic, &again.topic), "made once");
        let elsewhere = applied(&route, routed);
        assert_eq!(&*elsewhere.topic, "order");
    }

    #[test]
    fn a_pattern_or_replacement_that_cannot_work_is_refused() {
        let told = |settings| faults(Aliased::Transform, CLASS, settings);
        assert_eq!(
            told(&[(REGEX, "(?!x)y"), (REPLACEMENT, "$7")]),
            "transforms.it.regex: is not a regular expression that is understood here: \
             look-around, including look-ahead and look-behind, is not supported"
        );
        assert_eq!(
            told(&[(REGEX, "(a)"), (REPLACEMENT, "$7")]),
            "transforms.it.replacement: refers to group 7, but the pattern has 1"
        );
    }
}
