//! The lives of records, as a collector gets them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::collector::{Collector, Span};
use sluice_test_support::produce::{NewRecord, json_records, produce};
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::history::{lines_of, log, put_aside};
use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
const PARTITIONS: i32 = 4;
/// What a producer was doing when it sent a record.
const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn produce_records(
    stage: &Stage,
    count: usize,
    change: impl Fn(usize, NewRecord) -> NewRecord + Send + 'static,
) -> Result<()> {
    let records = json_records(count, PARTITIONS, 100).enumerate();
    let records = records.map(move |(number, record)| change(number, record));
    let sent = produce(stage.kafka.bootstrap_servers(), &stage.name, records).await?;
    ensure!(sent == count, "{sent} of {count} were produced");
    Ok(())
}

/// One request for each record, whose value is JSON that a transform changes.
fn to(receiver: &Receiver, stage: &Stage) -> Value {
    let mut connector = stage.connector("http", 2);
    for (key, value) in [
        ("http.url", receiver.url("/").as_str()),
        (
            "value.converter",
            "org.apache.kafka.connect.json.JsonConverter",
        ),
        ("value.converter.schemas.enable", "false"),
        ("transforms", "stamp"),
        (
            "transforms.stamp.type",
            "org.apache.kafka.connect.transforms.InsertField$Value",
        ),
        ("transforms.stamp.static.field", "by"),
        ("transforms.stamp.static.value", "sluice"),
        ("max.put.records", "1"),
    ] {
        connector[key] = json!(value);
    }
    connector
}

