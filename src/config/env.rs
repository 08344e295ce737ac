//! The environment: the only file that reads it.
//!
//! `SLUICE_<KEY>` is a worker's key, `CONNECT_<KEY>` too (it gives way),
//! `SLUICE_SINK_<ALIAS>_<KEY>` a connector's; `OTEL_<...>` is the worker's key
//! of that name, if there is one. In `<KEY>`, `_` stands for a dot,
//! `__` for a dash, `___` for an underscore. `<KEY>_FILE` names a file that
//! holds the secret `<KEY>`, or the address, which may be one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::definition::{Faults, Key, Kind};
use super::files;
use super::layers::Layer;
use super::notes::Notes;
use super::secrets::{is_address, is_secret};
use super::unread;
use super::worker::{self, Checked, WorkerConfig};

const OURS: &str = "SLUICE_";
const CONNECT: &str = "CONNECT_";
const SINK: &str = "SLUICE_SINK_";
const OPENTELEMETRY: &str = "OTEL_";
/// What origins begin with.
const ENVIRONMENT: &str = "environment ";

/// Variables by name, passed in so that tests need no process of their own.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The process's own. Variables that are not text are none of ours.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    #[must_use]
    pub fn of(variables: BTreeMap<String, String>) -> Self {
        Self(variables)
    }

    /// One variable.
    #[must_use]
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub struct FromEnvironment {
    pub worker: Layer,
    /// By alias, in lower case.
    pub connectors: BTreeMap<String, Layer>,
    pub faults: Faults,
    pub notes: Notes,
    unreadable: BTreeSet<String>,
}

/// Sorts the variables out.
#[must_use]
pub fn read(environment: &Environment) -> FromEnvironment {
    let mut found = FromEnvironment::default();
    let mut lower = Layer::default();
    let mut whole = BTreeMap::new();
    for (name, value) in &environment.0 {
        if is_service_link(name, value) {
            found.notes.add(
                name,
                "is set by Kubernetes for a service of that name; not read",
            );
        } else if let Some(rest) = name.strip_prefix(SINK) {
            found.take_connector(name, rest, value, &mut whole);
        } else if let Some(key) = name.strip_prefix(OURS) {
            put(&mut found.worker, &mut found.faults, name, key, value);
        } else if let Some(key) = name.strip_prefix(CONNECT) {
            put(&mut lower, &mut found.faults, name, key, value);
        } else if is_opentelemetrys(name) && !value.is_empty() {
            put(&mut lower, &mut found.faults, name, name, value);
        } else if let Some(reason) = unread::reason(name, value).filter(|_| !value.is_empty()) {
            found.notes.no_effect(name, &reason);
        }
    }
    found.worker.or(lower);
    for (alias, layer) in whole {
        found.connectors.entry(alias).or_default().or(layer);
    }
    // Their other faults would only follow from that one.
    let unreadable = std::mem::take(&mut found.unreadable);
    found
        .connectors
        .retain(|alias, _| !unreadable.contains(alias));
    found
}

impl FromEnvironment {
    /// Leaves out what a worker that was read by it finds wrong with variables
    /// that platforms set for all programs alike. It may fit others;
    /// OpenTelemetry wants it to be told and not used. Whether there was any:
    /// the rest may now be wrong, or right, without it.
    pub(super) fn leave_out_unfit(&mut self, worker: &Checked<WorkerConfig>) -> bool {
        let mut is_any = false;
        for fault in worker.faults.iter() {
            let origin = worker.settings.origin(&fault.key);
            let variable = origin.strip_prefix(ENVIRONMENT).unwrap_or_default();
            if variable.starts_with(OPENTELEMETRY) && self.worker.remove(&fault.key) {
                let message = format!("is not used: {}", fault.message);
                self.notes.add(variable, message);
                is_any = true;
            }
        }
        is_any
    }

