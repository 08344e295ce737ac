//! Requests to a worker of fakes: one connector that runs, one that failed
//! before it did.

mod loggers;
mod plugins;
mod reading;
mod refusals;
mod states;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::live_view::{ConnectorState, LiveView};
use sluice_actors::ports::source::SourceEvent;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, TestPipeline, conversion_of_values, policy, spec,
};
use sluice_actors::threads::Threads;
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::level_filters::LevelFilter;

use super::server::router;
use super::state::{Connectors, Described, Rest};
use crate::config::connector::tests::good;
use crate::config::definition::{Key, Kind, Preset, key};
use crate::config::env::Environment;
use crate::config::load::{Places, load};
use crate::config::testing::PLUGINS;
use crate::config::worker::WorkerConfig;
use crate::connectors::OrderError;
use crate::plugins::{Plugin, PluginType};
use crate::telemetry::levels::Levels;
use crate::telemetry::loggers::Loggers;
use crate::telemetry::rates::Rates;
use crate::telemetry::traces::RequestTracer;

const GOOD: &str = "orders";
const BAD: &str = "broken";
const RECORDS: usize = 20;
const TASKS: usize = 2;

const FILE_KEYS: &[Key] = &[key("file", Kind::Text, Preset::Required, "Where to.")];

/// With a config provider that knows a secret.
fn worker() -> WorkerConfig {
    let places = Places {
        environment: Environment::of([("SEAL".to_owned(), "hush-0".to_owned())].into()),
        set: vec![
            "bootstrap.servers=broker:9092".to_owned(),
            "config.providers=env".to_owned(),
            "config.providers.env.class=EnvVarConfigProvider".to_owned(),
        ],
        ..Places::default()
    };
    let checked = load(&places, &PLUGINS).unwrap().worker;
    assert_eq!(checked.faults.to_string(), "");
    checked.config
}

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
const PATHS: [&str; 19] = [
    "/",
    "/admin/loggers",
    "/admin/loggers/root",
    "/connector-plugins",
    "/connector-plugins?connectorsOnly=false",
    "/connector-plugins/file/config",
    "/connectors",
    "/connectors?expand=status&expand=info",
    "/connectors/orders",
    "/connectors/orders/config",
    "/connectors/orders/status",
    "/connectors/orders/tasks",
    "/connectors/orders/tasks/0/status",
    "/connectors/orders/topics",
    "/connectors/orders/offsets",
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
            make: Arc::default(),
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
        Self::traced(None).await
    }

    async fn traced(requests: Option<Arc<dyn RequestTracer>>) -> Self {
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
            aliases: vec!["FileStreamSink"],
            keys: FILE_KEYS,
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
            worker: Arc::new(worker()),
            checks: PLUGINS,
            loggers: Loggers::new(Levels::new(LevelFilter::INFO, &[])),
            worker_id: "host:8083".into(),
            traces: Arc::default(),
            requests,
        };
        Self {
            router: router(rest),
            fakes,
            view,
            _pipeline: pipeline,
        }
    }

    async fn text(&self, method: Method, path: &str, body: String) -> (StatusCode, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body)).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn send(&self, method: Method, path: &str, body: String) -> (StatusCode, Value) {
        let (status, body) = self.text(method, path, body).await;
        let body = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&body).unwrap(),
        };
        (status, body)
    }

    async fn ask(&self, method: Method, path: &str) -> (StatusCode, Value) {
        self.send(method, path, String::new()).await
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
    let policy = Policy {
        max_put_records: 5,
        ..policy(TASKS, Tolerance::None)
    };
    let spec = PipelineSpec {
        connector: GOOD.into(),
        ..spec(policy, conversion_of_values(AsTheyAre), Arc::new(sink))
    };
    let (threads, view) = (Threads::current(), Arc::clone(view));
    let lock = Duration::from_secs(30);
    let TestPipeline {
        source,
        view,
        pipeline,
        ..
    } = TestPipeline::start_on(threads, view, spec, &[RECORDS], lock);
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
