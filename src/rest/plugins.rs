//! `/connector-plugins` and what is below it.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use super::definitions;
use super::error::RestError;
use super::state::{Parameters, Rest, is_set};
use crate::config::connector::{self, ConnectorConfig};
use crate::config::definition::Properties;
use crate::config::layers::Layer;
use crate::plugins::{Plugin, PluginType, VERSION};

const CLASS: &str = "connector.class";
/// Files that a configuration names may lie on a disk that does not answer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

type Answer = Result<Json<Value>, RestError>;

/// `GET /connector-plugins`; `?connectorsOnly=false` tells converters and all
/// others too.
pub(super) async fn list(State(rest): State<Rest>, Query(query): Query<Parameters>) -> Json<Value> {
    let only_sinks = is_set(&query, "connectorsOnly").unwrap_or(true);
    let all = rest.plugins.iter();
    let listed = all.filter(|plugin| !only_sinks || plugin.kind == PluginType::Sink);
    let listed = listed.map(
        |plugin| json!({"class": plugin.class, "type": plugin.kind.name(), "version": VERSION}),
    );
    Json(Value::Array(listed.collect()))
}

/// `GET /connector-plugins/{plugin}/config`: a sink has a connector's keys as
/// well as its own.
pub(super) async fn config(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    let plugin = plugin(&rest, &name)?;
    let mut told = definitions::of_table("", plugin.keys);
    if plugin.kind == PluginType::Sink {
        told.extend(definitions::of_table("", connector::KEYS));
    }
    Ok(Json(told.into()))
}

/// `PUT /connector-plugins/{plugin}/config/validate`: what is wrong with a
/// configuration is told key by key, and is no error of the request.
pub(super) async fn validate(
    State(rest): State<Rest>,
    Path(name): Path<String>,
    body: Bytes,
) -> Answer {
    let plugin = plugin(&rest, &name)?;
    if plugin.kind != PluginType::Sink {
        return Err(RestError::bad_request(format!(
            "{name} is a {}; only configurations of connectors are validated",
            plugin.kind.name()
        )));
    }
    let properties = properties(&body)?;
    let class = properties.get(CLASS).cloned().ok_or_else(|| {
        RestError::bad_request(format!(
            "The configuration has no {CLASS}; set it to {}",
            plugin.class
        ))
    })?;
    if !plugin.is_called(class.trim()) {
        return Err(RestError::bad_request(format!(
            "Included connector type {class} does not match request type {name}"
        )));
    }
    let layers = vec![Layer::of(properties, "request")];
    let check = move || ConnectorConfig::read(layers, &rest.worker, &rest.checks);
    let checked = beside(CHECK_TIMEOUT, check)
        .await?
        .map_err(|error| internal(error.to_string()))?;
    Ok(Json(definitions::validated(&class, &checked)))
}

/// Runs what may read files on a thread of its own, for no longer than this.
async fn beside<T: Send + 'static>(
    timeout: Duration,
    check: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RestError> {
    match tokio::time::timeout(timeout, spawn_blocking(check)).await {
        Ok(Ok(checked)) => Ok(checked),
        Ok(Err(_)) => Err(internal(
            "The check of the configuration panicked; see the log",
        )),
        Err(_) => Err(internal(format!(
            "Request timed out: the configuration was not checked within {timeout:?}; see whether \
             the files that it names can be read"
        ))),
    }
}

fn internal(message: impl Into<String>) -> RestError {
    RestError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
}

fn plugin<'a>(rest: &'a Rest, name: &str) -> Result<&'a Plugin, RestError> {
    let mut plugins = rest.plugins.iter();
    let plugin = plugins.find(|plugin| plugin.is_called(name));
    plugin.ok_or_else(|| RestError::not_found(format!("Unknown plugin {name}.")))
}

/// Settings out of a JSON object; a key that is null is not set.
fn properties(body: &[u8]) -> Result<Properties, RestError> {
    let object: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        // Its words may hold a part of the body: a secret. The place is enough.
        RestError::bad_request(format!(
            "The body is no JSON object of settings, at line {} column {}",
            error.line(),
            error.column()
        ))
    })?;
    let mut properties = Properties::new();
    for (key, value) in object {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(RestError::bad_request(format!(
                    "{key}: is no text; settings are one level of keys and texts"
                )));
            }
        };
        properties.insert(key, text);
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_check_that_hangs_holds_up_neither_the_thread_nor_the_answer() {
        let (give, take) = channel::<()>();
        let hangs = beside(Duration::from_millis(10), move || take.recv().is_ok());
        let refused = format!("{:?}", hangs.await.unwrap_err());
        assert!(refused.contains("500"), "{refused}");
        assert!(refused.contains("timed out"), "{refused}");
        drop(give);
    }

    #[tokio::test]
    async fn a_check_that_panics_is_told() {
        let panics = beside(Duration::from_secs(60), || panic!("boom"));
        let refused = format!("{:?}", panics.await.map(|()| "fine").unwrap_err());
        assert!(refused.contains("panicked"), "{refused}");
    }
}
