//! Every transform and predicate beside Kafka Connect's own: `cases.jsonl` has
//! what Connect 4.4.0 made of each case, printed by `Oracle.java` beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use sluice_actors::ports::converter::Converter;
use sluice_actors::record::{Header, SinkRecord};
use sluice_actors::value::Datum;

use super::aliased::Aliased;
use super::testing;
use crate::config::definition::{Faults, Properties};
use crate::converters::json::{WriteOptions, to_json};
use crate::converters::part::Part;
use crate::converters::registry::converter;

const CASES: &str = include_str!("oracle/cases.jsonl");
const PREDICATES: &str = "predicates.";
/// Drops records, so that a predicate shows.
const FILTER: &str = "Filter";
/// The default that Connect's converters have would hide the transforms'.
const NULLS: (&str, &str) = ("value.converter.replace.null.with.default", "false");

struct Oracle {
    converter: Arc<dyn Converter>,
}

impl Oracle {
    fn new() -> Self {
        let properties = Properties::from([(NULLS.0.to_owned(), NULLS.1.to_owned())]);
        let converter = converter("json", Part::Value, &properties, &mut Faults::default());
        Self {
            converter: converter.unwrap(),
        }
    }

    fn datum(&self, envelope: &Json) -> Datum {
        let text = (!envelope.is_null()).then(|| Bytes::from(envelope.to_string()));
        self.converter.to_datum("t", text.as_ref()).unwrap()
    }

    fn record(&self, case: &Json) -> SinkRecord {
        let mut record = testing::record(self.datum(&case["key"]), self.datum(&case["value"]));
        if let Some(topic) = case["topic"].as_str() {
            record.topic = topic.into();
        }
        if case.get("timestamp").is_some() {
            record.timestamp = None;
        }
        let headers = case["headers"].as_array().into_iter().flatten();
        record.headers = headers
            .map(|key| Header {
                key: key.as_str().unwrap().into(),
                value: Datum::null(),
            })
            .collect();
        record
    }

    /// Numbers without a schema have a type that JSON does not show.
    fn is_same(&self, datum: &Datum, expected: &Json) -> bool {
        if expected.is_null() || !expected["schema"].is_null() {
            return *datum == self.datum(expected);
        }
        let text = to_json(datum, WriteOptions::default()).unwrap().unwrap();
        let payload: Json = serde_json::from_slice(&text).unwrap();
        datum.schema.is_none() && payload == expected["payload"]
    }

    /// What a record became, put as the oracle does.
    fn judge(&self, case: &Json, record: Option<SinkRecord>) -> Json {
        let Some(record) = record else {
            return json!("dropped");
        };
        let expected = &case["expected"];
        let mut seen = json!({"topic": &*record.topic});
        for (part, datum) in [("key", &record.key), ("value", &record.value)] {
            seen[part] = match self.is_same(datum, &expected[part]) {
                true => expected[part].clone(),
                false => json!(format!("{datum:?}")),
            };
        }
        seen
    }

    fn ask(&self, case: &Json) -> Json {
        let class = case["class"].as_str().unwrap();
        let settings: BTreeMap<&str, &str> = case["settings"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
            .collect();
        let settings: Vec<_> = settings.into_iter().collect();
        let predicate = class.strip_prefix(PREDICATES);
        let kind = predicate.map_or(Aliased::Transform, |_| Aliased::Predicate);
        if !testing::faults(kind, predicate.unwrap_or(class), &settings).is_empty() {
            return json!("refused");
        }
        let record = self.record(case);
        if let Some(predicate) = predicate {
            let filter = testing::build_for((predicate, &settings), false, FILTER);
            return json!(filter.apply(record).unwrap().is_none());
        }
        match testing::build(class, &settings).apply(record) {
            Ok(record) => self.judge(case, record),
            Err(_) => json!("rejected"),
        }
    }
}

/// Connect finds some faults only once a record comes, so for these a refusal
/// is as good.
fn is_as_good(answer: &Json, case: &Json) -> bool {
    let early = answer == "refused" && case["expected"] == "rejected";
    *answer == case["expected"] || (early && case["class"] == "RegexRouter")
}

#[test]
fn every_case_ends_as_with_connects_own_classes() {
    let oracle = Oracle::new();
    let cases: Vec<Json> = CASES
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(cases.len() > 90, "{}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, oracle.ask(case)))
        .filter(|(case, answer)| !is_as_good(answer, case))
        .map(|(case, answer)| format!("{}: {answer}\n  not {}", case["name"], case["expected"]))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
