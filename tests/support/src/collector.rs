//! A collector of traces and metrics: OTLP over gRPC, by the official protobufs.

use std::collections::BTreeSet;
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
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::otlp::{Series, Span, series_of, spans_of};

#[derive(Default)]
struct Arrived {
    traces: Vec<ExportTraceServiceRequest>,
    metrics: Vec<ExportMetricsServiceRequest>,
    /// As `name: value`.
    headers: BTreeSet<String>,
    /// What each export of traces is answered with.
    answer: ExportTraceServiceResponse,
}

#[derive(Clone, Default)]
struct Store(Arc<Mutex<Arrived>>);

#[tonic::async_trait]
impl MetricsService for Store {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let mut arrived = self.0.lock();
        arrived.headers.extend(headers(request.metadata()));
        arrived.metrics.push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Store {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut arrived = self.0.lock();
        arrived.headers.extend(headers(request.metadata()));
        arrived.traces.push(request.into_inner());
        Ok(Response::new(arrived.answer.clone()))
    }
}

fn headers(metadata: &MetadataMap) -> impl Iterator<Item = String> {
    metadata.iter().map(|header| match header {
        KeyAndValueRef::Ascii(name, value) => {
            let value = String::from_utf8_lossy(value.as_encoded_bytes());
            format!("{name}: {value}")
        }
        KeyAndValueRef::Binary(name, value) => {
            let value = String::from_utf8_lossy(value.as_encoded_bytes());
            format!("{name}: {value}")
        }
    })
}

/// As it is on the wire: every text in it, whatever it is for.
fn on_the_wire(exports: &[impl Message]) -> String {
    let exports = exports.iter().map(Message::encode_to_vec);
    let texts = exports.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    texts.collect()
}

/// A collector on a port of its own; it ends when it is dropped.
pub struct Collector {
    address: SocketAddr,
    store: Store,
    serving: JoinHandle<()>,
}

impl Collector {
    /// # Errors
    /// If there is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, store) = (listener.local_addr()?, Store::default());
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(store.clone()))
            .add_service(MetricsServiceServer::new(store.clone()));
        let serving = serving.serve_with_incoming(TcpListenerStream::new(listener));
        let serving = tokio::spawn(async move {
            // It ends with the test, which sees what is missing.
            let _ = serving.await;
        });
        Ok(Self {
            address,
            store,
            serving,
        })
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it says so of traces that it has taken.
    pub fn answer_traces_with(&self, answer: ExportTraceServiceResponse) {
        self.store.0.lock().answer = answer;
    }

    /// What came so far, by the time when each began.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        spans_of(&self.store.0.lock().traces)
    }

    /// The metrics of the newest push.
    #[must_use]
    pub fn metrics(&self) -> Vec<Series> {
        let arrived = self.store.0.lock();
        arrived.metrics.last().map(series_of).unwrap_or_default()
    }

    /// How often metrics were pushed.
    #[must_use]
    pub fn pushes(&self) -> usize {
        self.store.0.lock().metrics.len()
    }

    /// All texts of all traces.
    #[must_use]
    pub fn text_of_traces(&self) -> String {
        on_the_wire(&self.store.0.lock().traces)
    }

    /// All texts of all metrics.
    #[must_use]
    pub fn text_of_metrics(&self) -> String {
        on_the_wire(&self.store.0.lock().metrics)
    }

    /// The headers that exports came with, each once, as `name: value`.
    #[must_use]
    pub fn headers(&self) -> Vec<String> {
        self.store.0.lock().headers.iter().cloned().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
