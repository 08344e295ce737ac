//! A collector of traces and metrics: OTLP over gRPC, by the official protobufs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{self as measured, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// A span as it came; ids as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    /// Empty if it has none.
    pub parent: String,
    pub attributes: BTreeMap<String, String>,
    pub events: Vec<String>,
    /// Span ids.
    pub links: Vec<String>,
    /// Nanoseconds since 1970.
    pub began: u64,
    pub ended: u64,
}

impl Span {
    /// An attribute; empty if it is not there.
    #[must_use]
    pub fn said(&self, key: &str) -> &str {
        self.attributes.get(key).map_or("", String::as_str)
    }

    /// As a `traceparent` header.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }
}

/// The newest value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub service: String,
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    pub value: f64,
    /// It only grows, and tells all that was counted.
    pub is_total: bool,
}

/// The newest push, and how many there were.
#[derive(Clone, Default)]
struct Metrics(Arc<Mutex<(usize, Vec<Series>)>>);

#[tonic::async_trait]
impl MetricsService for Metrics {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let mut series = Vec::new();
        for resource in request.into_inner().resource_metrics {
            let of = resource.resource.unwrap_or_default();
            let service = attributes(&of.attributes).remove("service.name");
            let service = service.unwrap_or_default();
            let scopes = resource.scope_metrics.iter().flat_map(|it| &it.metrics);
            series.extend(scopes.flat_map(|it| series_of(it, &service)));
        }
        let mut newest = self.0.lock();
        *newest = (newest.0 + 1, series);
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn series_of(metric: &measured::Metric, service: &str) -> Vec<Series> {
    let cumulative = measured::AggregationTemporality::Cumulative as i32;
    let (points, is_total) = match &metric.data {
        Some(metric::Data::Gauge(gauge)) => (&gauge.data_points[..], false),
        Some(metric::Data::Sum(sum)) => (
            &sum.data_points[..],
            sum.is_monotonic && sum.aggregation_temporality == cumulative,
        ),
        _ => (&[][..], false),
    };
    let points = points.iter().map(|point| Series {
        service: service.to_owned(),
        name: metric.name.clone(),
        attributes: attributes(&point.attributes),
        value: match point.value {
            Some(number_data_point::Value::AsDouble(value)) => value,
            Some(number_data_point::Value::AsInt(value)) => value as f64,
            None => f64::NAN,
        },
        is_total,
    });
    points.collect()
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock();
        for resource in request.into_inner().resource_spans {
            let of = resource.resource.unwrap_or_default();
            let service = attributes(&of.attributes).remove("service.name");
            let service = service.unwrap_or_default();
            let scopes = resource.scope_spans.iter().flat_map(|it| &it.spans);
            spans.extend(scopes.map(|it| span(it, &service)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector on a port of its own; it ends when it is dropped.
pub struct Collector {
    address: SocketAddr,
    spans: Spans,
    metrics: Metrics,
    serving: JoinHandle<()>,
}

impl Collector {
    /// # Errors
    /// If there is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, spans) = (listener.local_addr()?, Spans::default());
        let metrics = Metrics::default();
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(spans.clone()))
            .add_service(MetricsServiceServer::new(metrics.clone()));
        let serving = serving.serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move {
            // It ends with the test, which sees what is missing.
            let _ = serving.await;
        });
        Ok(Self {
            address,
            spans,
            metrics,
            serving,
        })
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What came so far, by the time when each began.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = self.spans.0.lock().clone();
        spans.sort_by_key(|span| (span.began, span.ended));
        spans
    }
}

impl Collector {
    /// The metrics of the newest push.
    #[must_use]
    pub fn metrics(&self) -> Vec<Series> {
        self.metrics.0.lock().1.clone()
    }

    /// How often metrics were pushed.
    #[must_use]
    pub fn pushes(&self) -> usize {
        self.metrics.0.lock().0
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn span(span: &otlp::Span, service: &str) -> Span {
    Span {
        service: service.to_owned(),
        name: span.name.clone(),
        trace_id: hex(&span.trace_id),
        span_id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(|it| it.name.clone()).collect(),
        links: span.links.iter().map(|it| hex(&it.span_id)).collect(),
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let attributes = attributes.iter();
    attributes
        .map(|it| (it.key.clone(), text(it.value.as_ref())))
        .collect()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|it| it.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}
