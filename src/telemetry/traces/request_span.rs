//! From a request to a span, by OpenTelemetry's conventions for HTTP servers.

use std::sync::Arc;

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use sluice_actors::life::new_span_id;
use sluice_actors::sampling::Sampling;
use sluice_actors::trace_context::{Parent, TraceContext};
use tokio::time::Instant;

use super::attributes::{ERROR_TYPE, text};
use super::limit::Limit;
use super::request::{RequestTracer, ServedRequest};
use super::spans::{Clock, empty, state};
use super::tracer::Shared;

/// What a method is called that HTTP does not know.
const OTHER: &str = "_OTHER";
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
];

/// Requests of one worker.
#[derive(Debug)]
pub(super) struct OtlpRequests {
    pub(super) shared: Arc<Shared>,
    pub(super) scope: InstrumentationScope,
    pub(super) limit: Mutex<Limit>,
}

impl RequestTracer for OtlpRequests {
    fn served(&self, request: ServedRequest) {
        let Some(context) = sampled(self.shared.sampling, request.parent.as_ref()) else {
            return;
        };
        let shared = &self.shared;
        if shared.outlet.has_room() && self.limit.lock().take(Instant::now()) {
            let span = || vec![span(context, &request, &self.scope)];
            shared.outlet.send(1, span);
        }
    }
}

/// The span that a request gets, if it is sampled: as records are, by the
/// client's word or by its trace id.
fn sampled(sampling: Sampling, parent: Option<&Parent>) -> Option<TraceContext> {
    let trace_id = parent.map_or_else(|| fastrand::u128(1..), |it| it.context.trace_id);
    let is_sampled = match parent {
        Some(parent) => sampling.samples_child(parent.context),
        None => sampling.samples(trace_id as u64),
    };
    is_sampled.then(|| TraceContext {
        trace_id,
        span_id: new_span_id(),
        is_sampled,
    })
}

fn span(context: TraceContext, request: &ServedRequest, scope: &InstrumentationScope) -> SpanData {
    let method = METHODS.into_iter().find(|it| *it == request.method);
    // A name is one of few: no path, nor what a client calls its method.
    let verb = method.unwrap_or("HTTP");
    let name = match &request.route {
        Some(route) => format!("{verb} {route}"),
        None => verb.to_owned(),
    };
    let state = state(request.parent.as_ref());
    let mut span = empty(context, &state, name.into(), scope, Clock::now());
    span.span_kind = SpanKind::Server;
    if let Some(parent) = &request.parent {
        span.parent_span_id = SpanId::from(parent.context.span_id);
        span.parent_span_is_remote = true;
    }
    span.start_time = request.began;
    span.end_time = request.ended;
    span.attributes = attributes(method, request);
    if request.status >= 500 {
        // What went wrong with what was asked for is the client's.
        span.status = Status::error("");
    }
    span
}

fn attributes(method: Option<&'static str>, request: &ServedRequest) -> Vec<KeyValue> {
    let mut all = vec![
        text("http.request.method", method.unwrap_or(OTHER)),
        text("http.response.status_code", i64::from(request.status)),
        text("network.protocol.version", request.version),
        text("url.path", request.path.clone()),
        text("url.scheme", "http"),
    ];
    let original = method.is_none().then(|| request.method.clone());
    let (address, port) = request.host.as_deref().map_or((None, None), host);
    let optional = [
        ("http.request.method_original", original),
        ("http.route", request.route.clone()),
        ("server.address", address.map(str::to_owned)),
        ("url.query", request.query.clone()),
        ("user_agent.original", request.user_agent.clone()),
    ];
    let optional = optional.into_iter();
    all.extend(optional.filter_map(|(key, value)| Some(text(key, value?))));
    all.extend(port.map(|port| text("server.port", i64::from(port))));
    if request.status >= 500 {
        all.push(text(ERROR_TYPE, request.status.to_string()));
    }
    all
}

