//! Requests to a worker of fakes: one connector that runs, one that failed
//! before it did.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::credit::Credit;
use sluice_actors::error_log::ErrorLog;
use sluice_actors::gate::Gate;
use sluice_actors::live_view::{ConnectorState, LiveView};
use sluice_actors::ports::source::SourceEvent;
use sluice_actors::retry::RetryPolicy;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{Act, AsTheyAre, FakeSinkFactory, FakeSource, conversion_of_values};
use sluice_actors::threads::Threads;
use tokio::time::Instant;
use tower::ServiceExt;

use super::server::router;
use super::state::{Connectors, Described, Rest};
use crate::config::connector::tests::good;
use crate::connectors::OrderError;
use crate::plugins::{Plugin, PluginType};
use crate::telemetry::rates::Rates;

const GOOD: &str = "orders";
const BAD: &str = "broken";
const RECORDS: usize = 20;
const TASKS: usize = 2;

/// What the connectors were given: secrets by their table, by their name, in
/// an address, and what may be shown.
const GIVEN: &[(&str, &str)] = &[
    ("file.seal", "hush-1"),
    (
        "consumer.override.sasl.jaas.config",
        "PlainLoginModule required username=\"bob\" password=\"hush-2\";",
    ),
    ("consumer.override.security.protocol", "SASL_SSL"),
    (
        "file",
        "https://alice:hush-3@drop.example:8443/hush-4?code=hush-5",
    ),
    ("tasks.max", "2"),
];

/// Every path that is read from.
const PATHS: [&str; 15] = [
    "/",
    "/connector-plugins",
    "/connector-plugins?connectorsOnly=false",
    "/connectors",
    "/connectors?expand=status&expand=info",
    "/connectors/orders",
    "/connectors/orders/config",
    "/connectors/orders/status",
    "/connectors/orders/tasks",
    "/connectors/orders/tasks/0/status",
    "/connectors/orders/topics",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
];

/// Takes orders and carries none out.
#[derive(Default)]
struct Fakes(Mutex<Vec<String>>);

impl Connectors for Fakes {
    fn names(&self) -> Vec<String> {
        vec![BAD.into(), GOOD.into()]
    }

    fn described(&self, connector: &str) -> Option<Described> {
        let config = [&[("name", connector)], GIVEN].concat();
        self.names().contains(&connector.into()).then(|| Described {
            config: good(&config).shown,
            tasks: TASKS,
        })
    }

    fn cluster_id(&self) -> Option<String> {
        Some("cluster".into())
    }

    fn restart(&self, connector: &str) -> Result<(), OrderError> {
        self.0.lock().push(format!("restart {connector}"));
        Ok(())
    }

    fn restart_task(&self, connector: &str, task: u32) -> Result<(), OrderError> {
        let described = self.described(connector);
        let tasks = described.ok_or(OrderError::UnknownConnector)?.tasks;
        if task as usize >= tasks {
            return Err(OrderError::UnknownTask);
        }
        self.0.lock().push(format!("restart {connector}-{task}"));
        Ok(())
    }
}

struct Setting {
    router: Router,
    fakes: Arc<Fakes>,
    view: Arc<LiveView>,
    /// Ends with the test.
    _pipeline: Pipeline,
}

impl Setting {
    async fn new() -> Self {
        tokio::time::pause();
        let view = LiveView::new();
        view.fail(BAD, "topic x: no right to READ".into());
        let pipeline = run(&view).await;
        let fakes = Arc::new(Fakes::default());
        let rates = Arc::new(Rates::default());
        rates.sample(&view, Instant::now());
        let connectors: Arc<dyn Connectors> = Arc::clone(&fakes) as Arc<dyn Connectors>;
        let plugin = |class, kind| Plugin {
            kind,
            class,
            aliases: Vec::new(),
        };
        let rest = Rest {
            connectors,
            view: Arc::clone(&view),
            rates,
            plugins: [
                plugin("file", PluginType::Sink),
                plugin("json", PluginType::Converter),
            ]
            .into(),
            worker_id: "host:8083".into(),
        };
        Self {
            router: router(rest),
            fakes,
            view,
            _pipeline: pipeline,
        }
    }

    async fn text(&self, method: Method, path: &str) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn ask(&self, method: Method, path: &str) -> (StatusCode, Value) {
        let (status, body) = self.text(method, path).await;
        let body = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&body).unwrap(),
        };
        (status, body)
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    fn orders(&self) -> Vec<String> {
        std::mem::take(&mut *self.fakes.0.lock())
    }
}

/// A pipeline that has delivered all its records.
async fn run(view: &Arc<LiveView>) -> Pipeline {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let credit = Credit::new(1 << 20);
    let (source, events) = FakeSource::start(&credit, &[RECORDS], Duration::from_secs(30));
    let spec = PipelineSpec {
        connector: GOOD.into(),
        worker: "worker".into(),
        policy: Policy {
            tolerance: Tolerance::None,
            retry: RetryPolicy::default(),
            gate: Gate::new(5),
            max_put_records: 5,
            tasks: TASKS,
        },
        conversion: conversion_of_values(AsTheyAre),
        sink: Arc::new(sink),
        delivery_timeout: Duration::from_secs(60),
        flush_interval: Duration::from_millis(500),
        max_in_flight_records: None,
        span: 2000,
        error_log: ErrorLog::Records,
    };
    let source = Arc::new(source);
    let pipeline = Pipeline::start(
        spec,
        Arc::clone(&source) as _,
        events,
        credit,
        Threads::current(),
        Arc::clone(view),
    );
    source.send(SourceEvent::Ready);
    let accepted = || view.connector(GOOD).map_or(0, |it| it.totals.accepted);
    let state = || view.connector(GOOD).map(|it| it.state);
    while accepted() < RECORDS as u64 || state() != Some(ConnectorState::Running) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Until the topics show.
    tokio::time::sleep(Duration::from_secs(1)).await;
    pipeline
}

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
    let mut shown = 0;
    for path in PATHS {
        let (status, text) = setting.text(Method::GET, path).await;
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
async fn sinks_are_listed_and_all_plugins_on_demand() {
    let setting = Setting::new().await;
    let sinks = setting.get("/connector-plugins").await;
    assert_eq!(sinks.as_array().unwrap().len(), 1);
    assert_eq!(sinks[0]["class"], "file");
    let all = setting.get("/connector-plugins?connectorsOnly=false").await;
    assert_eq!(all[1]["type"], "converter");
}

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
        ("/connectors/orders/nothing", "HTTP 404 Not Found"),
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
        (Method::PATCH, "/connectors/orders/offsets"),
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