    fn take_connector(
        &mut self,
        variable: &str,
        rest: &str,
        value: &str,
        whole: &mut BTreeMap<String, Layer>,
    ) {
        let (alias, key) = match rest.split_once('_') {
            Some((alias, key)) if !alias.is_empty() && !key.is_empty() => (alias, key),
            _ => {
                self.faults.add(
                    variable,
                    "has no alias and key; the form is SLUICE_SINK_<ALIAS>_<KEY>, with an alias of letters and digits",
                );
                return;
            }
        };
        let alias = alias.to_lowercase();
        let layer = self.connectors.entry(alias.clone()).or_default();
        if key != "JSON" {
            put(layer, &mut self.faults, variable, key, value);
            return;
        }
        match files::parse_json(value) {
            Ok(properties) => {
                whole.insert(alias, Layer::of(properties, &origin(variable)));
            }
            Err(message) => {
                self.faults.add(variable, message);
                self.unreadable.insert(alias);
            }
        }
    }
}

/// Others of OpenTelemetry's are for signals that this worker has not.
fn is_opentelemetrys(name: &str) -> bool {
    let key = decode(name.strip_suffix("_FILE").unwrap_or(name));
    name.starts_with(OPENTELEMETRY) && opentelemetrys(&key).is_some()
}

fn opentelemetrys(key: &str) -> Option<&'static Key> {
    let mut keys = worker::OPENTELEMETRY.into_iter().flatten();
    keys.find(|it| it.name == key)
}

fn is_secret_of_opentelemetrys(key: &str) -> bool {
    opentelemetrys(key).is_some_and(|it| it.kind == Kind::Secret)
}

fn origin(variable: &str) -> String {
    format!("{ENVIRONMENT}{variable}")
}

/// Puts a variable's value, or for a secret's `_FILE` that file's content.
fn put(layer: &mut Layer, faults: &mut Faults, variable: &str, encoded: &str, value: &str) {
    let secret = encoded
        .strip_suffix("_FILE")
        .map(decode)
        .filter(|key| is_secret(key) || is_address(key) || is_secret_of_opentelemetrys(key));
    let Some(key) = secret else {
        let key = decode(encoded);
        if layer.contains(&key) {
            faults.add(variable, format!("gives {key} a second time"));
        }
        layer.put(key, value, origin(variable));
        return;
    };
    if layer.contains(&key) {
        faults.add(variable, format!("gives {key} a second time"));
    }
    match fs::read_to_string(value) {
        Ok(secret) => layer.put(key, secret.trim_end_matches(['\r', '\n']), origin(variable)),
        Err(error) => faults.add(variable, format!("{value} cannot be read: {error}")),
    }
}

/// `_` is a dot, `__` a dash, `___` an underscore.
fn decode(encoded: &str) -> String {
    let mut key = String::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some(character) = rest.chars().next() {
        let (plain, length) = match character {
            '_' if rest.starts_with("___") => ('_', 3),
            '_' if rest.starts_with("__") => ('-', 2),
            '_' => ('.', 1),
            other => (other, other.len_utf8()),
        };
        key.extend(plain.to_lowercase());
        rest = &rest[length..];
    }
    key
}

/// Kubernetes describes each service in the environment of every pod, so a
/// service called `sluice` or `connect` comes with `SLUICE_PORT` and more.
fn is_service_link(name: &str, value: &str) -> bool {
    let tail = |marker| name.rsplit_once(marker).map(|(_, tail)| tail);
    if name.ends_with("_SERVICE_HOST") || tail("_SERVICE_PORT").is_some_and(starts_part) {
        return true;
    }
    let address = ["tcp://", "udp://", "sctp://"];
    if name.ends_with("_PORT") && address.iter().any(|scheme| value.starts_with(scheme)) {
        return true;
    }
    tail("_PORT_").is_some_and(|tail| {
        let mut parts = tail.split('_');
        let is_number = |part: &str| part.parse::<u16>().is_ok();
        parts.next().is_some_and(is_number) && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    })
}

