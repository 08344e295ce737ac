//! What is not there, or not to be done.

use axum::http::{Method, StatusCode};
use serde_json::json;

use super::{GOOD, Setting};

#[actix::test]
async fn what_is_not_there_is_told_in_connects_shape() {
    let setting = Setting::new().await;
    for (path, message) in [
        ("/connectors/none", "Connector none not found"),
        ("/connectors/none/config", "Connector none not found"),
        ("/connectors/none/topics", "Connector none not found"),
        (
            "/connectors/none/status",
            "No status found for connector none",
        ),
        (
            "/connectors/orders/tasks/9/status",
            "No status found for task orders-9",
        ),
        ("/connectors/orders/tasks/x/status", "HTTP 404 Not Found"),
        ("/connectors/none/offsets", "Connector none not found"),
        ("/connectors/orders/nothing", "HTTP 404 Not Found"),
        ("/connectors/orders/tasks/0", "HTTP 404 Not Found"),
        ("/health/nothing", "HTTP 404 Not Found"),
        ("/nothing", "HTTP 404 Not Found"),
    ] {
        let (status, body) = setting.ask(Method::GET, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(
            body,
            json!({"error_code": 404, "message": message}),
            "{path}"
        );
    }
}

#[actix::test]
async fn what_is_still_to_come_is_a_405_with_a_word() {
    let setting = Setting::new().await;
    for (method, path) in [
        (Method::POST, "/connectors"),
        (Method::PUT, "/connectors/orders/config"),
        (Method::DELETE, "/connectors/orders"),
        (Method::PUT, "/connectors/orders/pause"),
        (Method::PUT, "/connectors/orders/topics/reset"),
        (Method::PATCH, "/connectors/orders/offsets"),
        (Method::DELETE, "/connectors/orders/offsets/"),
    ] {
        let (status, body) = setting.ask(method.clone(), path).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert_eq!(body["error_code"], 405);
        assert!(
            body["message"].as_str().unwrap().contains("still to come"),
            "{body}"
        );
    }
}

#[actix::test]
async fn every_refusal_has_connects_shape() {
    let setting = Setting::new().await;
    for (method, path, code) in [
        (Method::POST, "/", 405),
        (Method::DELETE, "/health", 405),
        (Method::PUT, "/metrics", 405),
        (Method::POST, "/connector-plugins", 405),
        (Method::POST, "/connectors/orders/nothing", 404),
        (Method::PUT, "/nothing", 404),
        // Not UTF-8, which no handler gets to see.
        (Method::GET, "/connectors/%ff", 400),
    ] {
        let (status, body) = setting.ask(method.clone(), path).await;
        assert_eq!(status.as_u16(), code, "{method} {path}");
        assert_eq!(body["error_code"], code, "{method} {path}: {body}");
        assert!(body["message"].is_string(), "{method} {path}: {body}");
    }
}

#[actix::test]
async fn a_slash_at_the_end_changes_nothing() {
    let setting = Setting::new().await;
    for path in ["/connectors", "/connectors/orders", "/connector-plugins"] {
        let with_slash = setting.get(&format!("{path}/")).await;
        assert_eq!(with_slash, setting.get(path).await, "{path}");
    }
    let expanded = setting.get("/connectors/?expand=info").await;
    assert_eq!(expanded[GOOD]["info"]["name"], GOOD);
}
