//! `GET /` and `GET /connector-plugins`.

use axum::Json;
use axum::extract::{Query, State};
use serde_json::{Value, json};

use super::state::{Parameters, Rest, is_set};
use crate::plugins::{PluginType, VERSION};

/// Tools decide by this what they may ask for; ours is below `sluice`.
const KAFKA_VERSION: &str = "4.4.0";

pub(super) async fn root(State(rest): State<Rest>) -> Json<Value> {
    Json(json!({
        "version": KAFKA_VERSION,
        "commit": "unknown",
        "kafka_cluster_id": rest.connectors.cluster_id(),
        "sluice": {"version": VERSION},
    }))
}

/// `?connectorsOnly=false` tells converters and all others too.
pub(super) async fn plugins(
    State(rest): State<Rest>,
    Query(query): Query<Parameters>,
) -> Json<Value> {
    let only_sinks = is_set(&query, "connectorsOnly").unwrap_or(true);
    let all = rest.plugins.iter();
    let listed = all.filter(|plugin| !only_sinks || plugin.kind == PluginType::Sink);
    let listed = listed.map(
        |plugin| json!({"class": plugin.class, "type": plugin.kind.name(), "version": VERSION}),
    );
    Json(Value::Array(listed.collect()))
}
