//! `/admin/loggers`: how much is logged (KIP-495, KIP-976).

use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tracing::level_filters::LevelFilter;

use super::error::RestError;
use super::state::{Parameters, Rest};
use crate::telemetry::levels::{ROOT, Set, connector_of, of_connector};

/// `GET /admin/loggers`
pub(super) async fn list(State(rest): State<Rest>) -> Json<Value> {
    let loggers = &rest.loggers;
    let mut names = loggers.names();
    names.extend(rest.connectors.names().iter().map(|it| of_connector(it)));
    let shown = names.into_iter().map(|name| {
        let set = loggers.level(&name);
        (name, shown(set))
    });
    Json(Value::Object(shown.collect::<Map<_, _>>()))
}

/// `GET /admin/loggers/{logger}`
pub(super) async fn level(
    State(rest): State<Rest>,
    Path(logger): Path<String>,
) -> Result<Json<Value>, RestError> {
    match rest.loggers.has(&logger) || is_of_connector(&rest, &logger) {
        true => Ok(Json(shown(rest.loggers.level(&logger)))),
        false => Err(RestError::not_found(format!(
            "Logger {logger} not found. There are {ROOT}, modules as log lines have them in target, \
             and connector.NAME"
        ))),
    }
}

/// `PUT /admin/loggers/{logger}`. The cluster is this worker.
pub(super) async fn set(
    State(rest): State<Rest>,
    Path(logger): Path<String>,
    Query(parameters): Query<Parameters>,
    body: String,
) -> Result<Response, RestError> {
    let level = wanted(&body)?;
    if connector_of(&logger).is_some() && !is_of_connector(&rest, &logger) {
        return Err(RestError::not_found(format!(
            "Logger {logger} not found: this worker has no connector of that name"
        )));
    }
    let affected = rest.loggers.set(&logger, level);
    tracing::info!(logger, %level, "log level changed");
    let mut parameters = parameters.iter();
    let scope = parameters.find(|(key, _)| key == "scope");
    Ok(match scope {
        Some((_, scope)) if scope.eq_ignore_ascii_case("cluster") => {
            StatusCode::NO_CONTENT.into_response()
        }
        _ => Json(affected).into_response(),
    })
}

fn is_of_connector(rest: &Rest, logger: &str) -> bool {
    connector_of(logger).is_some_and(|name| rest.connectors.described(name).is_some())
}

fn shown(set: Set) -> Value {
    let modified = set
        .modified
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    json!({
        "level": set.level.to_string().to_uppercase(),
        "last_modified": modified.map(|since| since.as_millis() as u64),
    })
}

/// The level that a body asks for, with Connect's codes for what is wrong.
fn wanted(body: &str) -> Result<LevelFilter, RestError> {
    let told: Option<Map<String, Value>> = serde_json::from_str(body).ok();
    let told = told.and_then(|mut told| told.remove("level"));
    let Some(Value::String(name)) = told else {
        return Err(RestError::bad_request(
            "Desired 'level' parameter was not specified in request. The body is an object such as \
             {\"level\": \"DEBUG\"}",
        ));
    };
    parse(&name).ok_or_else(|| {
        RestError::not_found(format!(
            "invalid log level '{name}'. It is one of TRACE, DEBUG, INFO, WARN, ERROR, OFF"
        ))
    })
}

/// Log4j's names. Nothing here is logged as FATAL.
fn parse(name: &str) -> Option<LevelFilter> {
    match name.to_ascii_uppercase().as_str() {
        "OFF" | "FATAL" => Some(LevelFilter::OFF),
        "ERROR" => Some(LevelFilter::ERROR),
        "WARN" => Some(LevelFilter::WARN),
        "INFO" => Some(LevelFilter::INFO),
        "DEBUG" => Some(LevelFilter::DEBUG),
        "TRACE" | "ALL" => Some(LevelFilter::TRACE),
        _ => None,
    }
}