/// Address and port of a `Host`.
fn host(host: &str) -> (Option<&str>, Option<u16>) {
    let split = host.rsplit_once(':');
    match split.and_then(|(address, port)| Some((address, port.parse().ok()?))) {
        Some((address, port)) => (Some(address), Some(port)),
        None => (Some(host), None),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn request(status: u16) -> ServedRequest {
        let began = SystemTime::now();
        ServedRequest {
            method: "GET".into(),
            route: Some("/connectors/{name}".into()),
            path: "/connectors/orders".into(),
            query: Some("expand=status".into()),
            host: Some("worker:8083".into()),
            user_agent: Some("curl/8".into()),
            version: "1.1",
            status,
            parent: Parent::read(PARENT.as_bytes(), Some("vendor=1".into())),
            began,
            ended: began + Duration::from_millis(3),
        }
    }

    fn span_of(request: &ServedRequest) -> SpanData {
        let context = sampled(Sampling::ratio(1.0), request.parent.as_ref());
        let scope = InstrumentationScope::builder("sluice").build();
        span(context.unwrap(), request, &scope)
    }

    fn said(span: &SpanData) -> Vec<(String, String)> {
        let said = span.attributes.iter();
        let mut said: Vec<_> = said
            .map(|it| (it.key.to_string(), it.value.to_string()))
            .collect();
        said.sort();
        said
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_request_is_a_servers_span_below_its_clients() {
        let request = request(200);
        let span = span_of(&request);
        assert_eq!(span.name, "GET /connectors/{name}");
        assert_eq!(span.span_kind, SpanKind::Server);
        let parent = TraceContext::parse(PARENT).unwrap();
        assert_eq!(span.parent_span_id, SpanId::from(parent.span_id));
        assert!(span.parent_span_is_remote);
        let trace_id = u128::from_be_bytes(span.span_context.trace_id().to_bytes());
        assert_eq!(trace_id, parent.trace_id);
        assert_eq!(span.span_context.trace_state().get("vendor"), Some("1"));
        assert_eq!(
            (span.start_time, span.end_time),
            (request.began, request.ended)
        );
        assert_eq!(span.status, Status::Unset);
        let expected = [
            ("http.request.method", "GET"),
            ("http.response.status_code", "200"),
            ("http.route", "/connectors/{name}"),
            ("network.protocol.version", "1.1"),
            ("server.address", "worker"),
            ("server.port", "8083"),
            ("url.path", "/connectors/orders"),
            ("url.query", "expand=status"),
            ("url.scheme", "http"),
            ("user_agent.original", "curl/8"),
        ];
        assert_eq!(said(&span), pairs(&expected));
    }

    #[test]
    fn what_a_client_makes_up_is_in_no_name() {
        let span = span_of(&ServedRequest {
            method: "STEAL".into(),
            route: None,
            ..request(404)
        });
        assert_eq!(span.name, "HTTP");
        let said = said(&span);
        for part in pairs(&[
            ("http.request.method", OTHER),
            ("http.request.method_original", "STEAL"),
        ]) {
            assert!(said.contains(&part), "{said:?}");
        }
    }

    #[test]
    fn only_what_the_worker_failed_at_is_an_error() {
        let (theirs, ours) = (span_of(&request(404)), span_of(&request(500)));
        assert_eq!(theirs.status, Status::Unset);
        assert!(!said(&theirs).iter().any(|(key, _)| key == ERROR_TYPE));
        assert_eq!(ours.status, Status::error(""));
        assert!(said(&ours).contains(&(ERROR_TYPE.into(), "500".into())));
    }

    #[test]
    fn a_request_is_sampled_as_a_record_is() {
        let parent = |flags: &str| Parent::read(PARENT.replace("-01", flags).as_bytes(), None);
        let none = Sampling::ratio(0.0);
        assert_eq!(sampled(none, None), None);
        assert_eq!(sampled(none, parent("-01").as_ref()), None);
        let follows = none.following_parents();
        assert!(sampled(follows, parent("-01").as_ref()).is_some());
        let all = Sampling::ratio(1.0).following_parents();
        assert_eq!(sampled(all, parent("-00").as_ref()), None);
        assert!(sampled(all, None).is_some());
    }
}
