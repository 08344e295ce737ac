//! Results of single records inside a successful answer.

use serde_json::Value;

use crate::config::definition::Reader;
use crate::sinks::http::keys;

/// Where the results are.
#[derive(Clone, Debug)]
pub(super) struct Items {
    results: String,
    status: Option<String>,
    error: Option<String>,
}

/// What a result says of its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Fine,
    /// As the status of an answer, with the error that explains it.
    Status(u16, String),
    Failed(String),
}

impl Items {
    /// `None` when answers have none.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let [results, status, error] =
            [keys::ITEMS, keys::ITEM_STATUS, keys::ITEM_ERROR].map(|key| pointer(reader, key));
        let Some(results) = results else {
            for (key, given) in [(keys::ITEM_STATUS, &status), (keys::ITEM_ERROR, &error)] {
                if given.is_some() {
                    let message = format!("has no use without {}", keys::ITEMS);
                    reader.fault(key, message);
                }
            }
            return None;
        };
        if status.is_none() && error.is_none() {
            let (status, error) = (keys::ITEM_STATUS, keys::ITEM_ERROR);
            reader.fault(keys::ITEMS, format!("needs {status} or {error}"));
        }
        Some(Self {
            results,
            status,
            error,
        })
    }

    /// One for each record. An error when that cannot be told: then none of
    /// them counts as delivered.
    pub(super) fn of(&self, body: &[u8], records: usize) -> Result<Vec<Item>, String> {
        let body: Value =
            serde_json::from_slice(body).map_err(|_| "its body is no JSON".to_owned())?;
        let results = body
            .pointer(&self.results)
            .and_then(Value::as_array)
            .ok_or_else(|| format!("its body has no array at {:?}", self.results))?;
        if results.len() != records {
            return Err(format!(
                "it has {} results for {records} records",
                results.len()
            ));
        }
        results.iter().map(|result| self.item(result)).collect()
    }

    fn item(&self, result: &Value) -> Result<Item, String> {
        let error = self.error.as_ref().and_then(|at| result.pointer(at));
        let error = error.filter(|error| is_error(error)).map(text);
        let Some(pointer) = &self.status else {
            return Ok(error.map_or(Item::Fine, Item::Failed));
        };
        let status = result.pointer(pointer).and_then(number);
        match (status, error) {
            (Some(status), error) => Ok(Item::Status(status, error.unwrap_or_default())),
            (None, Some(error)) => Ok(Item::Failed(error)),
            (None, None) => Err(format!("a result has no status at {pointer:?}")),
        }
    }
}

fn pointer(reader: &mut Reader<'_>, key: &'static str) -> Option<String> {
    let pointer = reader.optional_text(key)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        reader.fault(
            key,
            format!("{pointer:?} is no JSON pointer; write it like /items"),
        );
    }
    Some(pointer)
}

fn is_error(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(parts) => !parts.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => number.as_u64()?.try_into().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Faults, Properties};

    fn read(settings: &[(&str, &str)]) -> (Option<Items>, Faults) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let items = Items::read(&mut Reader::new(&properties, "", keys::KEYS, &mut faults));
        (items, faults)
    }

    const BULK: [(&str, &str); 3] = [
        ("response.items.pointer", "/items"),
        ("response.item.status.pointer", "/index/status"),
        ("response.item.error.pointer", "/index/error/reason"),
    ];

    #[test]
    fn a_bulk_answer_tells_each_record() {
        let items = read(&BULK).0.unwrap();
        let body = br#"{"errors":true,"items":[{"index":{"status":201}},
            {"index":{"status":400,"error":{"reason":"no date"}}}]}"#;
        assert_eq!(
            items.of(body, 2).unwrap(),
            [
                Item::Status(201, String::new()),
                Item::Status(400, "no date".into())
            ]
        );
    }

    #[test]
    fn without_a_status_an_error_is_a_failure() {
        let settings = [
            ("response.items.pointer", ""),
            ("response.item.error.pointer", "/error"),
        ];
        let items = read(&settings).0.unwrap();
        let body = br#"[{},{"error":null},{"error":""},{"error":{"code":7}},{"error":true}]"#;
        let failed = |text: &str| Item::Failed(text.into());
        assert_eq!(
            items.of(body, 5).unwrap(),
            [
                Item::Fine,
                Item::Fine,
                Item::Fine,
                failed(r#"{"code":7}"#),
                failed("true")
            ]
        );
    }

    #[test]
    fn what_does_not_tell_each_record_tells_none() {
        let items = read(&BULK).0.unwrap();
        for (body, says) in [
            ("<html>", "no JSON"),
            ("{}", "no array at \"/items\""),
            (r#"{"items":{}}"#, "no array"),
            (r#"{"items":[{"index":{"status":201}}]}"#, "1 results for 2"),
            (r#"{"items":[{"index":{"status":201}},{}]}"#, "no status at"),
        ] {
            let error = items.of(body.as_bytes(), 2).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn pointers_are_checked_by_key() {
        let (_, faults) = read(&[("response.items.pointer", "items")]);
        let found = faults.to_string();
        assert!(found.contains("\"items\" is no JSON pointer"), "{found}");
        assert!(
            found.contains("needs response.item.status.pointer"),
            "{found}"
        );
        let (_, faults) = read(&[("response.item.error.pointer", "/e")]);
        assert!(
            faults
                .to_string()
                .contains("without response.items.pointer")
        );
    }
}
