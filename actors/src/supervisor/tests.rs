//! What happens when an actor dies.

mod drains;
mod letters;
mod zombies;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use actix::{AsyncContext, Handler};
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Pipeline, PipelineSpec, Supervisor};
use crate::acknowledger::Acknowledger;
use crate::books::{Policy, Tolerance};
use crate::converter::Converter;
use crate::letter_writer::LetterWriter;
use crate::live_view::{ConnectorState, LiveView};
use crate::mailbox::Letter;
use crate::messages::{SourceNews, SourceState};
use crate::poller::Poller;
use crate::ports::converter::{self as port, ConvertError};
use crate::ports::source::SourceEvent;
use crate::testing::{
    self, Act, AsTheyAre, FakeSinkFactory, FakeSource, Fate, TestPipeline, conversion_of_values,
    listen,
};
use crate::threads::Threads;
use crate::value::Datum;

/// Makes an actor panic in a handler.
#[derive(Clone, Copy, Debug)]
struct Die;

macro_rules! dies {
    ($actor:ty) => {
        impl Handler<Letter<Die>> for $actor {
            type Result = ();

            fn handle(&mut self, _letter: Letter<Die>, _ctx: &mut Self::Context) {
                panic!("by plan");
            }
        }
    };
}

dies!(Poller);
dies!(Converter);
dies!(Acknowledger);
dies!(LetterWriter);

/// Makes an actor block its thread in a handler, until the sender is dropped.
struct Block(mpsc::Receiver<()>);

macro_rules! blocks {
    ($actor:ty) => {
        impl Handler<Letter<Block>> for $actor {
            type Result = ();

            fn handle(&mut self, letter: Letter<Block>, _ctx: &mut Self::Context) {
                assert!(letter.message.0.recv().is_err());
            }
        }
    };
}

blocks!(Poller);
blocks!(Acknowledger);

/// Makes an actor wait in a handler, until the sender is dropped; its thread
/// runs on.
struct Wait(oneshot::Receiver<()>);

macro_rules! waits {
    ($actor:ty) => {
        impl Handler<Letter<Wait>> for $actor {
            type Result = ();

            fn handle(&mut self, letter: Letter<Wait>, ctx: &mut Self::Context) {
                let dropped = async { assert!(letter.message.0.await.is_err()) };
                ctx.wait(actix::fut::wrap_future(dropped));
            }
        }
    };
}

waits!(Poller);
waits!(Converter);
waits!(Acknowledger);

enum Hang {
    Poller(Block),
    PollerWaits(Wait),
    Acknowledger(Block),
    AcknowledgerWaits(Wait),
}

impl Handler<Letter<Hang>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<Hang>, _ctx: &mut Self::Context) {
        let generation = self.generation.as_ref().unwrap();
        match letter.message {
            Hang::Poller(block) => generation.poller.signal(block).unwrap(),
            Hang::PollerWaits(wait) => generation.poller.signal(wait).unwrap(),
            Hang::Acknowledger(block) => generation.acknowledger.signal(block).unwrap(),
            Hang::AcknowledgerWaits(wait) => generation.acknowledger.signal(wait).unwrap(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Poller,
    Converter,
    Acknowledger,
    LetterWriter,
}

impl Handler<Letter<Stage>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<Stage>, _ctx: &mut Self::Context) {
        let generation = self.generation.as_ref().unwrap();
        match letter.message {
            Stage::Poller => generation.poller.signal(Die).unwrap(),
            Stage::Converter => generation.converter.signal(Die).unwrap(),
            Stage::Acknowledger => generation.acknowledger.signal(Die).unwrap(),
            Stage::LetterWriter => {
                let writer = generation.letter_writer.as_ref().unwrap();
                writer.signal(Die).unwrap();
            }
        }
    }
}

fn spec(sink: &FakeSinkFactory) -> PipelineSpec {
    let policy = Policy {
        max_put_records: 10,
        ..testing::policy(4, Tolerance::None)
    };
    testing::spec(
        policy,
        conversion_of_values(AsTheyAre),
        Arc::new(sink.clone()),
    )
}

