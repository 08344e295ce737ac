//! What spans tell of lives.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Value;
use sluice_actors::books::{Policy, Retriable, Tolerance};
use sluice_actors::error_log::ErrorLog;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::ports::tracer::Tracer;
use sluice_actors::sampling::Sampling;
use sluice_actors::supervisor::PipelineSpec;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeTracer, TestPipeline, conversion_of_values, policy, spec,
};
use sluice_actors::trace_context::TRACEPARENT;

use super::*;
use crate::telemetry::traces::TracedConnector;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn spans() -> Spans {
    spans_with(false)
}

fn spans_with(includes_messages: bool) -> Spans {
    Spans {
        common: Common::of(&TracedConnector {
            connector: "to-shop".into(),
            worker: "w1".into(),
            client_id: "sluice".into(),
            group: "share-to-shop".into(),
            member: "m1".into(),
            includes_messages,
        }),
        scope: InstrumentationScope::builder("sluice").build(),
    }
}

/// The lives of one record with this context that the sink does so with.
async fn lives(
    tolerance: Tolerance,
    act: impl Fn(usize) -> Act + Send + Sync + 'static,
) -> Arc<FakeTracer> {
    tokio::time::pause();
    let tracer = FakeTracer::new(Sampling::ratio(1.0));
    let sink = FakeSinkFactory::new(move |_, puts| act(puts));
    let policy = Policy {
        retriable: Retriable::Release,
        ..policy(1, tolerance)
    };
    let spec = PipelineSpec {
        tracer: Some(Arc::clone(&tracer) as Arc<dyn Tracer>),
        error_log: ErrorLog::default(),
        ..spec(policy, conversion_of_values(AsTheyAre), Arc::new(sink))
    };
    let test = TestPipeline::start(spec, &[0], Duration::from_secs(30));
    test.source.append_with(0, b"hush", (TRACEPARENT, PARENT));
    while tracer.admitted() == 0 || tracer.ended() < tracer.admitted() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    test.pipeline.drain(Duration::from_secs(5)).await;
    tracer
}

fn value<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    let mut attributes = span.attributes.iter();
    attributes
        .find(|it| it.key.as_str() == key)
        .map(|it| &it.value)
}

fn said(span: &SpanData, key: &str) -> String {
    value(span, key)
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[actix::test]
async fn a_delivery_is_a_span_below_its_producers_with_its_steps_below_it() {
    let tracer = lives(Tolerance::None, |_| Act::Deliver).await;
    let life = &tracer.take_lives()[0];
    let told = spans().of_life(life, Clock::now());
    let (root, steps) = told.split_first().unwrap();
    assert_eq!(root.name, "process orders");
    assert_eq!(root.span_kind, SpanKind::Consumer);
    let context = TraceContext::parse(PARENT).unwrap();
    assert_eq!(root.parent_span_id, SpanId::from(context.span_id));
    assert!(root.parent_span_is_remote);
    for (key, expected) in [
        ("messaging.system", "kafka"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "orders"),
        ("messaging.destination.partition.id", "0"),
        ("messaging.kafka.offset", "0"),
        ("messaging.consumer.group.name", "share-to-shop"),
        ("sluice.connector", "to-shop"),
        ("sluice.member", "m1"),
        ("sluice.delivery_count", "1"),
        ("sluice.chosen", "sampled"),
        ("sluice.outcome", "accepted"),
    ] {
        assert_eq!(said(root, key), expected, "{key}");
    }
    assert_eq!(root.status, Status::Unset);
    assert_eq!(root.events[0].name, "confirmed");
    let names: Vec<_> = steps.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["acquire", "convert", "queue", "put", "settle"]);
    // Only the settlement asks the broker.
    let is_client = |it: &SpanData| it.span_kind == SpanKind::Client;
    assert_eq!(steps.iter().position(is_client), Some(4));
    for (before, after) in steps.iter().zip(&steps[1..]) {
        assert_eq!(before.end_time, after.start_time);
    }
    for span in steps {
        assert_eq!(
            span.span_context.trace_id(),
            TraceId::from(context.trace_id)
        );
        assert_eq!(span.parent_span_id, root.span_context.span_id());
        assert!(root.start_time <= span.start_time && span.end_time <= root.end_time);
    }
    assert_eq!(said(&steps[3], "sluice.outcome"), "delivered");
    assert_eq!(said(&steps[3], "sluice.task"), "0");
    assert_eq!(said(&steps[4], "messaging.operation.name"), "accept");
    assert!(!format!("{told:?}").contains("hush"), "never its contents");
}

