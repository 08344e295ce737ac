//! Restarts, and health.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{BAD, GOOD, Setting, TASKS};

#[actix::test]
async fn a_restart_is_ordered_and_answered_as_connect_does() {
    let setting = Setting::new().await;
    let post = async |path: &str| setting.ask(Method::POST, path).await;
    let (status, body) = post("/connectors/orders/restart").await;
    assert_eq!((status, body), (StatusCode::NO_CONTENT, Value::Null));
    assert_eq!(setting.orders(), ["restart orders"]);

    let (status, body) = post("/connectors/orders/restart?includeTasks=true").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(body["connector"]["state"], "RESTARTING", "{body}");
    assert_eq!(body["tasks"][0]["state"], "RESTARTING");
    assert_eq!(setting.orders(), ["restart orders"]);

    let (status, body) = post("/connectors/orders/restart?includeTasks=true&onlyFailed=true").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(body["connector"]["state"], "RUNNING", "none has failed");
    assert!(setting.orders().is_empty());
    post("/connectors/broken/restart?onlyFailed=true").await;
    assert_eq!(setting.orders(), ["restart broken"]);

    let (status, _) = post("/connectors/orders/tasks/1/restart").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(setting.orders(), ["restart orders-1"]);
    for (path, message) in [
        ("/connectors/none/restart", "Unknown connector: none"),
        (
            "/connectors/none/tasks/0/restart",
            "Unknown connector: none",
        ),
        (
            "/connectors/orders/tasks/2/restart",
            "Unknown task: orders-2",
        ),
    ] {
        let (status, body) = post(path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(body["message"], message);
    }
}

#[actix::test]
async fn one_bad_connector_shows_in_health_and_leaves_the_worker_ready() {
    let setting = Setting::new().await;
    let health = setting.get("/health").await;
    assert_eq!(health["status"], "healthy");
    let message = health["message"].as_str().unwrap();
    assert!(message.contains("broken: topic x"), "{message}");
    let good = &health["sluice"]["connectors"][GOOD];
    assert_eq!(
        *good,
        json!({"health": "ready", "tasks": TASKS, "sinks_open": TASKS})
    );
    assert_eq!(health["sluice"]["connectors"][BAD]["health"], "bad");
    setting.get("/health/ready").await;
    setting.get("/health/live").await;

    setting.view.fail(GOOD, "and this one too".into());
    let failed = setting.get("/connectors/orders/status").await;
    for task in failed["tasks"].as_array().unwrap() {
        assert_eq!(task["state"], "FAILED", "{task}");
        assert_eq!(task["trace"], "and this one too", "{task}");
        assert_eq!(task["worker_id"], "host:8083", "{task}");
    }
    let (status, body) = setting
        .ask(Method::POST, "/connectors/orders/tasks/0/restart")
        .await;
    assert_eq!(status, StatusCode::CONFLICT);
    let message = body["message"].as_str().unwrap();
    assert!(
        message.contains("POST /connectors/orders/restart"),
        "{message}"
    );
    let (status, body) = setting.ask(Method::GET, "/health").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(body["status"], "unhealthy");
    let (status, _) = setting.ask(Method::GET, "/health/ready").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    setting.get("/health/live").await;
}
