//! What a worker sends to a collector, and how it ends when that is silent. Run
//! as users run it: the environment is a process's own.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use serde_json::json;
use sluice_test_support::process::Signal;
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);
const TEN_MINUTES: &str = "600000";

/// A worker on an embedded broker, with more keys for its connector.
fn options(more: &[(&str, &str)]) -> WorkerOptions {
    let mut connector = json!({
        "name": "orders",
        "connector.class": "null",
        "topics": "orders",
        "tasks.max": "1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.group.protocol": "share",
    });
    for (key, value) in more {
        connector[key] = json!(value);
    }
    WorkerOptions::new(env!("CARGO_BIN_EXE_sluice"))
        .property("bootstrap.servers", "127.0.0.1:1")
        .connector("orders", &connector)
        .argument("--embedded-broker")
}

/// No broker can write dead letters that is so small.
const CANNOT_START: [(&str, &str); 2] = [
    ("errors.tolerance", "all"),
    ("errors.deadletterqueue.topic.name", "dlq.orders"),
];

async fn collector() -> Result<Receiver> {
    Receiver::start(|_| Reply::ok()).await
}

fn attribute(arrival: &Arrival, name: &str) -> Result<String> {
    let request = ExportMetricsServiceRequest::decode(&*arrival.body)?;
    let of = request.resource_metrics.into_iter().next();
    let resource = of.and_then(|it| it.resource).context("no resource")?;
    let mut attributes = resource.attributes.into_iter();
    let attribute = attributes.find(|it| it.key == name);
    match attribute.and_then(|it| it.value?.value) {
        Some(Value::StringValue(text)) => Ok(text),
        other => anyhow::bail!("{name} is {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_decides_what_is_sent_whatever_the_environment_has() -> Result<()> {
    let collector = collector().await?;
    let folder = tempfile::tempdir()?;
    let headers = folder.path().join("headers");
    std::fs::write(&headers, "api-key=own\n")?;
    let headers = headers.to_str().context("no path")?;
    let worker = Worker::start(
        &options(&[])
            .environment("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"))
            .environment("OTEL_EXPORTER_OTLP_HEADERS", "api-key=theirs,tenant=all")
            .environment("OTEL_EXPORTER_OTLP_METRICS_HEADERS_FILE", headers)
            .environment("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
            .environment("SLUICE_OTEL_EXPORTER_OTLP_COMPRESSION", "none")
            .environment("OTEL_SERVICE_NAME", "theirs")
            .environment("SLUICE_OTEL_SERVICE_NAME", "ours")
            .environment(
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=among,team=theirs,zone=z",
            )
            .environment("SLUICE_OTEL_RESOURCE_ATTRIBUTES", "team=ours")
            .environment("OTEL_METRIC_EXPORT_INTERVAL", "100")
            .environment("HTTP_PROXY", "http://127.0.0.1:1"),
    )?;
    let pushed = eventually("metrics are pushed", PATIENCE, async || {
        let arrivals = collector.arrivals();
        let first = arrivals.iter().find(|it| it.path == "/v1/metrics").cloned();
        first.context("none")
    })
    .await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    assert_eq!(pushed.header("api-key"), Some("own"));
    assert_eq!(pushed.header("tenant"), None);
    assert_eq!(pushed.header("content-encoding"), None);
    assert_eq!(attribute(&pushed, "service.name")?, "ours");
    assert_eq!(attribute(&pushed, "team")?, "ours");
    assert_eq!(attribute(&pushed, "telemetry.sdk.name")?, "opentelemetry");
    assert!(attribute(&pushed, "zone").is_err(), "nobody set it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_sdk_is_disabled_sends_nothing() -> Result<()> {
    let collector = collector().await?;
    let worker = Worker::start(
        &options(&[])
            .environment("OTEL_SDK_DISABLED", "TRUE")
            .environment("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"))
            .environment("OTEL_PROPAGATORS", "tracecontext,b3"),
    )?;
    let joined = |line: &str| line.contains("joined the share group");
    worker.wait_for_log(joined, PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    assert_eq!(collector.count(), 0, "not even at its end");
    let log = worker.stderr()?;
    ensure!(
        log.contains("OTEL_PROPAGATORS: has no effect here"),
        "{log}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_starts_whatever_its_platform_sets_for_all_programs() -> Result<()> {
    let collector = collector().await?;
    let worker = Worker::start(
        &options(&[])
            .environment("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/"))
            .environment("OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote")
            .environment(
                "OTEL_TRACES_SAMPLER_ARG",
                "endpoint=http://agent:14250,pollingIntervalMs=5000,initialSamplingRate=0.25",
            ),
    )?;
    let joined = |line: &str| line.contains("joined the share group");
    worker.wait_for_log(joined, PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    let log = worker.stderr()?;
    ensure!(log.contains("OTEL_TRACES_SAMPLER: is not used"), "{log}");
    ensure!(log.contains("records are traced"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_could_not_start_pushes_what_it_counted() -> Result<()> {
    let collector = collector().await?;
    let worker = Worker::start(
        &options(&CANNOT_START)
            .environment("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/")),
    )?;
    assert_eq!(worker.wait_for_exit(PATIENCE).await?.code(), Some(69));
    let paths: Vec<_> = collector
        .arrivals()
        .iter()
        .map(|it| it.path.clone())
        .collect();
    assert_eq!(paths, ["/v1/metrics"], "once, at its end");
    Ok(())
}

/// Takes connections and never answers.
struct Silent {
    url: String,
    taking: JoinHandle<()>,
}

impl Silent {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let taking = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
            }
        });
        Ok(Self { url, taking })
    }

    /// A worker that would wait for it for ten minutes.
    fn worker(&self, more: &[(&str, &str)], graceful: &str) -> Result<Worker> {
        Worker::start(
            &options(more)
                .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url)
                .environment("OTEL_EXPORTER_OTLP_TIMEOUT", TEN_MINUTES)
                .environment("OTEL_METRIC_EXPORT_INTERVAL", "100")
                .property("task.shutdown.graceful.timeout.ms", graceful),
        )
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.taking.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_collector_takes_no_more_than_the_time_of_the_drain() -> Result<()> {
    let collector = Silent::start().await?;
    let worker = collector.worker(&[], "1000")?;
    let joined = |line: &str| line.contains("joined the share group");
    worker.wait_for_log(joined, PATIENCE).await?;
    assert_eq!(worker.stop(PATIENCE).await?.code(), Some(0));
    let worker = collector.worker(&CANNOT_START, "1000")?;
    assert_eq!(worker.wait_for_exit(PATIENCE).await?.code(), Some(69));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_wait_for_a_silent_collector() -> Result<()> {
    let collector = Silent::start().await?;
    let worker = collector.worker(&[], TEN_MINUTES)?;
    let joined = |line: &str| line.contains("joined the share group");
    worker.wait_for_log(joined, PATIENCE).await?;
    worker.signal(Signal::TERM)?;
    let drained = |line: &str| line.contains("stopped") && line.contains("clean=true");
    worker.wait_for_log(drained, PATIENCE).await?;
    assert_eq!(worker.exit_status()?, None, "it waits for the collector");
    worker.signal(Signal::INT)?;
    let ended = worker.wait_for_exit(PATIENCE).await?;
    // All records are settled.
    assert_eq!(ended.code(), Some(0), "{}", worker.output()?);
    let log = worker.stderr()?;
    let told = "the last spans and metrics are not waited for";
    ensure!(log.contains(told), "{log}");
    Ok(())
}
