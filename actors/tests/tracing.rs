//! Lives of traced records, with fakes and a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluice_actors::books::{Policy, Retriable, Tolerance};
use sluice_actors::life::{Choice, End, Event, FinishedLife, Step};
use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;
use sluice_actors::sampling::Sampling;
use sluice_actors::supervisor::PipelineSpec;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeTracer, TestPipeline, conversion_of_values, policy, spec,
};
use sluice_actors::trace_context::{TRACEPARENT, TraceContext};
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Changes nothing.
struct Named(&'static str);

impl Transform for Named {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        Ok(Some(record))
    }

    fn alias(&self) -> &str {
        self.0
    }
}

/// What each record that is delivered goes through first.
const UNTIL_QUEUE: [&str; 5] = [
    "Acquire",
    "Convert",
    "transform route",
    "transform mask",
    "Queue",
];

struct Running {
    test: TestPipeline,
    tracer: Arc<FakeTracer>,
}

fn start(records: usize, policy: Policy, sampling: Sampling, sink: &FakeSinkFactory) -> Running {
    tokio::time::pause();
    let tracer = FakeTracer::new(sampling);
    let mut conversion = conversion_of_values(AsTheyAre);
    conversion.transforms = vec![Arc::new(Named("route")), Arc::new(Named("mask"))];
    let spec = PipelineSpec {
        tracer: Some(tracer.clone()),
        ..spec(policy, conversion, Arc::new(sink.clone()))
    };
    Running {
        test: TestPipeline::start(spec, &[records], LOCK),
        tracer,
    }
}

impl Running {
    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            assert!(since.elapsed() < Duration::from_secs(120), "never: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn until_accepted(&self, records: usize) {
        self.until("accepted", |it| it.test.accepted() >= records)
            .await;
    }

    /// Drains, and tells of all lives; none is left over.
    async fn drain(self) -> Vec<FinishedLife> {
        self.test.pipeline.drain(Duration::from_secs(5)).await;
        self.until("all told", |it| it.tracer.ended() == it.tracer.admitted())
            .await;
        self.tracer.take_lives()
    }
}

fn names(life: &FinishedLife) -> Vec<String> {
    let steps = life.steps.iter().map(|it| match &it.step {
        Step::Transform(alias) => format!("transform {alias}"),
        Step::Put { .. } => "put".to_owned(),
        Step::Settle(settlement) => format!("settle {settlement:?}"),
        other => format!("{other:?}"),
    });
    steps.collect()
}

#[actix::test]
async fn a_sampled_record_is_followed_from_its_producer_to_the_brokers_answer() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let sampling = Sampling::ratio(0.0).following_parents();
    let running = start(5, policy(2, Tolerance::None), sampling, &sink);
    let source = running.test.source.clone();
    let offset = source.append_with(0, b"v", (TRACEPARENT, PARENT));
    running.until_accepted(6).await;
    let lives = running.drain().await;
    assert_eq!(
        lives.len(),
        1,
        "the producer is sampled, the others are not"
    );
    let life = &lives[0];
    assert_eq!(
        names(life),
        [&UNTIL_QUEUE[..], &["put", "settle Accept"]].concat()
    );
    assert_eq!(
        (life.life.origin.offset, life.outcome()),
        (offset, "accepted")
    );
    let parent = life.life.parent.as_ref().unwrap().context;
    assert_eq!(Some(parent), TraceContext::parse(PARENT));
    assert_eq!(life.life.context.trace_id, parent.trace_id);
    assert_eq!(life.steps[0].began, life.life.acquired_at);
    let ends = life.steps.iter().map(|it| it.ended);
    let begins = life.steps.iter().skip(1).map(|it| it.began);
    assert!(ends.zip(begins).all(|(end, begin)| end == begin));
}

#[actix::test]
async fn both_deliveries_of_a_released_record_lie_in_one_trace() {
    let puts_of_3 = Arc::new(AtomicUsize::new(0));
    let sink = FakeSinkFactory::new(move |record, _| match record.offset {
        3 if puts_of_3.fetch_add(1, Ordering::SeqCst) == 0 => Act::Retry,
        _ => Act::Deliver,
    });
    let policy = Policy {
        retriable: Retriable::Release,
        ..policy(1, Tolerance::None)
    };
    let running = start(10, policy, Sampling::ratio(0.0), &sink);
    running.until_accepted(10).await;
    let lives = running.drain().await;
    let told: Vec<_> = lives
        .iter()
        .map(|it| {
            let life = &it.life;
            let offset = life.origin.offset;
            (offset, life.delivery_count, life.choice, it.outcome())
        })
        .collect();
    let expected = [
        (3, 1, Choice::Failed, "released"),
        (3, 2, Choice::Redelivered, "accepted"),
    ];
    assert_eq!(told, expected);
    let [first, second] = [&lives[0].life.context, &lives[1].life.context];
    assert_eq!(first.trace_id, second.trace_id);
    assert_ne!(first.span_id, second.span_id);
}

