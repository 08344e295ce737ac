//! Files: Java properties and JSON, as Kafka Connect's users have them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::definition::{Faults, Properties};
use super::layers::Layer;
use super::properties;

const NAME: &str = "name";

/// Reads a worker's or a connector's file by the ending of its name. `None`
/// after a fault, which names the file.
pub fn read(path: &Path, faults: &mut Faults) -> Option<Layer> {
    let shown = path.display().to_string();
    match read_file(path) {
        Ok(properties) => Some(Layer::of(properties, &format!("file {shown}"))),
        Err(message) => {
            faults.add(shown, message);
            None
        }
    }
}

fn read_file(path: &Path) -> Result<Properties, String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let parse = match ending {
        Some("json") => parse_json,
        Some("properties") => properties::parse,
        _ => return Err("is neither .json nor .properties; name it after what it holds".into()),
    };
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&text)
}

/// A flat object, or `{"name": ..., "config": {...}}` as Connect's REST takes
/// and gives it (`tasks` and `type` then stand beside it).
pub(super) fn parse_json(text: &str) -> Result<Properties, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Object(mut object) = value else {
        return Err("is not a JSON object".into());
    };
    let config = match object.remove("config") {
        Some(Value::Object(config)) => config,
        // A key of that name, or none.
        other => {
            object.extend(other.map(|value| ("config".to_owned(), value)));
            return scalars(object);
        }
    };
    object.retain(|key, _| !matches!(key.as_str(), "tasks" | "type"));
    let mut properties = scalars(config)?;
    let outer = scalars(object)?;
    if let Some(stray) = outer.keys().find(|key| *key != NAME) {
        return Err(format!(
            "{stray:?} stands beside \"config\"; settings belong inside it"
        ));
    }
    if let Some(name) = outer.get(NAME) {
        let inner = properties
            .entry(NAME.to_owned())
            .or_insert_with(|| name.clone());
        if inner != name {
            return Err(format!(
                "names the connector {name:?} and, in its config, {inner:?}"
            ));
        }
    }
    Ok(properties)
}

/// Scalars as text, numbers as they were written; null is a key that is not
/// set, as in Connect.
fn scalars(object: serde_json::Map<String, Value>) -> Result<Properties, String> {
    let mut properties = Properties::new();
    for (key, value) in object {
        let text = match value {
            Value::Null => continue,
            Value::Bool(value) => value.to_string(),
            Value::Number(value) => value.to_string(),
            Value::String(value) => value,
            Value::Array(_) => {
                return Err(format!(
                    "{key:?} is a list; write it as one text with commas"
                ));
            }
            Value::Object(_) => {
                return Err(format!(
                    "{key:?} is an object; settings are flat, write keys with dots"
                ));
            }
        };
        properties.insert(key, text);
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_object_and_the_rest_form_say_the_same() {
        let flat = parse_json(r#"{"name": "n", "topics": "orders", "tasks.max": 2}"#).unwrap();
        let rest = r#"{"name": "n", "config": {"topics": "orders", "tasks.max": 2}, "tasks": [], "type": "sink"}"#;
        assert_eq!(parse_json(rest).unwrap(), flat);
        let other = r#"{"name": "n", "config": {"name": "m"}}"#;
        assert_eq!(
            parse_json(other).unwrap_err(),
            r#"names the connector "n" and, in its config, "m""#
        );
    }

    #[test]
    fn scalars_become_text_as_they_were_written() {
        let content =
            parse_json(r#"{"a": 12345678901234567890123, "b": true, "c": 1.50, "d": null}"#)
                .unwrap();
        let pairs: Vec<_> = content
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("a", "12345678901234567890123"),
                ("b", "true"),
                ("c", "1.50")
            ]
        );
    }

    #[test]
    fn what_is_not_flat_is_refused_by_its_key() {
        let message = |text| parse_json(text).unwrap_err();
        assert!(message(r#"{"topics": ["a"]}"#).contains("\"topics\" is a list"));
        assert!(message(r#"{"key": {"converter": 1}}"#).contains("\"key\" is an object"));
        assert!(
            message(r#"{"config": {}, "tasks.max": 1}"#).contains("\"tasks.max\" stands beside")
        );
        assert!(message("[]").contains("not a JSON object"));
    }

    #[test]
    fn a_config_that_is_a_text_is_a_key_like_any_other() {
        let content = parse_json(r#"{"config": "x"}"#).unwrap();
        assert_eq!(content.get("config").map(String::as_str), Some("x"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let mut faults = Faults::default();
        read(Path::new("/nowhere/worker.properties"), &mut faults);
        read(Path::new("/nowhere/worker.yaml"), &mut faults);
        let shown = faults.to_string();
        assert!(
            shown.contains("/nowhere/worker.properties: cannot be read"),
            "{shown}"
        );
        assert!(
            shown.contains("/nowhere/worker.yaml: is neither .json nor .properties"),
            "{shown}"
        );
    }
}
