//! A letter's headers: the record's own, then Connect's, each a text.

use rdkafka::message::{Header, OwnedHeaders};

use sluice_actors::outcome::{Rejection, Stage};
use sluice_actors::ports::dead_letter::DeadLetter;

use crate::config::connector::ConnectorConfig;
use crate::kafka::letters::own_headers;
use crate::transforms::error_prefix;

const PREFIX: &str = "__connect.errors.";

/// What a connector's letters say of where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    connector: String,
    key_converter: String,
    value_converter: String,
    header_converter: String,
    /// What their errors begin with, and their classes.
    transforms: Vec<(String, String)>,
    sink: String,
}

impl Context {
    #[must_use]
    pub fn of(config: &ConnectorConfig) -> Self {
        let transforms = config.transforms.iter();
        Self {
            connector: config.name.clone(),
            key_converter: config.key_converter.class.clone(),
            value_converter: config.value_converter.class.clone(),
            header_converter: config.header_converter.class.clone(),
            transforms: transforms
                .map(|it| (error_prefix(&it.alias), it.class.clone()))
                .collect(),
            sink: config.class.clone(),
        }
    }

    /// The plugin that was at work, by the class that the configuration has.
    fn class(&self, rejection: &Rejection) -> &str {
        match rejection.stage {
            Stage::KafkaConsume => "sluice.ShareSource",
            Stage::KeyConverter => &self.key_converter,
            Stage::ValueConverter => &self.value_converter,
            Stage::HeaderConverter => &self.header_converter,
            Stage::Transformation => self.transform(&rejection.cause),
            Stage::TaskPut => &self.sink,
        }
    }

    fn transform(&self, cause: &str) -> &str {
        let mut transforms = self.transforms.iter();
        let found = transforms.find(|(prefix, _)| cause.starts_with(prefix));
        found.map_or("sluice.TransformationChain", |(_, class)| class)
    }
}

/// Our name for the kind of error, where Connect has an exception's class.
const fn exception(stage: Stage) -> &'static str {
    match stage {
        Stage::KafkaConsume => "sluice.CorruptRecordError",
        Stage::KeyConverter
        | Stage::ValueConverter
        | Stage::HeaderConverter
        | Stage::Transformation => "sluice.ConvertError",
        Stage::TaskPut => "sluice.RejectedRecordError",
    }
}

/// The letter's headers; the record's own keep their order, repeats and nulls.
pub(super) fn of(letter: &DeadLetter, context: Option<&Context>) -> Option<OwnedHeaders> {
    let own = letter.original.as_deref().map(|it| it.headers.as_slice());
    let own = own.unwrap_or_default();
    let context = context.map(|context| written(letter, context));
    if own.is_empty() && context.is_none() {
        return None;
    }
    let mut headers = own_headers(own);
    for (name, text) in context.into_iter().flatten() {
        headers = headers.insert(Header {
            key: &format!("{PREFIX}{name}"),
            value: Some(text.as_bytes()),
        });
    }
    Some(headers)
}

fn written(letter: &DeadLetter, context: &Context) -> [(&'static str, String); 10] {
    let DeadLetter {
        record, rejection, ..
    } = letter;
    let (stage, message) = (rejection.stage, rejection.cause.whole().to_owned());
    let (class, exception) = (context.class(rejection).to_owned(), exception(stage));
    let trace = format!("{exception}: {message}\n\tat {class} ({stage})\n");
    [
        ("topic", record.partition.topic.to_string()),
        ("partition", record.partition.partition.to_string()),
        ("offset", record.offset.to_string()),
        ("connector.name", context.connector.clone()),
        ("task.id", letter.task.to_string()),
        ("stage", stage.name().to_owned()),
        ("class.name", class),
        ("exception.class.name", exception.to_owned()),
        ("exception.message", message),
        ("exception.stacktrace", trace),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rdkafka::message::Headers as _;

    use sluice_actors::outcome::Cause;
    use sluice_actors::record::{RawHeader, RawRecord, RecordId};
    use sluice_actors::testing::{partition, raw_record};

    use super::*;

    fn context() -> Context {
        Context {
            connector: "orders".into(),
            key_converter: "KeyC".into(),
            value_converter: "ValueC".into(),
            header_converter: "HeaderC".into(),
            transforms: vec![
                (error_prefix("a"), "First".into()),
                (error_prefix("ab"), "Second".into()),
            ],
            sink: "http".into(),
        }
    }

    fn letter(stage: Stage, cause: &str, original: Option<RawRecord>) -> DeadLetter {
        DeadLetter {
            record: RecordId {
                partition: partition("orders", 3),
                offset: 41,
            },
            original: original.map(Arc::new),
            rejection: Rejection::new(stage, Cause::quoting("no", cause)),
            task: 7,
        }
    }

    fn texts(headers: &OwnedHeaders) -> Vec<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let headers = headers.iter();
        headers
            .map(|it| (it.key.to_owned(), it.value.map(text)))
            .collect()
    }

    #[test]
    fn the_records_own_headers_come_first_as_they_were() {
        let own = |key: &'static [u8], value: Option<&'static [u8]>| RawHeader {
            key: key.into(),
            value: value.map(Into::into),
        };
        let original = RawRecord {
            headers: vec![own(b"b", Some(b"1")), own(b"a", None), own(b"b", Some(b""))],
            ..raw_record(41)
        };
        let letter = letter(Stage::TaskPut, "no", Some(original));
        let plain = texts(&of(&letter, None).unwrap());
        let expected = [("b", Some("1")), ("a", None), ("b", Some(""))];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned)));
        assert_eq!(plain, expected);
        let full = texts(&of(&letter, Some(&context())).unwrap());
        assert_eq!((&full[..3], full.len()), (&expected[..], 13));
    }

    #[test]
    fn context_headers_are_connects_and_texts() {
        let letter = letter(Stage::ValueConverter, "no JSON", None);
        let written = texts(&of(&letter, Some(&context())).unwrap());
        let expected = [
            ("topic", "orders"),
            ("partition", "3"),
            ("offset", "41"),
            ("connector.name", "orders"),
            ("task.id", "7"),
            ("stage", "VALUE_CONVERTER"),
            ("class.name", "ValueC"),
            ("exception.class.name", "sluice.ConvertError"),
            ("exception.message", "no JSON"),
            (
                "exception.stacktrace",
                "sluice.ConvertError: no JSON\n\tat ValueC (VALUE_CONVERTER)\n",
            ),
        ];
        let expected =
            expected.map(|(name, text)| (format!("{PREFIX}{name}"), Some(text.to_owned())));
        assert_eq!(written, expected);
    }

    #[test]
    fn the_class_is_that_of_the_plugin_that_was_at_work() {
        let context = context();
        for (stage, cause, class) in [
            (Stage::KeyConverter, "x", "KeyC"),
            (Stage::HeaderConverter, "x", "HeaderC"),
            (Stage::Transformation, "transforms.ab: x", "Second"),
            (Stage::Transformation, "transforms.a: x", "First"),
            (
                Stage::Transformation,
                "panicked",
                "sluice.TransformationChain",
            ),
            (Stage::TaskPut, "transforms.a: x", "http"),
        ] {
            assert_eq!(
                context.class(&Rejection::new(stage, cause)),
                class,
                "{cause}"
            );
        }
    }

    #[test]
    fn a_letter_without_headers_has_none() {
        assert!(of(&letter(Stage::TaskPut, "no", Some(raw_record(1))), None).is_none());
    }
}
