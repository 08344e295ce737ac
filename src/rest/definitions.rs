//! Keys and their values as Connect tells them to forms and tools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::config::connector::{self, ConnectorConfig};
use crate::config::definition::{Key, Kind, Preset};
use crate::config::overrides::OVERRIDE;
use crate::config::producer::PRODUCER_OVERRIDE;
use crate::config::secrets;
use crate::config::worker::Checked;

/// Connect's `ConfigKeyInfo` of each key of a table.
pub(super) fn of_table(prefix: &str, keys: &'static [Key]) -> Vec<Value> {
    let group = group(prefix, keys);
    let keys = keys.iter().enumerate();
    let told = keys.map(|(place, key)| of_key(&format!("{prefix}{}", key.name), key, group, place));
    told.collect()
}

fn of_key(name: &str, key: &Key, group: &str, place: usize) -> Value {
    let is_required = key.preset == Preset::Required;
    json!({
        "name": name,
        "type": kind(key.kind),
        "required": is_required,
        "default_value": preset(key),
        "importance": if is_required { "HIGH" } else { "MEDIUM" },
        "documentation": key.doc,
        "group": group,
        "order_in_group": place + 1,
        "width": "MEDIUM",
        "display_name": name,
        "dependents": [],
    })
}

/// By the names of Kafka's `ConfigDef`.
const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "BOOLEAN",
        Kind::Int { max, .. } if max <= i32::MAX as i64 => "INT",
        Kind::Int { .. } | Kind::DurationMs | Kind::Size => "LONG",
        Kind::Text | Kind::Choice(_) => "STRING",
        Kind::List => "LIST",
        Kind::Secret => "PASSWORD",
    }
}

const fn preset(key: &Key) -> Option<&'static str> {
    match key.preset {
        Preset::Value(value) => Some(value),
        Preset::Required | Preset::Unset => None,
    }
}

/// The heading of a table's keys in a form.
fn group<'a>(prefix: &'a str, keys: &'static [Key]) -> &'a str {
    match prefix.strip_suffix('.') {
        Some(prefix) => prefix,
        None if keys == connector::KEYS => "Common",
        None => "Plugin",
    }
}

/// Connect's `ConfigInfos`: every key that the configuration may have, with
/// its value and what is wrong with it.
pub(super) fn validated(class: &str, checked: &Checked<ConnectorConfig>) -> Value {
    let mut faults: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for fault in checked.faults.iter() {
        faults.entry(&fault.key).or_default().push(&fault.message);
    }
    let (mut configs, mut groups) = (Vec::new(), BTreeSet::new());
    let mut told = BTreeSet::new();
    for (prefix, keys) in checked.known.tables() {
        let group = group(prefix, keys);
        for (place, key) in keys.iter().enumerate() {
            let name = format!("{prefix}{}", key.name);
            let is_asked = checked.settings.is_given(&name) || faults.contains_key(&*name);
            if (is_client(prefix) && !is_asked) || told.contains(&name) {
                continue;
            }
            let errors = faults.remove(&*name).unwrap_or_default();
            configs.push(json!({
                "definition": of_key(&name, key, group, place),
                "value": value(&name, Some(key), checked, &errors),
            }));
            groups.insert(group);
            told.insert(name);
        }
    }
    // As Connect tells what no definition knows.
    for (name, errors) in faults {
        configs.push(json!({"definition": null, "value": value(name, None, checked, &errors)}));
    }
    json!({
        "name": class,
        "error_count": checked.faults.len(),
        "groups": groups,
        "configs": configs,
    })
}

/// Kafka's clients have hundreds of keys: only those that were given are told.
fn is_client(prefix: &str) -> bool {
    [OVERRIDE, PRODUCER_OVERRIDE].contains(&prefix)
}

/// Connect's `ConfigValueInfo`.
fn value(
    name: &str,
    key: Option<&Key>,
    checked: &Checked<ConnectorConfig>,
    errors: &[&str],
) -> Value {
    let set = secrets::setting(&checked.settings, name, key);
    let set = set.or_else(|| preset(key?).map(|text| secrets::shown(name, key, text)));
    let choices: &[&str] = match key.map(|key| key.kind) {
        Some(Kind::Choice(choices)) => choices,
        _ => &[],
    };
    json!({
        "name": name,
        "value": set,
        "recommended_values": choices,
        "errors": errors,
        "visible": true,
    })
}
