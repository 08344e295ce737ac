//! Errors in Connect's shape.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::connectors::OrderError;

const JSON: &str = "application/json";

/// `{"error_code":404,"message":"..."}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestError {
    status: StatusCode,
    message: String,
}

#[derive(Serialize)]
struct Body {
    error_code: u16,
    message: String,
}

impl RestError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// An order for a connector that was not taken.
    pub(super) fn of_order(connector: &str, task: Option<u32>, error: OrderError) -> Self {
        match (error, task) {
            (OrderError::UnknownTask, Some(task)) => {
                Self::not_found(format!("Unknown task: {connector}-{task}"))
            }
            (OrderError::UnknownConnector | OrderError::UnknownTask, _) => {
                Self::not_found(format!("Unknown connector: {connector}"))
            }
            (OrderError::Busy, _) => Self::new(
                StatusCode::CONFLICT,
                format!(
                    "Cannot complete request because of a conflicting operation: connector \
                     {connector} is busy with other orders, or is stopping; try again"
                ),
            ),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let body = Body {
            error_code: self.status.as_u16(),
            message: self.message,
        };
        (self.status, Json(body)).into_response()
    }
}

/// For a path that there is not.
pub(super) async fn no_such_path() -> RestError {
    RestError::not_found("HTTP 404 Not Found")
}

/// For a path that there is, with a verb that it does not know.
pub(super) async fn no_such_method() -> RestError {
    RestError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "HTTP 405 Method Not Allowed",
    )
}

/// The same, where Connect would change a connector.
pub(super) async fn no_changes() -> RestError {
    RestError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "HTTP 405 Method Not Allowed: connectors of this worker come from its files and \
         environment; to change, pause or delete one, or to alter its offsets, over REST is still \
         to come",
    )
}

/// Gives Connect's shape to what the web framework refuses of itself.
pub(super) async fn shaped(answer: Response) -> Response {
    let status = answer.status();
    let kind = answer.headers().get(CONTENT_TYPE);
    let has_shape = kind.is_some_and(|kind| kind == JSON);
    if has_shape || !(status.is_client_error() || status.is_server_error()) {
        return answer;
    }
    RestError::new(status, format!("HTTP {status}")).into_response()
}
