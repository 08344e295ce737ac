//! Health: whether the process lives, whether it is ready, and what its
//! connectors do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::state::Rest;
use crate::telemetry::health::Health;
use crate::telemetry::sight::{ConnectorSight, Standing};

type Answer = (StatusCode, Json<Value>);

/// Connect's words and codes.
const fn told(health: Health) -> (StatusCode, &'static str, &'static str) {
    match health {
        Health::Healthy => (
            StatusCode::OK,
            "healthy",
            "Worker has completed startup and is ready to handle requests.",
        ),
        Health::Starting => (
            StatusCode::SERVICE_UNAVAILABLE,
            "starting",
            "Worker is still starting up, or is stopping.",
        ),
        Health::Unhealthy => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "unhealthy",
            "No connector of this worker can deliver.",
        ),
    }
}

/// `GET /health`
pub(super) async fn health(State(rest): State<Rest>) -> Answer {
    let sights = rest.sights();
    let health = Health::of(sights.iter().map(ConnectorSight::standing));
    let (code, status, message) = told(health);
    let complaints: String = sights.iter().filter_map(complaint).collect();
    let connectors = sights.iter().map(|it| (it.name.to_string(), shown(it)));
    let body = json!({
        "status": status,
        "message": format!("{message}{complaints}"),
        "sluice": {"connectors": connectors.collect::<Map<_, _>>()},
    });
    (code, Json(body))
}

/// What is not as it should be with a connector that is not on its way.
fn complaint(sight: &ConnectorSight) -> Option<String> {
    let name = &sight.name;
    let (open, tasks) = (sight.sinks_open(), sight.tasks.len());
    match sight.standing() {
        Standing::Bad(cause) => Some(format!(" Connector {name}: {cause}.")),
        Standing::Ready if open < tasks => Some(format!(
            " Connector {name}: {open} of {tasks} sinks are open."
        )),
        Standing::Ready | Standing::Coming(_) => None,
    }
}

fn shown(sight: &ConnectorSight) -> Value {
    let (health, cause) = match sight.standing() {
        Standing::Ready => ("ready", None),
        Standing::Coming(what) => ("coming", Some(what.into())),
        Standing::Bad(cause) => ("bad", Some(cause)),
    };
    let mut told = json!({
        "health": health,
        "tasks": sight.tasks.len(),
        "sinks_open": sight.sinks_open(),
    });
    if let Some(cause) = cause {
        told["cause"] = json!(&*cause);
    }
    if let Some(lasts) = sight.outage_lasts() {
        told["outage_ms"] = json!(lasts.as_millis() as u64);
    }
    told
}

/// `GET /health/live`: that this answers is the answer.
pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// `GET /health/ready`
pub(super) async fn ready(State(rest): State<Rest>) -> Answer {
    let sights = rest.sights();
    let health = Health::readiness(&sights);
    let (code, status, message) = told(health);
    let code = match code {
        StatusCode::OK => code,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(json!({"status": status, "message": message})))
}
