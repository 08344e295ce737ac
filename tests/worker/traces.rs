//! The lives of records, as a collector gets them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::collector::Collector;
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::api::Api;
use crate::history::{lines_of, log, put_aside};
use crate::life::{
    PARTITIONS, Redelivered, accepted, deliveries, names, produce_records, steps_of, to,
};
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A worker that exports soon.
fn traced(stage: &Stage, connector: &Value, collector: &str) -> WorkerOptions {
    stage
        .worker_options(connector)
        .environment(ENDPOINT, collector)
        .environment("OTEL_BSP_SCHEDULE_DELAY", "100")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_records_life_is_read_from_its_header_to_its_confirmation_over_a_redelivery() -> Result<()>
{
    let collector = Collector::start().await?;
    let redelivered = Redelivered::run("traces", &[(ENDPOINT, &collector.url())]).await?;
    redelivered.check(&collector.spans());
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
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    let spans = collector.spans();
    let deliveries = deliveries(&stage, &spans);

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
        let steps = steps_of(delivery, &spans);
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
    let steps = steps_of(rejected, &spans);
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
