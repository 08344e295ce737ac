//! `/connectors` and what is below it, for reading.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::body;
use super::error::RestError;
use super::state::{Parameters, Rest};

type Answer = Result<Json<Value>, RestError>;

/// `GET /connectors`, `?expand=status&expand=info`
pub(super) async fn list(State(rest): State<Rest>, Query(query): Query<Parameters>) -> Json<Value> {
    let asks = |what: &str| {
        query
            .iter()
            .any(|(key, value)| key == "expand" && value == what)
    };
    let (status, info) = (asks("status"), asks("info"));
    let names = rest.connectors.names();
    if !status && !info {
        return Json(json!(names));
    }
    let mut all = Map::new();
    for name in names {
        let mut one = Map::new();
        if status && let Some(sight) = rest.sight(&name) {
            one.insert("status".into(), body::status(&sight, &rest.worker_id));
        }
        if info && let Some(described) = rest.connectors.described(&name) {
            one.insert("info".into(), body::info(&name, &described));
        }
        all.insert(name, one.into());
    }
    Json(all.into())
}

/// `GET /connectors/{name}`
pub(super) async fn info(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    Ok(Json(body::info(&name, &rest.described(&name)?)))
}

/// `GET /connectors/{name}/config`
pub(super) async fn config(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    Ok(Json(json!(rest.described(&name)?.config)))
}

/// `GET /connectors/{name}/status`
pub(super) async fn status(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    let sight = rest.sight(&name);
    let sight = sight
        .ok_or_else(|| RestError::not_found(format!("No status found for connector {name}")))?;
    Ok(Json(body::status(&sight, &rest.worker_id)))
}

/// `GET /connectors/{name}/tasks`
pub(super) async fn tasks(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    Ok(Json(body::tasks(&name, &rest.described(&name)?)))
}

/// `GET /connectors/{name}/tasks/{id}/status`
pub(super) async fn task_status(
    State(rest): State<Rest>,
    Path((name, id)): Path<(String, String)>,
) -> Answer {
    let id = task_id(&id)?;
    let sight = rest.sight(&name);
    let task = sight
        .as_ref()
        .and_then(|sight| sight.tasks.get(id as usize));
    let task =
        task.ok_or_else(|| RestError::not_found(format!("No status found for task {name}-{id}")))?;
    Ok(Json(body::task_status(task, &rest.worker_id)))
}

/// `GET /connectors/{name}/topics`
pub(super) async fn topics(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    rest.described(&name)?;
    let topics = rest.view.connector(&name).unwrap_or_default().topics;
    let topics: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
    let mut answer = Map::new();
    answer.insert(name, json!({"topics": topics}));
    Ok(Json(answer.into()))
}

/// `GET /connectors/{name}/offsets`
pub(super) async fn offsets(State(rest): State<Rest>, Path(name): Path<String>) -> Answer {
    rest.described(&name)?;
    let positions = rest.view.connector(&name).unwrap_or_default().positions;
    let positions = positions.ok_or_else(|| {
        let message = format!(
            "The offsets of connector {name} are not known: the broker has not told them lately; \
             try again"
        );
        RestError::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    Ok(Json(body::offsets(&positions)))
}

/// In Connect, what is no number is no path.
pub(super) fn task_id(text: &str) -> Result<u32, RestError> {
    text.parse()
        .map_err(|_| RestError::not_found("HTTP 404 Not Found"))
}
