//! One record's life over a redelivery, as whoever collects spans reads it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_test_support::otlp::Span;
use sluice_test_support::produce::{NewRecord, json_records, produce};
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use sluice_test_support::worker::{Worker, WorkerOptions};

use crate::stage::{Stage, wait_for_status};

const MINUTE: Duration = Duration::from_secs(60);
pub const PARTITIONS: i32 = 4;
/// What a producer was doing when it sent a record.
const PRODUCER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub async fn produce_records(
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
pub fn to(receiver: &Receiver, stage: &Stage) -> Value {
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

pub async fn accepted(worker: &Worker, records: usize) -> Result<()> {
    let all = |status: &Value| status["accepted"] == records && status["in_flight"] == 0;
    wait_for_status(worker, "all are accepted", MINUTE, all).await?;
    Ok(())
}

/// The deliveries of a topic's records.
pub fn deliveries(stage: &Stage, spans: &[Span]) -> Vec<Span> {
    let name = format!("process {}", stage.name);
    let of_topic = spans.iter().filter(|span| span.name == name);
    of_topic.cloned().collect()
}

pub fn steps_of(delivery: &Span, spans: &[Span]) -> Vec<Span> {
    let steps = spans.iter().filter(|span| span.parent == delivery.span_id);
    steps.cloned().collect()
}

pub fn names(spans: &[Span]) -> Vec<&str> {
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

/// Records of which one alone has a producer's context, and is delivered twice.
pub struct Redelivered {
    pub stage: Stage,
    receiver: Receiver,
}

impl Redelivered {
    pub const RECORDS: usize = 40;
    const ID: &str = "id-000017";

    /// Runs a worker with these variables until all are accepted. It has ended
    /// then, so that its collector has all that it gets.
    pub async fn run(stem: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let stage = Stage::set(stem, PARTITIONS).await?;
        produce_records(&stage, Self::RECORDS, |number, record| match number {
            17 => record.header("traceparent", PRODUCER),
            _ => record,
        })
        .await?;
        let receiver = Receiver::start(|arrival| match arrival.attempt {
            0 if is_of_it(arrival) => Reply::status(500),
            _ => Reply::ok(),
        })
        .await?;
        let mut connector = to(&receiver, &stage);
        connector["share.retriable"] = json!("release");
        let options = stage
            .worker_options(&connector)
            .environment("OTEL_TRACES_SAMPLER", "parentbased_always_off")
            .property("trace.slow.record.ms", "0");
        let told =
            |options: WorkerOptions, (name, value): &(&str, &str)| options.environment(name, value);
        let worker = Worker::start(&environment.iter().fold(options, told))?;
        accepted(&worker, Self::RECORDS).await?;
        assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
        Ok(Self { stage, receiver })
    }

    /// Reads its life from the producer's header to the confirmation.
    pub fn check(&self, spans: &[Span]) {
        let deliveries = deliveries(&self.stage, spans);
        let (deliveries, others): (Vec<_>, Vec<_>) = deliveries.into_iter().partition(is_its);
        // A connection that breaks has others delivered again.
        let sampled = others
            .iter()
            .find(|it| it.said("sluice.chosen") == "sampled");
        assert!(sampled.is_none(), "no other is sampled: {sampled:?}");
        assert_eq!(deliveries.len(), 2, "{spans:?}");
        for (delivery, (count, outcome)) in deliveries
            .iter()
            .zip([("1", "released"), ("2", "accepted")])
        {
            self.check_delivery(delivery, count, outcome);
            check_order(delivery, &steps_of(delivery, spans));
        }
        assert!(deliveries[0].began < deliveries[1].began);
        let steps = deliveries.iter().flat_map(|it| steps_of(it, spans));
        self.check_puts(&steps.filter(|step| step.name == "put").collect::<Vec<_>>());
    }

    fn check_delivery(&self, delivery: &Span, count: &str, outcome: &str) {
        let (trace_id, producer) = (&PRODUCER[3..35], &PRODUCER[36..52]);
        assert_eq!(
            (delivery.trace_id.as_str(), delivery.parent.as_str()),
            (trace_id, producer)
        );
        assert_eq!(delivery.service, "sluice");
        assert_eq!(delivery.said("sluice.delivery_count"), count);
        assert_eq!(delivery.said("sluice.outcome"), outcome);
        assert_eq!(delivery.said("messaging.destination.name"), self.stage.name);
        assert_eq!(
            delivery.said("messaging.consumer.group.name"),
            self.stage.group()
        );
        assert_eq!(delivery.events, ["confirmed"]);
    }

    /// The endpoint was told of each put in it, and of no other record's.
    fn check_puts(&self, puts: &[Span]) {
        let outcomes: Vec<&str> = puts.iter().map(|put| put.said("sluice.outcome")).collect();
        assert_eq!(outcomes, ["retry", "delivered"]);
        assert!(
            puts[0].said("sluice.cause").contains("500"),
            "{:?}",
            puts[0]
        );
        let arrivals = self.receiver.arrivals();
        let (of_it, others): (Vec<_>, Vec<_>) = arrivals.iter().partition(|it| is_of_it(it));
        let passed_on: Vec<_> = of_it.iter().map(|it| it.header("traceparent")).collect();
        let expected: Vec<String> = puts.iter().map(Span::traceparent).collect();
        assert_eq!(
            passed_on,
            [Some(expected[0].as_str()), Some(expected[1].as_str())]
        );
        let trace_id = &PRODUCER[3..35];
        let told = others.iter().find(|it| {
            let header = it.header("traceparent");
            header.is_some_and(|header| header.contains(trace_id))
        });
        assert!(told.is_none(), "{told:?}");
    }
}

/// Whether a delivery is of the one record.
fn is_its(delivery: &Span) -> bool {
    let place = [
        "messaging.destination.partition.id",
        "messaging.kafka.offset",
    ];
    place.map(|name| delivery.said(name)) == ["1", "4"]
}

fn is_of_it(arrival: &Arrival) -> bool {
    arrival.text().contains(Redelivered::ID)
}
