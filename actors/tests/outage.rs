//! What a pipeline does while its sink takes no records, with fakes and a
//! paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::chunk::Chunk;
use sluice_actors::live_view::{ConnectorView, TaskState};
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::report::Report;
use sluice_actors::testing::{AsTheyAre, TestPipeline, conversion_of_values, policy, spec};
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);
const TASKS: usize = 8;
const RECORDS: usize = 400;

/// What a put begins with: its task, when, and how many were under way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    task: u32,
    at: Instant,
    records: usize,
    under_way: usize,
}

type Answer = dyn Fn(u32, &Chunk) -> Result<(), SinkError> + Send + Sync;

/// Takes its time for each put, and answers as the test says.
#[derive(Clone)]
struct Service {
    answer: Arc<Answer>,
    buffers: bool,
    begun: Arc<Mutex<Vec<Begun>>>,
    under_way: Arc<AtomicUsize>,
}

impl Service {
    fn new(answer: impl Fn(u32, &Chunk) -> Result<(), SinkError> + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
            buffers: false,
            begun: Arc::default(),
            under_way: Arc::default(),
        }
    }

    /// Down until then.
    fn down_until(end: Instant) -> Self {
        Self::new(move |_, _| match Instant::now() < end {
            true => Err(SinkError::Unavailable("refused".into())),
            false => Ok(()),
        })
    }

    fn begun(&self) -> Vec<Begun> {
        self.begun.lock().clone()
    }
}

impl SinkFactory for Service {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: self.buffers,
            ..SinkTraits::default()
        }
    }

    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(Client {
            task: context.task,
            service: self.clone(),
            last: None,
        }))
    }
}

struct Client {
    task: u32,
    service: Service,
    /// What a flush answers for.
    last: Option<Chunk>,
}

#[async_trait::async_trait]
impl Sink for Client {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, _report: Report) -> Result<(), SinkError> {
        let service = &self.service;
        let under_way = service.under_way.fetch_add(1, Ordering::SeqCst);
        service.begun.lock().push(Begun {
            task: self.task,
            at: Instant::now(),
            records: chunk.len(),
            under_way,
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        service.under_way.fetch_sub(1, Ordering::SeqCst);
        if service.buffers {
            self.last = Some(chunk);
            return Ok(());
        }
        (service.answer)(self.task, &chunk)
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        match self.last.take() {
            Some(chunk) => (self.service.answer)(self.task, &chunk),
            None => Ok(()),
        }
    }
}

struct Running(TestPipeline);

impl Running {
    fn start(service: &Service, policy: Policy) -> Self {
        let sink = Arc::new(service.clone());
        let spec = spec(policy, conversion_of_values(AsTheyAre), sink);
        Self(TestPipeline::start(spec, &[RECORDS], LOCK))
    }

    fn accepted(&self) -> usize {
        self.0.accepted()
    }

