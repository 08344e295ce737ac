//! Errors in Connect's shape.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::connectors::OrderError;

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
        "HTTP 405 Method Not Allowed: connectors of this worker come from its files and \
         environment; to change, pause or delete one over REST is still to come",
    )
}
