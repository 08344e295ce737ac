//! What becomes of spans.

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use opentelemetry_sdk::error::OTelSdkError;
use prost::Message as _;
use sluice_actors::trace_context::TraceContext;
use sluice_test_support::receiver::{Receiver, Reply};
use std::sync::mpsc;

use super::*;
use crate::config::definition::Secret;
use crate::config::otlp::{OtlpConfig, Protocol};
use crate::telemetry::otlp;
use crate::telemetry::traces::attributes::Common;
use crate::telemetry::traces::spans::{Clock, Spans};
use crate::telemetry::traces::{TraceCounts, TracedConnector};

/// Exports when it is told to, and as it is told.
#[derive(Debug)]
struct Collector {
    begun: mpsc::SyncSender<usize>,
    answers: parking_lot::Mutex<mpsc::Receiver<bool>>,
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let _ = self.begun.send(batch.len());
        match self.answers.lock().recv() {
            Ok(true) => Ok(()),
            _ => Err(OTelSdkError::InternalFailure("away".into())),
        }
    }
}

struct Bench {
    outlet: Outlet,
    begun: mpsc::Receiver<usize>,
    answers: mpsc::Sender<bool>,
    figures: Arc<TraceFigures>,
}

fn bench(queue: usize) -> Bench {
    let (begin, begun) = mpsc::sync_channel(100);
    let (answers, answered) = mpsc::channel();
    let figures = Arc::new(TraceFigures::default());
    let collector = Collector {
        begun: begin,
        answers: parking_lot::Mutex::new(answered),
    };
    let settings = BatchSettings {
        delay: Duration::from_secs(3600),
        queue,
        batch: 2,
    };
    let resource = Resource::builder_empty().build();
    Bench {
        outlet: Outlet::start(collector, Arc::default(), &resource, settings, &figures),
        begun,
        answers,
        figures,
    }
}

fn spans(count: usize) -> Vec<SpanData> {
    let spans = Spans {
        common: Common::of(&TracedConnector {
            connector: "c".into(),
            worker: "w".into(),
            client_id: "i".into(),
            group: "g".into(),
            member: "m".into(),
            includes_messages: false,
        }),
        scope: InstrumentationScope::builder("sluice").build(),
    };
    let now = tokio::time::Instant::now();
    let put = sluice_actors::life::FinishedPut {
        context: TraceContext {
            trace_id: 1,
            span_id: 1,
            is_sampled: true,
        },
        task: 0,
        records: 2,
        links: Vec::new(),
        began: now,
        ended: now,
    };
    vec![spans.of_put(&put, Clock::now()); count]
}

#[test]
fn a_collector_that_does_not_answer_holds_nobody_up() {
    let bench = bench(20);
    assert!(bench.outlet.has_room());
    bench.outlet.send(2, || spans(2));
    assert_eq!(bench.begun.recv(), Ok(2), "under way");
    bench.outlet.send(9, || spans(9));
    assert!(!bench.outlet.has_room(), "another life would be too much");
    let unwanted = || unreachable!("there is no room");
    bench.outlet.send(10, unwanted);
    assert_eq!(bench.figures.counts().dropped, 10, "all of it or none");
    bench.answers.send(true).unwrap();
    assert_eq!(bench.begun.recv(), Ok(2));
    assert_eq!(bench.figures.counts().exported, 2);
    drop(bench.answers);
    bench.outlet.shut_down(Duration::from_secs(60));
    let counts = bench.figures.counts();
    assert_eq!((counts.exported, counts.dropped), (2, 19));
    assert!(bench.outlet.has_room());
}

#[test]
fn what_waits_is_sent_at_the_end() {
    let bench = bench(20);
    bench.outlet.send(1, || spans(1));
    bench.answers.send(true).unwrap();
    bench.outlet.shut_down(Duration::from_secs(60));
    assert_eq!(bench.figures.counts().exported, 1);
}

fn config(protocol: Protocol, endpoint: String) -> OtlpConfig {
    OtlpConfig {
        protocol,
        endpoint,
        headers: vec![("api-key".into(), Secret::new("hush"))],
        timeout: Duration::from_secs(60),
        is_packed: false,
        certificate: None,
        client: None,
        service_name: "sluice".into(),
        attributes: Vec::new(),
    }
}

/// Exports three spans, from a thread without a runtime.
async fn exported(config: &OtlpConfig) -> TraceCounts {
    let batch = BatchSettings {
        delay: Duration::from_secs(3600),
        queue: 20,
        batch: 20,
    };
    let figures = Arc::new(TraceFigures::default());
    let resource = Resource::builder_empty().build();
    let exporter = otlp::SpanExporter::new(config).unwrap();
    let refused = exporter.refused();
    let outlet = Outlet::start(exporter, refused, &resource, batch, &figures);
    let at_the_end = move || {
        outlet.send(3, || spans(3));
        outlet.shut_down(Duration::from_secs(60));
    };
    tokio::task::spawn_blocking(at_the_end).await.unwrap();
    figures.counts()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_http_spans_are_posted_from_a_thread_without_a_runtime() {
    let receiver = Receiver::start(|_| Reply::ok()).await.unwrap();
    let config = config(Protocol::HttpProtobuf, receiver.url("/v1/traces"));
    assert_eq!(exported(&config).await.exported, 3);
    let arrivals = receiver.arrivals();
    assert_eq!(
        (arrivals.len(), arrivals[0].path.as_str()),
        (1, "/v1/traces")
    );
    assert_eq!(arrivals[0].header("api-key"), Some("hush"));
    let kind = arrivals[0].header("content-type");
    assert_eq!(kind, Some("application/x-protobuf"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_that_a_collector_refuses_of_an_export_are_dropped() {
    let refusing = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 2,
            error_message: "too long ago".into(),
        }),
    };
    let grpc = sluice_test_support::collector::Collector::start().await;
    let grpc = grpc.unwrap();
    grpc.answer_traces_with(refusing.clone());
    let body = refusing.encode_to_vec();
    let http = Receiver::start(move |_| Reply::Answer {
        status: 200,
        headers: Vec::new(),
        body: body.clone().into(),
    });
    let http = http.await.unwrap();
    for config in [
        config(Protocol::Grpc, grpc.url()),
        config(Protocol::HttpProtobuf, http.url("/v1/traces")),
    ] {
        let counts = exported(&config).await;
        assert_eq!((counts.exported, counts.dropped), (1, 2), "{config:?}");
    }
    assert_eq!(http.arrivals().len(), 1, "they are not sent again");
}
