//! Tasks that the operator restarts lose nothing, and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::live_view::{ConnectorState, LiveView, TaskState};
use sluice_actors::ports::sink::SinkError;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeSource, Fate, Seen, TestPipeline, conversion_of_values,
    policy, spec,
};
use tokio::time::Instant;

const RECORDS: usize = 300;
const TASKS: u32 = 3;

struct Running {
    source: FakeSource,
    seen: Arc<Seen>,
    view: Arc<LiveView>,
    pipeline: Pipeline,
}

impl Running {
    fn start(sink: &FakeSinkFactory) -> Self {
        tokio::time::pause();
        let policy = Policy {
            max_put_records: 5,
            ..policy(TASKS as usize, Tolerance::None)
        };
        let spec = PipelineSpec {
            delivery_timeout: Duration::from_secs(3600),
            ..spec(
                policy,
                conversion_of_values(AsTheyAre),
                Arc::new(sink.clone()),
            )
        };
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start(spec, &[RECORDS], Duration::from_secs(30));
        Self {
            source,
            seen: sink.seen(),
            view,
            pipeline,
        }
    }

    fn accepted(&self) -> usize {
        self.source.count(|fate| fate == Fate::Accepted)
    }

    fn state(&self) -> ConnectorState {
        self.view.connector("test").unwrap_or_default().state
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let shown = self.view.connector("test");
            assert!(since.elapsed().as_secs() < 120, "never: {what}; {shown:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// All was delivered once, at the first attempt.
    async fn ends_well(self) {
        self.until("all are accepted", |running| running.accepted() == RECORDS)
            .await;
        let first_attempt = |offset| self.source.delivery_count(0, offset) == 1;
        assert!((0..RECORDS as i64).all(first_attempt));
        assert!(self.pipeline.drain(Duration::from_secs(5)).await.clean);
    }
}

#[actix::test]
async fn a_restarted_task_closes_its_sink_and_opens_another_and_no_record_comes_twice() {
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_millis(20)));
    let running = Running::start(&sink);
    running.until("some", |it| it.accepted() > 20).await;
    for task in 0..TASKS {
        running.pipeline.restart_task(task).await;
    }
    let (created, closed) = (&running.seen.created, &running.seen.closed);
    running
        .until("new sinks", |_| {
            created.load(Ordering::SeqCst) == 2 * TASKS as usize
        })
        .await;
    assert_eq!(closed.load(Ordering::SeqCst), TASKS as usize);
    let mut delivered = {
        running.until("all", |it| it.accepted() == RECORDS).await;
        running.seen.delivered.lock().clone()
    };
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered.len(), RECORDS);
    assert_eq!(running.seen.delivered.lock().len(), RECORDS, "none twice");
    running.ends_well().await;
}

#[actix::test]
async fn a_task_that_does_not_end_its_put_is_left_and_its_records_go_on() {
    let stuck = Arc::new(AtomicBool::new(true));
    let first = Arc::clone(&stuck);
    let sink = FakeSinkFactory::new(move |record, _| {
        let hangs = record.offset == 7 && first.swap(false, Ordering::SeqCst);
        Act::DeliverAfter(Duration::from_secs(if hangs { 3000 } else { 0 }))
    });
    let running = Running::start(&sink);
    running
        .until("all but one put", |it| it.accepted() > RECORDS - 6)
        .await;
    assert!(!stuck.load(Ordering::SeqCst));
    for task in 0..TASKS {
        running.pipeline.restart_task(task).await;
    }
    running.ends_well().await;
}

#[actix::test]
async fn a_connector_that_ran_out_of_tasks_goes_on_when_one_is_restarted() {
    let broken = Arc::new(AtomicBool::new(true));
    let is_broken = Arc::clone(&broken);
    let sink = FakeSinkFactory::new(move |_, _| {
        if is_broken.load(Ordering::SeqCst) {
            Act::Fail(SinkError::Fatal("the table is gone".into()))
        } else {
            Act::Deliver
        }
    });
    let running = Running::start(&sink);
    let failed = |it: &Running| matches!(it.state(), ConnectorState::Failed(_));
    running.until("it fails", failed).await;
    broken.store(false, Ordering::SeqCst);
    running.pipeline.restart_task(1).await;
    running
        .until("it runs", |it| it.state() == ConnectorState::Running)
        .await;
    running.until("all", |it| it.accepted() == RECORDS).await;
    let tasks = running.view.tasks("test");
    assert_eq!(tasks[1].1, TaskState::Running);
    assert!(matches!(tasks[0].1, TaskState::Failed(_)), "{tasks:?}");
    running.ends_well().await;
}