/// The stage dies while records are on their way: another generation delivers
/// them all, and the broker holds every one as accepted.
async fn survives_the_death_of(stage: Stage) {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_millis(20)));
    let TestPipeline {
        source,
        view,
        pipeline,
        ..
    } = TestPipeline::start(spec(&sink), &[400], Duration::from_secs(1));
    let accepted = || source.count(|fate| fate == Fate::Accepted);
    let since = Instant::now();
    while accepted() < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    pipeline.supervisor.send(stage).await.unwrap();
    while accepted() < 400 {
        assert!(since.elapsed() < Duration::from_secs(60), "{}", accepted());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(view.connector("test").unwrap().generation, 2);
    assert!((0..400).all(|offset| source.delivery_count(0, offset) <= 2));
    assert!(pipeline.drain(Duration::from_secs(5)).await.clean);
}

#[actix::test]
async fn a_dead_poller_makes_a_new_generation_that_loses_nothing() {
    survives_the_death_of(Stage::Poller).await;
}

#[actix::test]
async fn a_dead_converter_makes_a_new_generation_that_loses_nothing() {
    survives_the_death_of(Stage::Converter).await;
}

#[actix::test]
async fn a_dead_acknowledger_makes_a_new_generation_that_loses_nothing() {
    survives_the_death_of(Stage::Acknowledger).await;
}

#[actix::test]
async fn the_last_answers_are_in_the_view_when_the_drain_is_over() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let TestPipeline {
        source,
        view,
        pipeline,
        ..
    } = TestPipeline::start(spec(&sink), &[4], LOCK);
    source.hold_answers(true);
    while sink.seen().delivered.lock().len() < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let drained = pipeline.drain(Duration::from_secs(1)).await;
    assert!(!drained.clean, "{drained:?}");
    assert_eq!(view.connector("test").unwrap().totals.accepted, 4);
}

#[actix::test]
async fn a_failure_is_logged_once_and_keeps_nobody_from_the_view() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let view = LiveView::new();
    let lines = Arc::new(AtomicUsize::new(0));
    let (heard, looked_at) = (Arc::clone(&lines), Arc::clone(&view));
    let _listening = listen(move |_, line| {
        if line.contains("connector failed") {
            assert!(!looked_at.is_locked("test"));
            heard.fetch_add(1, Ordering::SeqCst);
        }
    });
    let TestPipeline {
        source,
        view,
        pipeline: _pipeline,
        ..
    } = TestPipeline::start_on(Threads::current(), view, spec(&sink), &[], LOCK);
    for cause in ["no right to read", "told again"] {
        let cause = cause.into();
        source.send(SourceEvent::Failed { cause });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state = view.connector("test").unwrap().state;
    assert_eq!(state, ConnectorState::Failed("no right to read".into()));
    assert_eq!(lines.load(Ordering::SeqCst), 1);
}

/// Of the states that came, the poller's goes another way than those that were
/// heard in its stead.
#[actix::test]
async fn a_state_of_the_source_that_is_heard_late_changes_nothing_but_a_failure_does() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let TestPipeline { view, pipeline, .. } = TestPipeline::start(spec(&sink), &[], LOCK);
    let troubled = |cause: &str| SourceState::Troubled(cause.into());
    let hear = async |number, state| {
        let news = SourceNews::State(number, state);
        pipeline.supervisor.send(news).await.unwrap();
    };
    hear(1001, troubled("newer")).await;
    hear(1000, SourceState::Ready).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = || view.connector("test").unwrap();
    assert_eq!(shown().trouble.as_deref(), Some("newer"));
    hear(1002, SourceState::Ready).await;
    hear(1001, troubled("older")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown().trouble, None);
    hear(1000, SourceState::Failed("for good".into())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shown().state, ConnectorState::Failed("for good".into()));
}

struct RefusesAll;

impl port::Converter for RefusesAll {
    fn to_datum(&self, _topic: &str, _bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        Err(ConvertError("by plan".into()))
    }
}

/// What goes on without the acknowledger cannot go down with it.
#[actix::test]
async fn rejections_of_the_converter_need_no_acknowledger() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let mut spec = spec(&sink);
    spec.policy.tolerance = Tolerance::All;
    spec.conversion = conversion_of_values(RefusesAll);
    let TestPipeline {
        source,
        view,
        pipeline,
        ..
    } = TestPipeline::start(spec, &[400], Duration::from_secs(30));
    let (_open, closed) = oneshot::channel();
    let hang = Hang::AcknowledgerWaits(Wait(closed));
    pipeline.supervisor.send(hang).await.unwrap();
    let since = Instant::now();
    while source.count(|fate| fate == Fate::Rejected) < 400 {
        assert!(since.elapsed() < Duration::from_secs(30), "never rejected");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(view.connector("test").unwrap().generation, 1);
}

