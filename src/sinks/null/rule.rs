//! The rule language of the null sink: which records something happens to.
//!
//! Conditions are parted by commas, and all must hold:
//! `topic=orders,every=1000`, `value=poison,times=2`.

use std::collections::HashMap;
use std::str::FromStr;

use memchr::memmem::Finder;
use parking_lot::Mutex;

use sluice_actors::record::{RecordId, SinkRecord};
use sluice_actors::value::Value;

/// The conditions, as they stand in docs and faults.
pub(super) const LANGUAGE: &str = "conditions parted by commas, of which all must hold: \
    topic=NAME, partition=N, offset=N, every=N (each N-th offset of a partition), \
    delivery=N (the N-th delivery), key=TEXT, value=TEXT, header.NAME=TEXT (contains that text), \
    times=N (the first N times that a record comes)";

/// Says of each record whether the rule applies to it.
#[derive(Debug)]
pub(super) struct Rule {
    conditions: Vec<Condition>,
    times: Option<u32>,
    /// How often the records of a rule with `times` came, over all tasks: a
    /// retry may come to another task.
    seen: Mutex<HashMap<RecordId, u32>>,
}

#[derive(Debug)]
enum Condition {
    Topic(String),
    Partition(i32),
    Offset(i64),
    Every(i64),
    Delivery(u16),
    Key(Finder<'static>),
    Value(Finder<'static>),
    Header(String, Finder<'static>),
}

impl Rule {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rule = Self {
            conditions: Vec::new(),
            times: None,
            seen: Mutex::default(),
        };
        for part in text.split(',') {
            let (name, wanted) = part
                .split_once('=')
                .map(|(name, wanted)| (name.trim(), wanted.trim()))
                .filter(|(_, wanted)| !wanted.is_empty())
                .ok_or_else(|| format!("{part:?} is not NAME=VALUE; write {LANGUAGE}"))?;
            match name {
                "times" => rule.times = Some(number(name, wanted)?),
                _ => rule.conditions.push(Condition::parse(name, wanted)?),
            }
        }
        Ok(rule)
    }

    /// Unless the rule says otherwise, it applies to a record once.
    pub(super) fn once(mut self) -> Self {
        self.times.get_or_insert(1);
        self
    }

    /// Whether it applies to this record now. Counts the record's visits.
    pub(super) fn applies(&self, record: &SinkRecord) -> bool {
        if !self.conditions.iter().all(|one| one.holds(record)) {
            return false;
        }
        self.times.is_none_or(|times| {
            let mut seen = self.seen.lock();
            let visits = seen.entry(record.id()).or_default();
            let applies = *visits < times;
            *visits += u32::from(applies);
            applies
        })
    }
}

impl Condition {
    fn parse(name: &str, wanted: &str) -> Result<Self, String> {
        let text = || Finder::new(wanted).into_owned();
        Ok(match name {
            "topic" => Self::Topic(wanted.to_owned()),
            "partition" => Self::Partition(number(name, wanted)?),
            "offset" => Self::Offset(number(name, wanted)?),
            "every" => match number(name, wanted)? {
                step if step > 0 => Self::Every(step),
                _ => return Err(format!("every={wanted}: must be more than 0")),
            },
            "delivery" => Self::Delivery(number(name, wanted)?),
            "key" => Self::Key(text()),
            "value" => Self::Value(text()),
            _ => match name.strip_prefix("header.") {
                Some(header) => Self::Header(header.to_owned(), text()),
                None => return Err(format!("{name:?} is not a condition; write {LANGUAGE}")),
            },
        })
    }

    fn holds(&self, record: &SinkRecord) -> bool {
        match self {
            Self::Topic(topic) => *topic == *record.topic,
            Self::Partition(partition) => *partition == record.partition.partition,
            Self::Offset(offset) => *offset == record.offset,
            // By offset, not by count: a record that comes again is the same.
            Self::Every(step) => (record.offset + 1) % step == 0,
            Self::Delivery(delivery) => *delivery == record.delivery_count,
            Self::Key(text) => contains(&record.key.value, text),
            Self::Value(text) => contains(&record.value.value, text),
            Self::Header(name, text) => record
                .headers
                .iter()
                .any(|header| *header.key == **name && contains(&header.value.value, text)),
        }
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name}={text}: {text:?} is not a whole number that fits"))
}

/// Whether the text is in this value, or in any value inside it; a number
/// must be it.
fn contains(value: &Value, text: &Finder<'_>) -> bool {
    let is = |shown: String| shown.as_bytes() == text.needle();
    match value {
        Value::Null => false,
        Value::Boolean(value) => is(value.to_string()),
        Value::Int8(value) => is(value.to_string()),
        Value::Int16(value) => is(value.to_string()),
        Value::Int32(value) => is(value.to_string()),
        Value::Int64(value) => is(value.to_string()),
        Value::Float32(value) => is(value.to_string()),
        Value::Float64(value) => is(value.to_string()),
        Value::Decimal(value) => is(value.to_string()),
        Value::String(value) => text.find(value.as_bytes()).is_some(),
        Value::Bytes(value) => text.find(value).is_some(),
        Value::Array(values) | Value::Struct(values) => {
            values.iter().any(|value| contains(value, text))
        }
        Value::Map(entries) => entries
            .iter()
            .any(|(key, value)| contains(key, text) || contains(value, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::contract::{record, text_record, with_header};
    use sluice_actors::value::Datum;

    fn applies(rule: &str, record: &SinkRecord) -> bool {
        Rule::parse(rule).unwrap().applies(record)
    }

    #[test]
    fn all_conditions_must_hold() {
        let record = text_record(5, "some poison here");
        assert!(applies("offset=5", &record));
        assert!(applies(" offset = 5 , value=poison ", &record));
        assert!(applies("topic=orders,partition=0,delivery=1", &record));
        assert!(!applies("offset=5,value=honey", &record));
        assert!(!applies("offset=5,partition=1", &record));
        assert!(!applies("offset=5,delivery=2", &record));
    }

    #[test]
    fn every_goes_by_offset_so_that_a_retry_is_the_same_record() {
        let rule = Rule::parse("every=3").unwrap();
        for _ in 0..2 {
            let hits: Vec<_> = (0..9)
                .filter(|offset| rule.applies(&text_record(*offset, "x")))
                .collect();
            assert_eq!(hits, [2, 5, 8]);
        }
    }

    #[test]
    fn times_counts_each_record_apart() {
        let rule = Rule::parse("value=x,times=2").unwrap();
        let one = text_record(1, "x");
        let other = text_record(2, "x");
        assert!(rule.applies(&one) && rule.applies(&one));
        assert!(!rule.applies(&one));
        assert!(rule.applies(&other));
    }

    #[test]
    fn texts_are_found_in_keys_headers_and_inside_values() {
        let nested = Value::Map(vec![(
            Value::String("item".into()),
            Value::Array(vec![Value::Int32(7), Value::Bytes("a poison".into())]),
        )]);
        let mut record = with_header(record(0, Datum::schemaless(nested)), "kind", "bad one");
        record.key = Datum::schemaless(Value::String("k-1".into()));
        assert!(applies("value=poison", &record));
        assert!(applies("value=item,value=7", &record));
        assert!(!applies("value=70", &record));
        assert!(applies("key=k-", &record));
        assert!(applies("header.kind=bad", &record));
        assert!(!applies("header.sort=bad", &record));
    }

    #[test]
    fn nulls_match_no_text() {
        let record = record(0, Datum::null());
        assert!(!applies("value=null", &record));
        assert!(!applies("key=null", &record));
    }

    #[test]
    fn wrong_rules_are_told_what_is_right() {
        for (rule, part) in [
            ("", "is not NAME=VALUE"),
            ("offset", "\"offset\" is not NAME=VALUE"),
            ("value=", "\"value=\" is not NAME=VALUE"),
            ("offset=five", "\"five\" is not a whole number"),
            ("partition=99999999999", "not a whole number that fits"),
            ("every=0", "must be more than 0"),
            ("ofset=5", "\"ofset\" is not a condition; write"),
        ] {
            let error = Rule::parse(rule).unwrap_err();
            assert!(error.contains(part), "{rule}: {error}");
        }
    }
}