#[actix::test]
async fn a_failure_is_an_error_with_its_cause() {
    let tracer = lives(Tolerance::All, |_| Act::Reject).await;
    let told = spans().of_life(&tracer.take_lives()[0], Clock::now());
    let put = told.iter().find(|it| it.name == "put").unwrap();
    assert_eq!(put.status, Status::error("by plan"));
    assert_eq!(said(put, "error.type"), "rejected");
    assert_eq!(said(put, "sluice.stage"), "TASK_PUT");
    assert_eq!(put.events[0].name, "rejected");
    assert_eq!(told[0].status, Status::error("by plan"));
    assert_eq!(said(&told[0], "error.type"), "rejected");
}

#[actix::test]
async fn a_cause_is_told_as_far_as_in_the_log() {
    let tracer = lives(Tolerance::All, |_| {
        let cause = Cause::quoting("it answered 400", "it answered 400: hush");
        Act::Fail(SinkError::RejectedOne(cause))
    });
    let tracer = tracer.await;
    let life = &tracer.take_lives()[0];
    let put = life.steps.iter().find(|it| !it.events.is_empty()).unwrap();
    assert_eq!(put.events.len(), 1, "rejected, and no retry: {put:?}");
    let told = |spans: Spans| format!("{:?}", spans.of_life(life, Clock::now()));
    let short = told(spans_with(false));
    assert!(
        short.contains("it answered 400") && !short.contains("hush"),
        "{short}"
    );
    assert!(told(spans_with(true)).contains("it answered 400: hush"));
}

#[actix::test]
async fn a_released_record_is_two_spans_of_one_trace() {
    let tracer = lives(Tolerance::None, |puts| match puts {
        0 => Act::Retry,
        _ => Act::Deliver,
    });
    let lives = tracer.await.take_lives();
    let told = lives.iter().map(|it| spans().of_life(it, Clock::now()));
    let roots: Vec<SpanData> = told.map(|mut it| it.remove(0)).collect();
    let outcomes: Vec<_> = roots.iter().map(|it| said(it, "sluice.outcome")).collect();
    assert_eq!(outcomes, ["released", "accepted"]);
    assert_eq!(said(&roots[1], "sluice.delivery_count"), "2");
    let [first, second] = [&roots[0].span_context, &roots[1].span_context];
    assert_eq!(first.trace_id(), second.trace_id());
    assert_ne!(first.span_id(), second.span_id());
}

#[test]
fn a_put_of_several_records_links_to_theirs() {
    let context = TraceContext::parse(PARENT).unwrap();
    let now = Instant::now();
    let put = FinishedPut {
        context: context.child(1),
        task: 4,
        records: 20,
        links: vec![context.child(2), context.child(3)],
        began: now,
        ended: now,
    };
    let span = spans().of_put(&put, Clock::now());
    let links = span.links.iter().map(|it| it.span_context.span_id());
    let linked: Vec<SpanId> = links.collect();
    assert_eq!(linked, [SpanId::from(2), SpanId::from(3)]);
    assert_eq!(said(&span, "messaging.batch.message_count"), "20");
    assert_eq!(span.parent_span_id, SpanId::INVALID);
}

#[test]
fn times_are_those_of_the_wall_clock() {
    let clock = Clock::now();
    let second = Duration::from_secs(1);
    assert_eq!(clock.time_of(clock.now - second), clock.time - second);
}
