//! Health: whether the process lives, whether it is ready, and what its
//! connectors do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::state::Rest;
use crate::telemetry::sight::{ConnectorSight, Standing};

type Answer = (StatusCode, Json<Value>);

/// The worker as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Healthy,
    Starting,
    Unhealthy,
}

impl Health {
    /// One bad connector leaves the others at work; the worker is unhealthy
    /// only when none is left.
    fn of(standings: &[(String, Standing)]) -> Self {
        let coming = |(_, it): &(String, Standing)| matches!(it, Standing::Coming(_));
        let ready = |(_, it): &(String, Standing)| *it == Standing::Ready;
        if standings.iter().any(coming) {
            Self::Starting
        } else if standings.iter().any(ready) {
            Self::Healthy
        } else {
            Self::Unhealthy
        }
    }

    /// Connect's words and codes.
    const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Healthy => (
                StatusCode::OK,
                "healthy",
                "Worker has completed startup and is ready to handle requests.",
            ),
            Self::Starting => (
                StatusCode::SERVICE_UNAVAILABLE,
                "starting",
                "Worker is still starting up, or is stopping.",
            ),
            Self::Unhealthy => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "unhealthy",
                "No connector of this worker can deliver.",
            ),
        }
    }
}

fn standings(rest: &Rest) -> Vec<(String, Standing)> {
    let standing = |sight: ConnectorSight| (sight.name.to_string(), sight.standing());
    rest.sights().into_iter().map(standing).collect()
}

/// `GET /health`
pub(super) async fn health(State(rest): State<Rest>) -> Answer {
    let standings = standings(&rest);
    let (code, status, message) = Health::of(&standings).told();
    let bad = |(name, it): &(String, Standing)| match it {
        Standing::Bad(cause) => Some(format!(" Connector {name}: {cause}.")),
        Standing::Ready | Standing::Coming(_) => None,
    };
    let bad: String = standings.iter().filter_map(bad).collect();
    let connectors: Map<String, Value> = standings.into_iter().map(told).collect();
    let body = json!({
        "status": status,
        "message": format!("{message}{bad}"),
        "sluice": {"connectors": connectors},
    });
    (code, Json(body))
}

fn told((name, standing): (String, Standing)) -> (String, Value) {
    let told = match standing {
        Standing::Ready => json!({"health": "ready"}),
        Standing::Coming(what) => json!({"health": "coming", "cause": what}),
        Standing::Bad(cause) => json!({"health": "bad", "cause": &*cause}),
    };
    (name, told)
}

/// `GET /health/live`: that this answers is the answer.
pub(super) async fn live() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// `GET /health/ready`
pub(super) async fn ready(State(rest): State<Rest>) -> Answer {
    let (code, status, message) = Health::of(&standings(&rest)).told();
    let code = match code {
        StatusCode::OK => code,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(json!({"status": status, "message": message})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health_of(standings: &[Standing]) -> Health {
        let named = standings.iter().cloned();
        let named: Vec<_> = named.map(|it| ("x".to_owned(), it)).collect();
        Health::of(&named)
    }

    #[test]
    fn one_bad_connector_does_not_make_the_worker_unready() {
        let bad = || Standing::Bad("gone".into());
        let coming = || Standing::Coming("joins");
        assert_eq!(health_of(&[Standing::Ready, bad()]), Health::Healthy);
        assert_eq!(health_of(&[Standing::Ready, coming()]), Health::Starting);
        assert_eq!(health_of(&[bad(), coming()]), Health::Starting);
        assert_eq!(health_of(&[bad(), bad()]), Health::Unhealthy);
        assert_eq!(health_of(&[]), Health::Unhealthy);
    }
}
