//! What is told of the worker and its connectors.

use axum::http::{Method, StatusCode};
use serde_json::json;
use sluice_actors::live_view::Position;

use super::{BAD, GOOD, PATHS, RECORDS, Setting, TASKS};

#[actix::test]
async fn the_root_has_a_version_that_connects_tools_know() {
    let setting = Setting::new().await;
    let root = setting.get("/").await;
    assert_eq!(root["version"], "4.4.0");
    assert_eq!(root["kafka_cluster_id"], "cluster");
    assert!(root["commit"].is_string());
}

#[actix::test]
async fn connectors_are_listed_and_expanded_on_demand() {
    let setting = Setting::new().await;
    assert_eq!(setting.get("/connectors").await, json!([BAD, GOOD]));
    let expanded = setting.get("/connectors?expand=status&expand=info").await;
    assert_eq!(expanded[GOOD]["status"]["connector"]["state"], "RUNNING");
    assert_eq!(expanded[BAD]["info"]["type"], "sink");
    let expanded = setting.get("/connectors?expand=info").await;
    assert!(expanded[GOOD].get("status").is_none());
}

#[actix::test]
async fn a_running_connector_shows_its_tasks_and_what_is_done() {
    let setting = Setting::new().await;
    let status = setting.get("/connectors/orders/status").await;
    assert_eq!(status["name"], GOOD);
    assert_eq!(status["type"], "sink");
    assert_eq!(status["connector"]["worker_id"], "host:8083");
    assert!(status["connector"].get("trace").is_none());
    assert_eq!(status["tasks"].as_array().unwrap().len(), TASKS);
    assert_eq!(status["tasks"][1]["state"], "RUNNING");
    assert_eq!(status["sluice"]["totals"]["accepted"], RECORDS);
    let task = setting.get("/connectors/orders/tasks/1/status").await;
    assert_eq!(task["id"], 1);
    let topics = setting.get("/connectors/orders/topics").await;
    assert_eq!(
        topics[GOOD]["topics"].as_array().unwrap().len(),
        1,
        "{topics}"
    );
}

#[actix::test]
async fn a_failed_connector_shows_its_cause() {
    let setting = Setting::new().await;
    let status = setting.get("/connectors/broken/status").await;
    assert_eq!(status["connector"]["state"], "FAILED");
    assert_eq!(status["connector"]["trace"], "topic x: no right to READ");
    assert_eq!(status["tasks"][0]["state"], "UNASSIGNED");
}

#[actix::test]
async fn no_answer_shows_a_secret_and_those_with_the_configuration_show_the_rest() {
    let setting = Setting::new().await;
    setting.view.set_group(GOOD, None, Some([].into()));
    let mut shown = 0;
    for path in PATHS {
        let (status, text) = setting.text(Method::GET, path, String::new()).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(
            !text.contains("hush") && !text.contains("alice"),
            "{path}: {text}"
        );
        shown += usize::from(text.contains("drop.example:8443"));
    }
    assert_eq!(
        shown, 4,
        "/connectors?expand=info, /orders, /config, /tasks"
    );
}

#[actix::test]
async fn configuration_is_shown_as_it_may_be() {
    let setting = Setting::new().await;
    let info = setting.get("/connectors/orders").await;
    assert_eq!(info["tasks"][1], json!({"connector": GOOD, "task": 1}));
    assert_eq!(info["config"]["tasks.max"], "2", "as it was given");
    for secret in ["file.seal", "consumer.override.sasl.jaas.config"] {
        assert_eq!(info["config"][secret], "[hidden]", "{info}");
    }
    assert_eq!(
        info["config"]["file"],
        "https://[hidden]@drop.example:8443/[hidden]"
    );
    let config = setting.get("/connectors/orders/config").await;
    assert_eq!(config, info["config"]);
    let tasks = setting.get("/connectors/orders/tasks").await;
    assert_eq!(tasks[0]["id"], json!({"connector": GOOD, "task": 0}));
    assert_eq!(tasks[0]["config"], config);
}

#[actix::test]
async fn offsets_are_where_the_group_stands() {
    let setting = Setting::new().await;
    let path = "/connectors/orders/offsets";
    let (status, body) = setting.ask(Method::GET, path).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "not told yet");
    assert_eq!(body["error_code"], 503);
    let position = Position {
        topic: "t".into(),
        partition: 3,
        start_offset: 77,
        lag: Some(3),
    };
    setting.view.set_group(GOOD, None, Some([position].into()));
    assert_eq!(
        setting.get(path).await,
        json!({"offsets": [{
            "partition": {"kafka_topic": "t", "kafka_partition": 3},
            "offset": {"kafka_offset": 77},
        }]})
    );
}
