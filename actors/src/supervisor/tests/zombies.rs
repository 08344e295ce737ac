//! What an actor may still do that wakes when its generation is dead: nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::{Actor, Handler};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Stage, Wait, spec};
use crate::converter::EnlistTask;
use crate::delivery::{Delivery, DeliveryLinks};
use crate::kill_switch::KillSwitch;
use crate::live_view::LiveView;
use crate::mailbox::Letter;
use crate::messages::{ReportedOutcomes, TaskEnd, TaskGone};
use crate::ports::sink::TaskContext;
use crate::progress::{Mark, Pulse};
use crate::supervisor::generation::{ACKNOWLEDGER_MAILBOX, Generation};
use crate::supervisor::{Pipeline, Supervisor};
use crate::testing::{Act, FakeSinkFactory, FakeSource, Seen, TestPipeline};

const TASKS: u32 = 4;
/// Fewer than there are tasks, so that what is taken back is put at once.
const RECORDS: usize = 2;
/// Longer than a test of this module takes.
const PUT: Duration = Duration::from_secs(50);

type Look = dyn FnOnce(&Supervisor, &Generation) + Send;

/// Does something with what the supervisor has.
struct Inspect(Box<Look>);

impl Handler<Letter<Inspect>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<Inspect>, _ctx: &mut Self::Context) {
        (letter.message.0)(self, self.generation.as_ref().unwrap());
    }
}

/// Two records in two puts.
struct Setting {
    pipeline: Pipeline,
    view: Arc<LiveView>,
    seen: Arc<Seen>,
    _source: FakeSource,
}

