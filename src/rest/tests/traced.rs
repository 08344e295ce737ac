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
        (Method::DELETE, "/health"),
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
            ("DELETE", Some("/health"), "/health", None, 405),
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
