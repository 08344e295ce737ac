//! `GET /metrics`

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::error::RestError;
use super::state::Rest;
use crate::telemetry::exposition;

pub(super) async fn metrics(State(rest): State<Rest>) -> Result<impl IntoResponse, RestError> {
    let text = exposition::render(rest.worker_sight()).map_err(|_| {
        let message = "the metrics could not be written";
        RestError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    })?;
    Ok(([(CONTENT_TYPE, exposition::CONTENT_TYPE)], text))
}