/// As in production, a hang is found later than a lock ends.
const LOCK: Duration = Duration::from_secs(2);
const HANG_LIMIT: Duration = Duration::from_secs(3);

/// Records on their way through a pipeline on threads of its own.
struct OnTheirWay {
    source: FakeSource,
    view: Arc<LiveView>,
    threads: Threads,
    pipeline: Pipeline,
}

impl OnTheirWay {
    fn on(threads: Threads, act: Act) -> Self {
        let sink = FakeSinkFactory::new(move |_, _| act.clone());
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start_on(threads.clone(), LiveView::new(), spec(&sink), &[400], LOCK);
        Self {
            source,
            view,
            threads,
            pipeline,
        }
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            assert!(since.elapsed() < Duration::from_secs(60), "never: {what}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn accepted(&self) -> usize {
        self.source.count(|fate| fate == Fate::Accepted)
    }

    fn redelivered(&self) -> usize {
        let counts = (0..400).map(|offset| self.source.delivery_count(0, offset));
        counts.filter(|count| *count > 1).count()
    }
}

/// The actor hangs while records are on their way; no attempt is lost.
async fn survives(hang: Hang) {
    let threads = Threads::start(1).with_hang_limit(HANG_LIMIT);
    let running = OnTheirWay::on(threads, Act::DeliverAfter(Duration::from_millis(5)));
    running.until("some", |r| r.accepted() >= 50).await;
    running.pipeline.supervisor.send(hang).await.unwrap();
    running.until("all", |r| r.accepted() == 400).await;
    let generation = |r: &OnTheirWay| r.view.connector("test").unwrap().generation;
    running.until("replaced", |r| generation(r) > 1).await;
    assert_eq!(generation(&running), 2);
    assert_eq!(running.redelivered(), 0);
    assert!(running.pipeline.drain(Duration::from_secs(5)).await.clean);
    running.threads.stop();
}

#[actix::test]
async fn a_poller_that_blocks_its_thread_makes_a_new_generation_that_loses_nothing() {
    let (_open, closed) = mpsc::channel();
    survives(Hang::Poller(Block(closed))).await;
}

#[actix::test]
async fn a_poller_that_leaves_events_lying_makes_a_new_generation_that_loses_nothing() {
    let (_open, closed) = oneshot::channel();
    survives(Hang::PollerWaits(Wait(closed))).await;
}

#[actix::test]
async fn an_acknowledger_that_blocks_its_thread_makes_a_new_generation_that_loses_nothing() {
    let (_open, closed) = mpsc::channel();
    survives(Hang::Acknowledger(Block(closed))).await;
}

#[actix::test]
async fn an_actor_that_leaves_its_mail_lying_makes_a_new_generation_that_loses_nothing() {
    let (_open, closed) = oneshot::channel();
    survives(Hang::AcknowledgerWaits(Wait(closed))).await;
}

#[actix::test]
async fn locks_are_kept_after_too_many_stuck_threads_have_failed_the_connector() {
    let (_open, closed) = mpsc::channel();
    let threads = Threads::start(1)
        .with_hang_limit(Duration::from_millis(800))
        .that_replace_none();
    let running = OnTheirWay::on(threads, Act::DeliverAfter(Duration::from_secs(300)));
    let is_held = |fate| matches!(fate, Fate::Acquired { .. });
    running.until("held", |r| r.source.count(is_held) > 4).await;
    let block = Hang::Poller(Block(closed));
    running.pipeline.supervisor.send(block).await.unwrap();
    let has_failed = |r: &OnTheirWay| {
        let view = r.view.connector("test");
        view.is_some_and(|view| matches!(view.state, ConnectorState::Failed(_)))
    };
    running.until("failed", has_failed).await;
    let (held, failed_at) = (running.source.count(is_held), Instant::now());
    running
        .until("renewed, and renewed again", |r| {
            let long_after = failed_at + LOCK * 4;
            let kept = |fate| matches!(fate, Fate::Acquired { until } if until > long_after);
            r.redelivered() > 0 || r.source.count(kept) == held
        })
        .await;
    assert_eq!(running.redelivered(), 0);
    running.threads.stop();
}
