//! `GET /`

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::state::Rest;
use crate::plugins::VERSION;

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