impl Setting {
    async fn new() -> Self {
        tokio::time::pause();
        let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(PUT));
        let seen = sink.seen();
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start(spec(&sink), &[RECORDS], PUT);
        let setting = Self {
            pipeline,
            view,
            seen,
            _source: source,
        };
        setting.until_put(RECORDS).await;
        setting
    }

    fn puts(&self) -> usize {
        self.seen.puts.load(Ordering::SeqCst)
    }

    async fn until_put(&self, puts: usize) {
        let since = Instant::now();
        while self.puts() < puts {
            assert!(since.elapsed() < PUT / 2, "{} puts", self.puts());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn inspect(&self, look: impl FnOnce(&Supervisor, &Generation) + Send + 'static) {
        let look = Inspect(Box::new(look));
        self.pipeline.supervisor.send(look).await.unwrap();
    }

    async fn idle_tasks(&self) -> usize {
        let (tell, told) = oneshot::channel();
        let look = move |supervisor: &Supervisor, _: &Generation| {
            tell.send(supervisor.books.idle_tasks()).unwrap();
        };
        self.inspect(look).await;
        told.await.unwrap()
    }

    /// Another generation has the records.
    async fn live_on(&self) {
        self.pipeline.supervisor.send(Stage::Poller).await.unwrap();
        self.until_put(2 * RECORDS).await;
        assert_eq!(self.view.connector("test").unwrap().generation, 2);
    }

    /// Time for whatever would happen to happen.
    async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

fn gone(generation: u32, task: u32) -> TaskGone {
    TaskGone {
        generation,
        task,
        incarnation: 1,
        end: TaskEnd::Died("by plan".into()),
    }
}

fn enlist(generation: &Generation, task: u32, incarnation: u32) {
    let handle = generation.tasks[task as usize].as_ref().unwrap();
    let letter = EnlistTask {
        task,
        incarnation,
        mailbox: handle.mailbox.clone(),
    };
    generation.converter.signal(letter).unwrap();
}

#[actix::test]
async fn a_death_that_a_dead_acknowledger_hears_of_takes_nothing_back() {
    let setting = Setting::new().await;
    let (wake, asleep) = oneshot::channel();
    setting
        .inspect(|_, generation| {
            generation.acknowledger.signal(Wait(asleep)).unwrap();
            for task in 0..TASKS {
                generation.acknowledger.signal(gone(1, task)).unwrap();
            }
        })
        .await;
    setting.live_on().await;
    drop(wake);
    setting.rest().await;
    assert_eq!(setting.puts(), 2 * RECORDS);
}

#[actix::test]
async fn a_death_in_a_dead_generation_replaces_no_task_of_the_living() {
    let setting = Setting::new().await;
    setting.live_on().await;
    for task in 0..TASKS {
        let late = gone(1, task);
        setting.pipeline.supervisor.send(late).await.unwrap();
    }
    setting.rest().await;
    assert_eq!(setting.view.connector("test").unwrap().tasks_replaced, 0);
    let current = gone(2, 0);
    setting.pipeline.supervisor.send(current).await.unwrap();
    setting.rest().await;
    assert_eq!(setting.view.connector("test").unwrap().tasks_replaced, 1);
}

#[actix::test]
async fn a_task_that_enlists_with_a_dead_converter_changes_nothing() {
    let setting = Setting::new().await;
    let (wake, asleep) = oneshot::channel();
    setting
        .inspect(|_, generation| {
            generation.converter.signal(Wait(asleep)).unwrap();
            for task in 0..TASKS {
                enlist(generation, task, 2);
            }
        })
        .await;
    setting.live_on().await;
    assert_eq!(setting.idle_tasks().await, 2);
    drop(wake);
    setting.rest().await;
    assert_eq!(setting.puts(), 2 * RECORDS);
    assert_eq!(setting.idle_tasks().await, 2);
}

/// As one does whose thread hung before it was started.
#[actix::test]
async fn a_task_that_enlists_behind_its_successor_takes_nothing_back() {
    let setting = Setting::new().await;
    setting
        .inspect(|_, generation| {
            for task in 0..TASKS {
                enlist(generation, task, 0);
            }
        })
        .await;
    setting.rest().await;
    assert_eq!(setting.puts(), RECORDS);
    assert_eq!(setting.idle_tasks().await, 2);
}

#[actix::test]
async fn a_task_that_is_given_up_before_it_starts_opens_no_sink() {
    let setting = Setting::new().await;
    setting
        .inspect(|supervisor, generation| {
            let kill = KillSwitch::default();
            kill.throw();
            let links = DeliveryLinks {
                connector: Arc::clone(&supervisor.connector),
                task: 0,
                error_log: supervisor.outlet.error_log,
                circuit: Arc::clone(supervisor.books.circuit()),
                flush_call: Arc::clone(&supervisor.books.flush_call),
                converter: generation.converter.clone(),
                acknowledger: generation.acknowledger.clone(),
                view: Arc::clone(&supervisor.view),
                generation: generation.number,
                kill,
                meter: supervisor.view.meter(&supervisor.connector, 0),
                mark: Mark::on(&Arc::new(Pulse::default())),
            };
            let context = TaskContext {
                connector: "test".into(),
                task: 0,
                worker: "worker".into(),
            };
            Delivery::new(context, 1, supervisor.delivery.clone(), links).start();
        })
        .await;
    setting.rest().await;
    let created = setting.seen.created.load(Ordering::SeqCst);
    assert_eq!(created, TASKS as usize);
    assert!(setting.view.figures("test")[0].1.opened);
}

#[actix::test]
async fn a_task_that_waits_for_a_hung_acknowledger_ends_with_its_generation() {
    let setting = Setting::new().await;
    let (_wake, asleep) = oneshot::channel();
    let (tell, told) = oneshot::channel();
    setting
        .inspect(|_, generation| {
            generation.acknowledger.signal(Wait(asleep)).unwrap();
            tell.send(generation.acknowledger.clone()).unwrap();
        })
        .await;
    let acknowledger = told.await.unwrap();
    for _ in 0..ACKNOWLEDGER_MAILBOX {
        let letter = ReportedOutcomes { lease: 0 };
        acknowledger.send(letter).await.unwrap();
    }
    let sinks = Arc::strong_count(&setting.seen);
    tokio::time::sleep(PUT).await;
    assert_eq!(setting.seen.delivered.lock().len(), RECORDS);
    let waits = acknowledger.waits();
    assert_eq!(waits, RECORDS as u64, "the puts' ends");
    let poller = Stage::Poller;
    setting.pipeline.supervisor.send(poller).await.unwrap();
    setting.rest().await;
    assert_eq!(setting.view.connector("test").unwrap().generation, 2);
    assert_eq!(Arc::strong_count(&setting.seen), sinks);
}
