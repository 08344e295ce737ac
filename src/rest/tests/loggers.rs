//! Levels of loggers, by Connect's requests.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{GOOD, Setting};

const SHARE: &str = "/admin/loggers/sluice::kafka::share";

async fn set(setting: &Setting, path: &str, body: Value) -> (StatusCode, Value) {
    setting.send(Method::PUT, path, body.to_string()).await
}

#[actix::test]
async fn a_level_is_set_with_the_loggers_below_and_shown_with_its_time() {
    let setting = Setting::new().await;
    let before = setting.get("/admin/loggers").await;
    assert_eq!(
        before["root"],
        json!({"level": "INFO", "last_modified": null})
    );
    assert_eq!(before["krafka"]["level"], "ERROR");
    let (status, affected) = set(&setting, SHARE, json!({"level": "trace"})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(affected, json!(["sluice::kafka::share"]));
    let shown = setting.get(SHARE).await;
    assert_eq!(shown["level"], "TRACE");
    assert!(shown["last_modified"].as_u64() > Some(1_700_000_000_000));

    let (_, affected) = set(&setting, "/admin/loggers/sluice", json!({"level": "WARN"})).await;
    let affected = affected.as_array().unwrap().clone();
    assert!(
        affected.contains(&json!("sluice::kafka::share")),
        "{affected:?}"
    );
    let all = setting.get("/admin/loggers").await;
    assert_eq!(all["sluice"]["level"], "WARN");
}

#[actix::test]
async fn the_scope_of_a_cluster_is_this_worker_and_answers_nothing() {
    let setting = Setting::new().await;
    let path = "/admin/loggers/root?scope=cluster";
    let answer = set(&setting, path, json!({"level": "DEBUG"})).await;
    assert_eq!(answer, (StatusCode::NO_CONTENT, Value::Null));
    let root = setting.get("/admin/loggers/root").await;
    assert_eq!(root["level"], "DEBUG");
}

#[actix::test]
async fn a_connector_that_there_is_has_a_logger() {
    let setting = Setting::new().await;
    let path = format!("/admin/loggers/connector.{GOOD}");
    let all = setting.get("/admin/loggers").await;
    assert_eq!(all["connector.orders"]["level"], "INFO");
    assert_eq!(setting.get(&path).await["level"], "INFO");
    let (status, affected) = set(&setting, &path, json!({"level": "DEBUG"})).await;
    assert_eq!(
        (status, affected),
        (StatusCode::OK, json!(["connector.orders"]))
    );
    assert_eq!(setting.get(&path).await["level"], "DEBUG");
}

#[actix::test]
async fn what_is_wrong_has_connects_codes() {
    let setting = Setting::new().await;
    for (path, body, code, word) in [
        (
            SHARE,
            json!({"level": "LOUD"}),
            404,
            "invalid log level 'LOUD'",
        ),
        (SHARE, json!({}), 400, "'level' parameter"),
        (SHARE, json!({"level": null}), 400, "'level' parameter"),
        (SHARE, json!("x"), 400, "'level' parameter"),
        (
            "/admin/loggers/connector.none",
            json!({"level": "INFO"}),
            404,
            "no connector of that name",
        ),
    ] {
        let (status, answer) = set(&setting, path, body.clone()).await;
        assert_eq!(status.as_u16(), code, "{body}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(word),
            "{answer}"
        );
    }
    let (status, answer) = setting.ask(Method::GET, "/admin/loggers/nobody").await;
    assert_eq!(
        (status, &answer["error_code"]),
        (StatusCode::NOT_FOUND, &json!(404))
    );
    let (status, _) = setting.ask(Method::DELETE, SHARE).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}