/// A worker that exports soon.
fn traced(stage: &Stage, connector: &Value, collector: &str) -> WorkerOptions {
    stage
        .worker_options(connector)
        .environment("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "100")
}

async fn accepted(worker: &Worker, records: usize) -> Result<()> {
    let all = |status: &Value| status["accepted"] == records && status["in_flight"] == 0;
    wait_for_status(worker, "all are accepted", MINUTE, all).await?;
    Ok(())
}

/// The deliveries of all records, once there are so many.
async fn deliveries(stage: &Stage, collector: &Collector, count: usize) -> Result<Vec<Span>> {
    let name = format!("process {}", stage.name);
    eventually("the spans come", MINUTE, async || {
        let mut spans = collector.spans();
        spans.retain(|span| span.name == name);
        ensure!(spans.len() >= count, "{} of {count}", spans.len());
        Ok(spans)
    })
    .await
}

fn steps_of(delivery: &Span, collector: &Collector) -> Vec<Span> {
    let mut spans = collector.spans();
    spans.retain(|span| span.parent == delivery.span_id);
    spans
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

/// Checks that a delivery went through all steps, one after the other.
fn check_order(delivery: &Span, steps: &[Span]) {
    assert_eq!(
        names(steps),
        [
            "acquire",
            "convert",
            "transform stamp",
            "queue",
            "put",
            "settle"
        ]
    );
    assert_eq!(delivery.began, steps[0].began);
    assert_eq!(delivery.ended, steps[5].ended);
    for (before, after) in steps.iter().zip(&steps[1..]) {
        assert_eq!(
            before.ended, after.began,
            "{} and {}",
            before.name, after.name
        );
        assert_eq!(after.trace_id, delivery.trace_id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_records_life_is_read_from_its_header_to_its_confirmation_over_a_redelivery() -> Result<()>
{
    const RECORDS: usize = 40;
    const ID: &str = "id-000017";
    let stage = Stage::set("traces", PARTITIONS).await?;
    produce_records(&stage, RECORDS, |number, record| match number {
        17 => record.header("traceparent", PRODUCER),
        _ => record,
    })
    .await?;
    let receiver = Receiver::start(|arrival| match arrival.attempt {
        0 if arrival.text().contains(ID) => Reply::status(500),
        _ => Reply::ok(),
    })
    .await?;
    let collector = Collector::start().await?;
    let mut connector = to(&receiver, &stage);
    connector["share.retriable"] = json!("release");
    let options = traced(&stage, &connector, &collector.url())
        .environment("OTEL_TRACES_SAMPLER", "parentbased_always_off")
        .environment(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        )
        .property("trace.slow.record.ms", "0");
    let worker = Worker::start(&options)?;
    accepted(&worker, RECORDS).await?;
    let deliveries = deliveries(&stage, &collector, 2).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    let (trace_id, producer) = (&PRODUCER[3..35], &PRODUCER[36..52]);
    assert_eq!(deliveries.len(), 2, "no other record is traced");
    for (delivery, (count, outcome)) in deliveries
        .iter()
        .zip([("1", "released"), ("2", "accepted")])
    {
        assert_eq!(
            (delivery.trace_id.as_str(), delivery.parent.as_str()),
            (trace_id, producer)
        );
        assert_eq!(delivery.service, "sluice");
        assert_eq!(delivery.said("sluice.delivery_count"), count);
        assert_eq!(delivery.said("sluice.outcome"), outcome);
        assert_eq!(delivery.said("messaging.destination.name"), stage.name);
        assert_eq!(delivery.said("messaging.destination.partition.id"), "1");
        assert_eq!(delivery.said("messaging.kafka.offset"), "4");
        assert_eq!(
            delivery.said("messaging.consumer.group.name"),
            stage.group()
        );
        assert_eq!(delivery.events, ["confirmed"]);
        check_order(delivery, &steps_of(delivery, &collector));
    }
    assert!(deliveries[0].began < deliveries[1].began);

    let puts: Vec<Span> = deliveries
        .iter()
        .flat_map(|delivery| steps_of(delivery, &collector))
        .filter(|step| step.name == "put")
        .collect();
    let outcomes: Vec<&str> = puts.iter().map(|put| put.said("sluice.outcome")).collect();
    assert_eq!(outcomes, ["retry", "delivered"]);
    assert!(
        puts[0].said("sluice.cause").contains("500"),
        "{:?}",
        puts[0]
    );
    let arrivals = receiver.arrivals();
    let of_it = arrivals.iter().filter(|it| it.text().contains(ID));
    let passed_on: Vec<_> = of_it.map(|it| it.header("traceparent")).collect();
    let expected: Vec<String> = puts.iter().map(Span::traceparent).collect();
    assert_eq!(
        passed_on,
        [Some(expected[0].as_str()), Some(expected[1].as_str())]
    );
    let others = arrivals.iter().filter(|it| !it.text().contains(ID));
    assert_eq!(
        others
            .filter(|it| it.header("traceparent").is_some())
            .count(),
        0
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_ratio_of_0_only_records_that_fail_are_traced() -> Result<()> {
    const RECORDS: usize = 400;
    const RETRIED: &str = "id-000008";
    const REJECTED: &str = "id-000021";
    let stage = Stage::set("traces-failed", PARTITIONS).await?;
    produce_records(&stage, RECORDS, |_, record| record).await?;
    let receiver = Receiver::start(|arrival| match arrival.attempt {
        0 if arrival.text().contains(RETRIED) => Reply::status(500),
        _ if arrival.text().contains(REJECTED) => Reply::status(400),
        _ => Reply::ok(),
    })
    .await?;
    let collector = Collector::start().await?;
    let mut connector = to(&receiver, &stage);
    connector["errors.tolerance"] = json!("all");
    connector["errors.log.enable"] = json!("true");
    let options = traced(&stage, &connector, &collector.url())
        .environment("OTEL_TRACES_SAMPLER", "traceidratio")
        .environment("OTEL_TRACES_SAMPLER_ARG", "0")
        .property("trace.slow.record.ms", "0");
    let worker = Worker::start(&options)?;
    accepted(&worker, RECORDS - 1).await?;
    let deliveries = deliveries(&stage, &collector, 2).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));

    let told = deliveries.iter().map(|it| {
        let place = [
            "messaging.destination.partition.id",
            "messaging.kafka.offset",
        ];
        let [partition, offset] = place.map(|key| it.said(key).to_owned());
        (partition, offset, it.said("sluice.outcome"))
    });
    let told: BTreeSet<_> = told.collect();
    let of = |number: usize, outcome| {
        let partitions = PARTITIONS as usize;
        let place = (number % partitions, number / partitions);
        (place.0.to_string(), place.1.to_string(), outcome)
    };
    assert_eq!(
        told,
        BTreeSet::from([of(8, "accepted"), of(21, "rejected")])
    );
    for delivery in &deliveries {
        assert_eq!(delivery.said("sluice.chosen"), "failed");
        let steps = steps_of(delivery, &collector);
        let until_put = ["acquire", "convert", "transform stamp", "queue", "put"];
        let after_it: &[&str] = match delivery.said("sluice.outcome") {
            "accepted" => &["queue", "put", "settle"],
            _ => &["settle"],
        };
        assert_eq!(names(&steps), [&until_put[..], after_it].concat());
    }
    let rejected = deliveries
        .iter()
        .find(|it| it.said("sluice.outcome") == "rejected");
    let rejected = rejected.context("none is rejected")?;
    let log = log(&worker)?;
    let line = put_aside(&log)?;
    assert_eq!(line["trace_id"], rejected.trace_id, "{line}");
    let steps = steps_of(rejected, &collector);
    assert!(
        steps.iter().any(|step| line["span_id"] == step.span_id),
        "{line}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_holds_nobody_up() -> Result<()> {
    const RECORDS: usize = 2000;
    let stage = Stage::set("traces-away", PARTITIONS).await?;
    produce_records(&stage, RECORDS, |_, record| record).await?;
    // Bound and closed again: nobody listens there.
    let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
    let nowhere = format!("http://{}", socket.local_addr()?);
    drop(socket);
    let options =
        traced(&stage, &stage.to_file(4), &nowhere).environment("OTEL_TRACES_SAMPLER", "always_on");
    let worker = Worker::start(&options)?;
    accepted(&worker, RECORDS).await?;
    let api = Api::of(&worker).await?;
    eventually("spans are dropped, and counted", MINUTE, async || {
        let dropped = api.of_worker("sluice_trace_spans_dropped_total").await?;
        ensure!(dropped > 0.0, "none");
        Ok(())
    })
    .await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let log = log(&worker)?;
    let warnings = lines_of(&log, "WARN");
    let told = warnings.iter().filter(|line| {
        let message = line["message"].as_str().unwrap_or_default();
        message.starts_with("spans cannot be exported")
    });
    assert_eq!(told.count(), 1, "{warnings:?}");
    Ok(())
}
