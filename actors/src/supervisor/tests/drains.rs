//! What a drain still does for records that are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::Handler;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Hang, Stage, Wait, spec};
use crate::mailbox::Letter;
use crate::messages::Drained;
use crate::ports::sink::SinkTraits;
use crate::supervisor::{Pipeline, Supervisor};
use crate::testing::{Act, FakeSinkFactory, FakeSource, Fate, Seen, TestPipeline};

const LOCK: Duration = Duration::from_secs(30);
const RECORDS: usize = 40;
const DEADLINE: Duration = Duration::from_secs(8);
/// A drain finishes what is open for so long.
const FINISHING: Duration = Duration::from_secs(6);
const PUT: Duration = Duration::from_millis(100);

/// Whether there are actors.
struct HasGeneration(oneshot::Sender<bool>);

impl Handler<Letter<HasGeneration>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<HasGeneration>, _ctx: &mut Self::Context) {
        letter.message.0.send(self.generation.is_some()).unwrap();
    }
}

struct Running {
    source: FakeSource,
    seen: Arc<Seen>,
    pipeline: Pipeline,
}

impl Running {
    /// One task, and puts of one record.
    fn start(sink: &FakeSinkFactory) -> Self {
        tokio::time::pause();
        let mut spec = spec(sink);
        spec.policy.tasks = 1;
        spec.policy.max_put_records = 1;
        let TestPipeline {
            source, pipeline, ..
        } = TestPipeline::start(spec, &[RECORDS], LOCK);
        let seen = sink.seen();
        Self {
            source,
            seen,
            pipeline,
        }
    }

    async fn until_delivered(&self, records: usize) {
        let since = Instant::now();
        while self.seen.delivered.lock().len() < records {
            assert!(since.elapsed() < LOCK / 2, "never delivered");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn has_generation(&self) -> bool {
        let (tell, told) = oneshot::channel();
        let look = HasGeneration(tell);
        self.pipeline.supervisor.send(look).await.unwrap();
        told.await.unwrap()
    }

    async fn kill(&self, stage: Stage) {
        self.pipeline.supervisor.send(stage).await.unwrap();
    }

    /// All that was open is accepted, and nothing came back.
    fn has_finished(&self, drained: &Drained) {
        assert!(drained.clean, "{drained:?}");
        assert_eq!(drained.released, 0);
        let accepted = self.source.count(|fate| fate == Fate::Accepted);
        assert_eq!(self.seen.delivered.lock().len(), accepted);
        let available = self.source.count(|fate| fate == Fate::Available);
        assert_eq!(accepted + available, RECORDS);
    }
}

fn slow_sink() -> FakeSinkFactory {
    FakeSinkFactory::new(|_, _| Act::DeliverAfter(PUT))
}

#[actix::test]
async fn what_the_acknowledger_has_not_read_by_the_end_is_entered_and_not_released() {
    let traits = SinkTraits {
        buffers: true,
        ..SinkTraits::default()
    };
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver).with_traits(traits);
    let running = Running::start(&sink);
    let (wake, asleep) = oneshot::channel();
    let hang = Hang::AcknowledgerWaits(Wait(asleep));
    running.pipeline.supervisor.send(hang).await.unwrap();
    running.until_delivered(1).await;
    let awake = async {
        tokio::time::sleep(FINISHING + PUT).await;
        drop(wake);
    };
    let (drained, ()) = tokio::join!(running.pipeline.drain(DEADLINE), awake);
    assert_eq!(drained.released, 0, "{drained:?}");
    let delivered = running.seen.delivered.lock().len();
    let accepted = running.source.count(|fate| fate == Fate::Accepted);
    assert_eq!(accepted, delivered);
}

/// Nobody reads that it was flushed.
#[actix::test]
async fn what_was_flushed_is_not_released_though_the_acknowledger_hangs_to_the_end() {
    let traits = SinkTraits {
        buffers: true,
        ..SinkTraits::default()
    };
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver).with_traits(traits);
    let running = Running::start(&sink);
    let (_wake, asleep) = oneshot::channel();
    let hang = Hang::AcknowledgerWaits(Wait(asleep));
    running.pipeline.supervisor.send(hang).await.unwrap();
    running.until_delivered(1).await;
    running.pipeline.drain(DEADLINE).await;
    let delivered = running.seen.delivered.lock().clone();
    let not_accepted = |offset: &i64| running.source.fate(0, *offset) != Fate::Accepted;
    let offsets = delivered.iter().map(|(_, offset)| *offset);
    let again: Vec<i64> = offsets.filter(not_accepted).collect();
    assert_eq!(again, Vec::<i64>::new(), "of {delivered:?}");
}

#[actix::test]
async fn a_drain_keeps_its_deadline_when_the_acknowledger_does_not_answer() {
    let running = Running::start(&slow_sink());
    let (_wake, asleep) = oneshot::channel();
    let hang = Hang::AcknowledgerWaits(Wait(asleep));
    running.pipeline.supervisor.send(hang).await.unwrap();
    running.until_delivered(1).await;
    let since = Instant::now();
    running.pipeline.drain(DEADLINE).await;
    assert!(since.elapsed() <= DEADLINE, "{:?}", since.elapsed());
    let accepted = running.source.count(|fate| fate == Fate::Accepted);
    assert_eq!(accepted, running.seen.delivered.lock().len());
}

#[actix::test]
async fn a_drain_between_two_generations_finishes_what_is_open() {
    let running = Running::start(&slow_sink());
    running.until_delivered(2).await;
    running.kill(Stage::Acknowledger).await;
    while running.has_generation().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let drained = running.pipeline.drain(DEADLINE).await;
    running.has_finished(&drained);
}

#[actix::test]
async fn a_generation_that_dies_in_a_drain_is_replaced_and_finishes_what_is_open() {
    let running = Running::start(&slow_sink());
    running.until_delivered(2).await;
    let death = async {
        tokio::time::sleep(PUT / 2).await;
        running.kill(Stage::Acknowledger).await;
    };
    let (drained, ()) = tokio::join!(running.pipeline.drain(DEADLINE), death);
    running.has_finished(&drained);
}

#[actix::test]
async fn a_task_that_dies_in_a_drain_is_replaced_and_finishes_what_is_open() {
    let dies = Arc::new(AtomicBool::new(false));
    let will_die = Arc::clone(&dies);
    let sink = FakeSinkFactory::new(move |_, _| {
        if will_die.swap(false, Ordering::SeqCst) {
            Act::Panic
        } else {
            Act::DeliverAfter(PUT)
        }
    });
    let running = Running::start(&sink);
    running.until_delivered(2).await;
    dies.store(true, Ordering::SeqCst);
    let drained = running.pipeline.drain(DEADLINE).await;
    assert!(!dies.load(Ordering::SeqCst), "it died");
    running.has_finished(&drained);
}
