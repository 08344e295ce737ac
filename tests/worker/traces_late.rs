//! Lives that are told only because of how they went, what is passed on of
//! records that are not traced, and requests to the worker itself.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::collector::Collector;
use sluice_test_support::otlp::Span;
use sluice_test_support::produce::{json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::history::log;
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
/// What a producer was doing that is not sampled.
const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
/// What an operator was doing that is.
const OPERATOR: &str = "00-a3ce929d0e0e47364bf92f3577b34da6-0aa0ba902b700f67-01";
const STATUS: &str = "GET /connectors/{name}/status";

fn connector(stage: &Stage, receiver: &Receiver) -> Value {
    let mut connector = stage.connector("http", 1);
    for (key, value) in [
        ("http.url", receiver.url("/").as_str()),
        ("max.put.records", "1"),
        ("transforms", "route"),
        (
            "transforms.route.type",
            "org.apache.kafka.connect.transforms.RegexRouter",
        ),
        ("transforms.route.regex", "none"),
        ("transforms.route.replacement", "other"),
    ] {
        connector[key] = json!(value);
    }
    connector
}

/// The span of a record's delivery, by its offset.
async fn delivery(stage: &Stage, collector: &Collector, offset: &str) -> Result<Span> {
    let name = format!("process {}", stage.name);
    eventually("the span comes", MINUTE, async || {
        let mut spans = collector.spans().into_iter();
        let is_it =
            |span: &Span| span.name == name && span.said("messaging.kafka.offset") == offset;
        spans.find(is_it).context("not yet")
    })
    .await
}

fn steps_of(delivery: &Span, collector: &Collector) -> Vec<String> {
    let mut spans = collector.spans();
    spans.retain(|span| span.parent == delivery.span_id);
    spans.into_iter().map(|span| span.name).collect()
}

async fn ask_for_status(worker: &Worker, stage: &Stage) -> Result<()> {
    let url = Api::of(worker).await?.url;
    let url = format!("{url}/connectors/{}/status", stage.name);
    let client = reqwest::Client::builder().no_proxy().build()?;
    let asked = client.get(url).header("traceparent", OPERATOR).send();
    ensure!(asked.await?.status().is_success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_nobody_sampled_is_told_whole_if_it_was_slow_or_failed() -> Result<()> {
    let stage = Stage::set("traces-late", 1).await?;
    let records = json_records(2, 1, 100).enumerate();
    let records = records.map(|(number, record)| match number {
        0 => record.header("traceparent", PRODUCER),
        _ => record,
    });
    produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    let receiver = Receiver::start(|arrival| match arrival.text().contains("id-000001") {
        true => Reply::status(400),
        false => Reply::ok(),
    })
    .await?;
    let collector = Collector::start().await?;
    let options = stage
        .worker_options(&connector(&stage, &receiver))
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .environment("OTEL_BSP_SCHEDULE_DELAY", "100")
        .environment("OTEL_TRACES_SAMPLER", "parentbased_always_off")
        .property("trace.slow.record.ms", "1");
    let worker = Worker::start(&options)?;
    let accepted = |status: &Value| status["accepted"] == 1;
    wait_for_status(&worker, "one is accepted", MINUTE, accepted).await?;
    let failed = eventually("the other one fails the connector", MINUTE, async || {
        let mut log = log(&worker)?.into_iter();
        let failed = log.find(|line| line["message"] == "connector failed");
        failed.context("not yet")
    })
    .await?;
    ask_for_status(&worker, &stage).await?;
    let slow = delivery(&stage, &collector, "0").await?;
    worker.stop(MINUTE).await?;

    let whole = ["acquire", "convert", "transform route", "queue", "put"];
    assert_eq!(slow.said("sluice.chosen"), "slow");
    assert_eq!(slow.traceparent()[..35], PRODUCER[..35]);
    assert_eq!(slow.parent, PRODUCER[36..52]);
    assert_eq!(
        steps_of(&slow, &collector),
        [&whole[..], &["settle"]].concat()
    );
    let arrivals = receiver.arrivals().clone();
    let passed_on = |place: usize| arrivals[place].header("traceparent");
    assert_eq!(passed_on(0), Some(PRODUCER), "it had no span then");
    assert_eq!(passed_on(1), None);

    let held = delivery(&stage, &collector, "1").await?;
    assert_eq!(held.said("sluice.chosen"), "failed");
    assert_eq!(
        steps_of(&held, &collector),
        [&whole[..], &["hold", "settle"]].concat()
    );
    assert_eq!(failed["trace_id"], held.trace_id, "{failed}");

    let spans = collector.spans();
    let asked: Vec<&Span> = spans.iter().filter(|it| it.name == STATUS).collect();
    assert_eq!(asked.len(), 1, "only the operator's is sampled");
    assert_eq!(asked[0].traceparent()[..35], OPERATOR[..35]);
    assert_eq!(asked[0].parent, OPERATOR[36..52]);
    assert_eq!(asked[0].said("http.response.status_code"), "200");
    Ok(())
}