fn starts_part(tail: &str) -> bool {
    tail.is_empty() || tail.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app;
    use crate::config::layers::Settings;
    use crate::config::reference;

    fn read_all<const N: usize>(variables: [(&str, &str); N]) -> FromEnvironment {
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        read(&Environment::of(variables.into()))
    }

    #[test]
    fn underscores_spell_dot_dash_and_underscore() {
        let found = read_all([
            ("SLUICE_KEY_CONVERTER", "json"),
            ("SLUICE_KEY_CONVERTER_SCHEMAS_ENABLE", "false"),
            ("SLUICE_A__B___C_D", "x"),
            ("HOME", "/root"),
        ]);
        assert_eq!(found.worker.get("key.converter"), Some("json"));
        assert_eq!(
            found.worker.get("key.converter.schemas.enable"),
            Some("false")
        );
        assert_eq!(found.worker.get("a-b_c.d"), Some("x"));
        assert!(!found.worker.contains("home"));
    }

    /// As its rule says it to the user.
    fn encode(key: &str) -> String {
        let encoded = key.replace('_', "___").replace('-', "__").replace('.', "_");
        encoded.to_uppercase()
    }

    #[test]
    fn every_key_that_there_is_can_be_given_by_a_variable() {
        let tables = reference::TABLES
            .iter()
            .cloned()
            .chain(app::plugin_tables());
        let keys: Vec<&str> = tables
            .flat_map(|table| table.keys.iter().map(|key| key.name))
            .collect();
        assert!(keys.len() > 100, "{}", keys.len());
        for key in keys {
            for prefix in [
                "",
                "consumer.override.",
                "value.converter.",
                "transforms.t.",
            ] {
                let key = format!("{prefix}{key}");
                let (worker, sink) = (encode(&key), format!("SINK_X_{}", encode(&key)));
                let found = read_all([
                    (&*format!("SLUICE_{worker}"), "v"),
                    (&*format!("SLUICE_{sink}"), "v"),
                ]);
                assert_eq!(found.worker.get(&key), Some("v"), "SLUICE_{worker}");
                assert_eq!(found.connectors["x"].get(&key), Some("v"), "SLUICE_{sink}");
                assert!(found.faults.is_empty(), "{}", found.faults);
            }
        }
    }

    #[test]
    fn sluice_wins_over_connect() {
        let found = read_all([
            ("CONNECT_BOOTSTRAP_SERVERS", "theirs:9092"),
            ("CONNECT_GROUP_ID", "g"),
            ("SLUICE_BOOTSTRAP_SERVERS", "ours:9092"),
        ]);
        let settings = Settings::merge([found.worker]).unwrap();
        assert_eq!(settings.get("bootstrap.servers"), Some("ours:9092"));
        assert_eq!(
            settings.origin("bootstrap.servers"),
            "environment SLUICE_BOOTSTRAP_SERVERS"
        );
        assert_eq!(settings.get("group.id"), Some("g"));
    }

    #[test]
    fn opentelemetrys_variables_are_keys_of_the_worker() {
        let found = read_all([
            ("OTEL_TRACES_SAMPLER", "always_off"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs:4317"),
            ("SLUICE_OTEL_EXPORTER_OTLP_ENDPOINT", "http://ours:4317"),
            ("OTEL_SERVICE_NAME", ""),
            ("OTEL_METRICS_EXPORTER", "otlp"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_EXPORTER_OTLP_HEADERS_FILE", "/nowhere"),
        ]);
        let unread = "OTEL_EXPORTER_OTLP_HEADERS_FILE: /nowhere cannot be read";
        assert!(found.faults.to_string().starts_with(unread));
        let worker = Settings::merge([found.worker]).unwrap();
        let origin = "environment OTEL_TRACES_SAMPLER";
        assert_eq!(worker.origin("otel.traces.sampler"), origin);
        let endpoint = worker.get("otel.exporter.otlp.endpoint");
        assert_eq!(endpoint, Some("http://ours:4317"));
        assert_eq!(
            worker.properties().len(),
            3,
            "empty and unknown ones are not taken"
        );
        let notes: Vec<_> = found.notes.iter().map(|it| &*it.key).collect();
        assert_eq!(notes, ["OTEL_LOGS_EXPORTER"]);
    }

    #[test]
    fn a_connector_is_known_by_its_alias() {
        let found = read_all([
            ("SLUICE_SINK_ORDERS_NAME", "orders-to-file"),
            ("SLUICE_SINK_ORDERS_TOPICS", "orders"),
            ("SLUICE_SINK_ORDERS_KEY_CONVERTER", "json"),
            ("SLUICE_SINK_ORDERS_KEY_CONVERTER_SCHEMAS_ENABLE", "false"),
            ("SLUICE_SINK_OTHER_TOPICS", "other"),
        ]);
        assert_eq!(found.connectors.len(), 2);
        let orders = &found.connectors["orders"];
        assert_eq!(orders.get("name"), Some("orders-to-file"));
        assert_eq!(orders.get("topics"), Some("orders"));
        assert_eq!(orders.get("key.converter"), Some("json"));
        assert_eq!(orders.get("key.converter.schemas.enable"), Some("false"));
        assert!(found.worker.is_empty());
    }

    #[test]
    fn a_whole_connector_gives_way_to_single_keys() {
        let found = read_all([
            (
                "SLUICE_SINK_X_JSON",
                r#"{"name":"n","config":{"topics":"a","tasks.max":2}}"#,
            ),
            ("SLUICE_SINK_X_TOPICS", "b"),
        ]);
        let connector = &found.connectors["x"];
        assert_eq!(connector.get("name"), Some("n"));
        assert_eq!(connector.get("topics"), Some("b"));
        assert_eq!(connector.get("tasks.max"), Some("2"));
    }

    #[test]
    fn a_secret_may_lie_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "hush\n").unwrap();
        let path = path.to_str().unwrap();
        let found = read_all([
            ("SLUICE_SSL_KEY_PASSWORD_FILE", path),
            ("SLUICE_SINK_X_FILE", "/tmp/out"),
            ("SLUICE_SINK_X_HTTP_URL_FILE", path),
            ("SLUICE_SINK_X_DB_PASSWORD_FILE", "/nowhere"),
        ]);
        assert_eq!(found.worker.get("ssl.key.password"), Some("hush"));
        assert_eq!(found.connectors["x"].get("file"), Some("/tmp/out"));
        assert_eq!(found.connectors["x"].get("http.url"), Some("hush"));
        assert!(
            found
                .faults
                .to_string()
                .starts_with("SLUICE_SINK_X_DB_PASSWORD_FILE: /nowhere cannot be read")
        );
    }

    #[test]
    fn a_secret_is_given_once() {
        let found = read_all([
            ("SLUICE_SSL_KEY_PASSWORD", "hush"),
            ("SLUICE_SSL_KEY_PASSWORD_FILE", "/nowhere"),
        ]);
        assert!(
            found
                .faults
                .to_string()
                .contains("gives ssl.key.password a second time")
        );
    }

    #[test]
    fn kubernetes_may_call_its_services_as_it_likes() {
        let found = read_all([
            ("SLUICE_SERVICE_HOST", "10.0.0.1"),
            ("SLUICE_SERVICE_PORT", "8083"),
            ("SLUICE_SERVICE_PORT_HTTP", "8083"),
            ("SLUICE_PORT", "tcp://10.0.0.1:8083"),
            ("SLUICE_PORT_8083_TCP", "tcp://10.0.0.1:8083"),
            ("CONNECT_PORT_8083_TCP_ADDR", "10.0.0.1"),
        ]);
        assert!(found.worker.is_empty(), "{:?}", found.worker);
        assert_eq!(found.notes.iter().count(), 6);
        assert!(
            read_all([("SLUICE_REST_PORT", "8083")])
                .worker
                .contains("rest.port")
        );
    }

    /// Its other faults would only follow from the first.
    #[test]
    fn a_whole_connector_that_cannot_be_read_is_left_out() {
        let found = read_all([("SLUICE_SINK_X_JSON", "{"), ("SLUICE_SINK_X_TOPICS", "b")]);
        assert!(found.connectors.is_empty());
        let fault = found.faults.to_string();
        assert!(
            fault.starts_with("SLUICE_SINK_X_JSON: is not JSON"),
            "{fault}"
        );
    }

    #[test]
    fn a_connector_variable_without_a_key_is_refused() {
        for name in [
            "SLUICE_SINK_ORDERS",
            "SLUICE_SINK__TOPICS",
            "SLUICE_SINK_ORDERS_",
        ] {
            let found = read_all([(name, "x")]);
            assert!(found.faults.to_string().starts_with(name), "{name}");
        }
    }
}