#[actix::test]
async fn a_record_that_is_retried_here_is_one_life() {
    let sink = FakeSinkFactory::new(|record, puts| match record.offset {
        3 if puts < 2 => Act::Retry,
        _ => Act::Deliver,
    });
    let running = start(4, policy(1, Tolerance::None), Sampling::ratio(0.0), &sink);
    running.until_accepted(4).await;
    let lives = running.drain().await;
    assert_eq!(lives.len(), 1);
    assert_eq!(
        names(&lives[0]),
        [
            &UNTIL_QUEUE[..],
            &["put", "Queue", "put", "Queue", "put", "settle Accept"]
        ]
        .concat()
    );
}

#[actix::test]
async fn a_slow_record_is_traced_alone() {
    let sink = FakeSinkFactory::new(|record, _| match record.offset {
        7 => Act::DeliverAfter(Duration::from_secs(5)),
        _ => Act::Deliver,
    });
    let sampling = Sampling::ratio(0.0).with_slow(Some(Duration::from_secs(2)));
    let running = start(20, policy(4, Tolerance::None), sampling, &sink);
    running.until_accepted(20).await;
    let lives = running.drain().await;
    assert_eq!(lives.len(), 1);
    let life = &lives[0];
    assert_eq!(
        (life.life.origin.offset, life.life.choice),
        (7, Choice::Slow)
    );
    let took = life.ended_at - life.life.acquired_at;
    assert!(took >= Duration::from_secs(5), "{took:?}");
    let whole = [&UNTIL_QUEUE[..], &["put", "settle Accept"]].concat();
    assert_eq!(names(life), whole);
    assert_eq!(life.steps[5].events[0].1, Event::Delivered);
}

#[actix::test]
async fn a_record_whose_answer_takes_long_is_slow_too() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let slow = LOCK / 4;
    let sampling = Sampling::ratio(0.0).with_slow(Some(slow));
    let running = start(0, policy(1, Tolerance::None), sampling, &sink);
    let source = running.test.source.clone();
    source.hold_answers(true);
    source.append(0, b"v");
    running
        .until("put", |_| sink.seen().puts.load(Ordering::SeqCst) == 1)
        .await;
    tokio::time::sleep(2 * slow).await;
    assert_eq!(running.tracer.admitted(), 0, "not decided before the end");
    source.hold_answers(false);
    running.until_accepted(1).await;
    let lives = running.drain().await;
    assert_eq!(lives.len(), 1);
    let life = &lives[0];
    assert_eq!(life.life.choice, Choice::Slow);
    let whole = [&UNTIL_QUEUE[..], &["put", "settle Accept"]].concat();
    assert_eq!(names(life), whole);
    assert!(life.steps[6].ended - life.steps[6].began > slow);
}

#[actix::test]
async fn a_lost_connection_ends_lives_and_none_is_left() {
    let sink = FakeSinkFactory::new(|_, puts| match puts {
        0 => Act::DeliverAfter(Duration::from_millis(300)),
        _ => Act::Deliver,
    });
    let running = start(1, policy(2, Tolerance::None), Sampling::ratio(1.0), &sink);
    running
        .until("put", |_| sink.seen().puts.load(Ordering::SeqCst) == 1)
        .await;
    running.test.source.lose_connection();
    running.until_accepted(1).await;
    let lives = running.drain().await;
    let outcomes: Vec<_> = lives.iter().map(FinishedLife::outcome).collect();
    assert_eq!(outcomes, ["lost", "accepted"]);
    assert_eq!(lives[0].end, End::Lost("connection lost".into()));
}

#[actix::test]
async fn what_a_drain_gives_back_is_told() {
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_secs(3600)));
    let running = start(20, policy(2, Tolerance::None), Sampling::ratio(1.0), &sink);
    running
        .until("put", |_| sink.seen().puts.load(Ordering::SeqCst) == 2)
        .await;
    let lives = running.drain().await;
    assert!(lives.len() >= 2);
    assert!(lives.iter().all(|it| it.outcome() != "accepted"));
}

#[actix::test]
async fn no_record_has_a_life_without_a_tracer() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|record, _| {
        assert!(record.life.is_none() && record.trace_context().is_none());
        Act::Deliver
    });
    let conversion = conversion_of_values(AsTheyAre);
    let spec = spec(policy(2, Tolerance::None), conversion, Arc::new(sink));
    let test = TestPipeline::start(spec, &[100], LOCK);
    while test.accepted() < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
