//! What is told of requests when they are traced.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use sluice_actors::trace_context::TRACEPARENT;
use tower::ServiceExt;

use super::Setting;
use crate::telemetry::traces::{RequestTracer, ServedRequest};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<ServedRequest>>);

impl RequestTracer for Heard {
    fn served(&self, request: ServedRequest) {
        self.0.lock().push(request);
    }
}

#[actix::test]
async fn each_request_is_told_by_its_route_and_with_its_answer() {
    let heard = Arc::new(Heard::default());
    let tracer = Arc::clone(&heard) as Arc<dyn RequestTracer>;
    let setting = Setting::traced(Some(tracer)).await;
    for (method, path) in [
        (Method::GET, "/connectors/orders/status/"),
        (Method::GET, "/connectors/none/status?a=b"),
        (Method::GET, "/nowhere"),
        (Method::DELETE, "/admin/loggers"),
    ] {
        setting.ask(method, path).await;
    }
    let heard = std::mem::take(&mut *heard.0.lock());
    let told = heard.iter().map(|it| {
        let route = it.route.as_deref();
        (
            &*it.method,
            route,
            &*it.path,
            it.query.as_deref(),
            it.status,
        )
    });
    let status = Some("/connectors/{name}/status");
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("GET", status, "/connectors/orders/status", None, 200),
            ("GET", status, "/connectors/none/status", Some("a=b"), 404),
            ("GET", None, "/nowhere", None, 404),
            (
                "DELETE",
                Some("/admin/loggers"),
                "/admin/loggers",
                None,
                405
            ),
        ]
    );
    assert!(heard.iter().all(|it| it.began <= it.ended));
}

#[actix::test]
async fn a_client_says_what_its_own_span_is() {
    let heard = Arc::new(Heard::default());
    let tracer = Arc::clone(&heard) as Arc<dyn RequestTracer>;
    let setting = Setting::traced(Some(tracer)).await;
    let request = Request::builder()
        .uri("/")
        .header(TRACEPARENT, PARENT)
        .header("host", "worker:8083")
        .body(Body::empty())
        .unwrap();
    let answer = setting.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let heard = heard.0.lock();
    let parent = heard[0].parent.as_ref().unwrap();
    assert_eq!(parent.context.to_string(), PARENT);
    assert_eq!(heard[0].host.as_deref(), Some("worker:8083"));
}

#[actix::test]
async fn a_probe_is_told_only_if_a_sampled_client_sends_it() {
    let heard = Arc::new(Heard::default());
    let tracer = Arc::clone(&heard) as Arc<dyn RequestTracer>;
    let setting = Setting::traced(Some(tracer)).await;
    let not_sampled = PARENT.replace("-01", "-00");
    for path in ["/health", "/health/live/", "/health/ready", "/metrics"] {
        for parent in [None, Some(PARENT), Some(&not_sampled)] {
            let mut request = Request::builder().uri(path);
            if let Some(parent) = parent {
                request = request.header(TRACEPARENT, parent);
            }
            let request = request.body(Body::empty()).unwrap();
            setting.router.clone().oneshot(request).await.unwrap();
        }
        let heard = std::mem::take(&mut *heard.0.lock());
        let parents = heard.iter().map(|it| it.parent.as_ref().unwrap());
        let parents: Vec<_> = parents.map(|it| it.context.to_string()).collect();
        assert_eq!(parents, [PARENT], "{path}");
    }
}
