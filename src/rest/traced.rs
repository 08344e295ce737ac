//! Tells of requests that are traced.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{HOST, USER_AGENT};
use axum::http::{HeaderMap, Version};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use sluice_actors::trace_context::{Parent, TRACEPARENT, TRACESTATE};

use crate::telemetry::traces::{RequestTracer, ServedRequest};

/// What asks for these comes again and again, and tells nobody's story.
const PROBES: [&str; 4] = ["/health", "/health/live", "/health/ready", "/metrics"];

/// Has a request answered, and tells how, unless it is a probe that no sampled
/// client sent.
pub(super) async fn traced(
    State(tracer): State<Arc<dyn RequestTracer>>,
    request: Request,
    next: Next,
) -> Response {
    let mut served = seen(&request);
    let answer = next.run(request).await;
    served.status = answer.status().as_u16();
    served.ended = SystemTime::now();
    if is_sampled(served.parent.as_ref()) || !is_probe(&served) {
        tracer.served(served);
    }
    answer
}

fn is_sampled(parent: Option<&Parent>) -> bool {
    parent.is_some_and(|it| it.context.is_sampled)
}

fn is_probe(request: &ServedRequest) -> bool {
    let route = request.route.as_deref();
    route.is_some_and(|route| PROBES.contains(&route))
}

/// A request that has just come.
fn seen(request: &Request) -> ServedRequest {
    let (headers, now) = (request.headers(), SystemTime::now());
    let text = |name| {
        let value = headers.get(name)?;
        value.to_str().ok().map(str::to_owned)
    };
    let route = request.extensions().get::<MatchedPath>();
    ServedRequest {
        method: request.method().to_string(),
        route: route.map(|it| it.as_str().to_owned()),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(str::to_owned),
        host: text(HOST),
        user_agent: text(USER_AGENT),
        version: match request.version() {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        },
        status: 0,
        parent: parent(headers),
        began: now,
        ended: now,
    }
}

fn parent(headers: &HeaderMap) -> Option<Parent> {
    let state = headers.get(TRACESTATE).map(|it| it.as_bytes());
    let state = state.map(Bytes::copy_from_slice);
    Parent::read(headers.get(TRACEPARENT)?.as_bytes(), state)
}