    fn shown(&self) -> ConnectorView {
        self.0.view.connector("test").unwrap_or_default()
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let waited = since.elapsed();
            assert!(waited.as_secs() < 100, "never: {what}; {:?}", self.shown());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn until_all_accepted(&self) {
        self.until("accepted", |it| it.accepted() == RECORDS).await;
    }

    fn came_once(&self) -> bool {
        (0..RECORDS as i64).all(|offset| self.0.source.delivery_count(0, offset) <= 1)
    }
}

fn tasks() -> Policy {
    policy(TASKS, Tolerance::None)
}

#[actix::test]
async fn in_an_outage_one_task_probes_with_a_record_and_nothing_is_fetched() {
    tokio::time::pause();
    let end = Instant::now() + 30 * LOCK;
    let service = Service::down_until(end);
    let running = Running::start(&service, tasks());
    running
        .until("shown", |it| it.shown().outage.is_some())
        .await;
    // Those that were under way at its begin.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (puts, acquired) = (service.begun().len(), running.shown().totals.acquired);
    assert_eq!(running.0.credit.window_records(), 0, "fetches no more");

    tokio::time::sleep_until(end).await;
    let probes = service.begun().split_off(puts);
    assert!((4..12).contains(&probes.len()), "{probes:?}");
    assert!(
        probes.iter().all(|it| (it.records, it.under_way) == (1, 0)),
        "{probes:?}"
    );
    let tasks: Vec<u32> = probes.iter().map(|it| it.task).collect();
    assert!(
        tasks.windows(2).all(|pair| pair[0] != pair[1]),
        "taking turns: {tasks:?}"
    );
    let shown = running.shown();
    assert_eq!(shown.totals.acquired, acquired);
    assert_eq!(shown.outages, 1);
    let outage = shown.outage.expect("it lasts");
    assert_eq!(&*outage.cause, "refused");
    assert!(outage.since.elapsed() > 29 * LOCK);
    assert!(
        shown.totals.renewed > 0 && shown.totals.lost == 0,
        "{:?}",
        shown.totals
    );

    running.until_all_accepted().await;
    assert!(running.came_once(), "it used up no attempt");
    assert_eq!(running.shown().outage, None);
}

#[actix::test]
async fn after_an_outage_the_tasks_come_back_one_after_the_other() {
    tokio::time::pause();
    let end = Instant::now() + 10 * LOCK;
    let service = Service::down_until(end);
    let running = Running::start(
        &service,
        Policy {
            max_put_records: 5,
            ..tasks()
        },
    );
    running.until_all_accepted().await;
    let back: Vec<Begun> = service
        .begun()
        .into_iter()
        .filter(|it| it.at >= end)
        .collect();
    let mut most = 1;
    for (answered, put) in back.iter().enumerate() {
        // The n-th put begins with fewer than n others under way.
        assert!(put.under_way < answered.max(1) + 1, "{back:?}");
        most = most.max(put.under_way + 1);
    }
    let first: Vec<usize> = back.iter().take(3).map(|it| it.under_way).collect();
    assert_eq!(first, [0, 0, 1], "the probe alone, then two: {back:?}");
    assert_eq!(most, TASKS, "and all in the end");
    let shown = running.0.view.tasks("test");
    assert!(
        shown.iter().all(|(_, state)| *state == TaskState::Running),
        "{shown:?}"
    );
}

#[actix::test]
async fn one_ill_task_does_not_stop_the_others() {
    tokio::time::pause();
    let ill = Service::new(|task, _| match task {
        0 => Err(SinkError::Unavailable("its connection is bad".into())),
        _ => Ok(()),
    });
    let well = Service::new(|_, _| Ok(()));
    let mut took = Vec::new();
    for service in [&well, &ill] {
        let one_by_one = Policy {
            max_put_records: 1,
            ..tasks()
        };
        let running = Running::start(service, one_by_one);
        let began = Instant::now();
        running.until_all_accepted().await;
        took.push(began.elapsed());
        assert!(running.came_once());
    }
    assert!(took[1] < took[0] + LOCK, "{took:?}");
}

#[actix::test]
async fn records_that_the_sink_refuses_among_others_hold_those_up_ever_less() {
    tokio::time::pause();
    let service = Service::new(
        |_, chunk| match chunk.iter().any(|record| record.offset == 77) {
            true => Err(SinkError::Unavailable("not this one".into())),
            false => Ok(()),
        },
    );
    let running = Running::start(&service, tasks());
    running
        .until("all but one", |it| it.accepted() == RECORDS - 1)
        .await;
    let more = 100;
    for _ in 0..more {
        running.0.source.append(0, b"more");
    }
    let began = Instant::now();
    running
        .until("more", |it| it.accepted() == RECORDS - 1 + more)
        .await;
    assert!(began.elapsed() < 10 * LOCK, "{:?}", began.elapsed());
    assert!(running.came_once());
}

/// They take all the time of the tasks, and are due again before these are
/// free: others get to them in between.
#[actix::test]
async fn records_that_fail_on_leave_the_tasks_to_those_that_were_never_put() {
    const BAD: i64 = 50;
    tokio::time::pause();
    let service = Service::new(
        |_, chunk| match chunk.iter().any(|record| record.offset < BAD) {
            true => Err(SinkError::Retry("not this one".into())),
            false => Ok(()),
        },
    );
    let mut policy = Policy {
        max_put_records: 1,
        ..tasks()
    };
    policy.retry.max_delay = Duration::from_millis(1);
    let running = Running::start(&service, policy);
    running.until("some others", |it| it.accepted() >= 20).await;
    assert!(running.came_once());
}

#[actix::test]
async fn an_outage_that_flushes_meet_is_probed_and_ends_alike() {
    tokio::time::pause();
    let end = Instant::now() + 20 * LOCK;
    let service = Service {
        buffers: true,
        ..Service::down_until(end)
    };
    let running = Running::start(&service, tasks());
    running
        .until("shown", |it| it.shown().outage.is_some())
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let puts = service.begun().len();
    tokio::time::sleep_until(end).await;
    let probes = service.begun().split_off(puts);
    assert!((4..12).contains(&probes.len()), "{probes:?}");
    assert!(probes.iter().all(|it| it.records == 1), "{probes:?}");
    running.until_all_accepted().await;
    assert!(running.came_once());
}

#[actix::test]
async fn a_connector_with_nothing_in_hand_fetches_what_a_probe_needs() {
    tokio::time::pause();
    let end = Instant::now() + 5 * LOCK;
    let service = Service::down_until(end);
    let running = Running::start(&service, tasks());
    running
        .until("shown", |it| it.shown().outage.is_some())
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    // All that it holds is gone with the connection.
    running.0.source.lose_connection();
    running.until_all_accepted().await;
    assert!(Instant::now() < end + 5 * LOCK);
}
