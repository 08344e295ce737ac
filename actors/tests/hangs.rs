//! What hangs is found and replaced, and costs no record an attempt.
//!
//! Threads are blocked for true, so the clock runs: limits are small, locks are
//! long, and each blocked thread is let go at the end of its test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::conversion::Conversion;
use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView};
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::ports::sink::SinkTraits;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeSource, Fate, TestPipeline, conversion_of_values, policy,
    spec,
};
use sluice_actors::threads::Threads;
use sluice_actors::value::Datum;
use tokio::time::Instant;

/// Long enough for a machine that has others to serve.
const LIMIT: Duration = Duration::from_millis(800);
const LOCK: Duration = Duration::from_secs(20);

/// Blocks each thread that comes by, until it is dropped.
#[derive(Clone)]
struct Trap {
    caught: Arc<AtomicUsize>,
    closed: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Trap {
    fn new() -> (Self, mpsc::Sender<()>) {
        let (open, closed) = mpsc::channel();
        let trap = Self {
            caught: Arc::default(),
            closed: Arc::new(Mutex::new(closed)),
        };
        (trap, open)
    }

    fn block(&self) {
        self.caught.fetch_add(1, Ordering::SeqCst);
        // The first one waits for the end of the test, the others for the first.
        let _ = self.closed.lock().recv();
    }

    fn caught(&self) -> usize {
        self.caught.load(Ordering::SeqCst)
    }
}

/// Never comes back from `trap`.
struct Trapped(Trap);

impl Converter for Trapped {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        if bytes.map(Bytes::as_ref) == Some(b"trap") {
            self.0.block();
        }
        Converter::to_datum(&AsTheyAre, topic, bytes)
    }
}

struct Running {
    source: FakeSource,
    view: Arc<LiveView>,
    threads: Threads,
    pipeline: Pipeline,
}

struct Setting {
    conversion: Conversion,
    sink: FakeSinkFactory,
    tolerance: Tolerance,
    delivery_timeout: Duration,
    pool: usize,
    /// That are there from the start.
    records: usize,
}

impl Setting {
    fn of(conversion: Conversion, sink: FakeSinkFactory) -> Self {
        Self {
            conversion,
            sink,
            tolerance: Tolerance::All,
            delivery_timeout: Duration::from_secs(300),
            pool: 1,
            records: 0,
        }
    }

    fn start(self) -> Running {
        let threads = Threads::start(self.pool).with_hang_limit(LIMIT);
        self.start_on(&threads)
    }

    fn start_on(self, threads: &Threads) -> Running {
        let spec = PipelineSpec {
            delivery_timeout: self.delivery_timeout,
            ..spec(
                Policy {
                    max_in_flight_records: Some(1000),
                    ..policy(4, self.tolerance)
                },
                self.conversion,
                Arc::new(self.sink),
            )
        };
        let (threads, view) = (threads.clone(), LiveView::new());
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start_on(threads.clone(), view, spec, &[self.records], LOCK);
        Running {
            source,
            view,
            threads,
            pipeline,
        }
    }
}

impl Running {
    fn now(&self) -> ConnectorView {
        self.view.connector("test").unwrap_or_default()
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let view = self.now();
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "never: {what}; {view:?}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Appends records; `bad` is the value of that one.
    fn append(&self, records: usize, bad: Option<(i64, &'static [u8])>) {
        for offset in 0..records as i64 {
            let value = match bad {
                Some((at, value)) if at == offset => value,
                _ => b"good",
            };
            self.source.append(0, value);
        }
    }

    fn accepted(&self) -> usize {
        self.source.count(|fate| fate == Fate::Accepted)
    }

    /// Nobody has lost an attempt.
    fn all_were_delivered_once(&self, records: i64) -> bool {
        (0..records).all(|offset| self.source.delivery_count(0, offset) == 1)
    }

    async fn end(self, trap: Option<mpsc::Sender<()>>) {
        let drained = self.pipeline.drain(Duration::from_secs(10)).await;
        assert!(drained.clean, "{drained:?}");
        drop(trap);
        self.threads.stop();
    }
}

fn plain() -> Conversion {
    conversion_of_values(AsTheyAre)
}

fn delivers() -> FakeSinkFactory {
    FakeSinkFactory::new(|_, _| Act::Deliver)
}

/// Blocks its thread over the record at `offset`.
fn trapped_at(offset: i64, trap: &Trap) -> FakeSinkFactory {
    let trap = trap.clone();
    FakeSinkFactory::new(move |record, _| {
        if record.offset == offset {
            trap.block();
        }
        Act::Deliver
    })
}

#[actix::test]
async fn a_record_that_hangs_the_converter_is_rejected_and_the_rest_delivered() {
    let (trap, open) = Trap::new();
    let conversion = conversion_of_values(Trapped(trap.clone()));
    let sink = delivers();
    let seen = sink.seen();
    let running = Setting::of(conversion, sink).start();
    running.append(100, Some((42, b"trap")));
    running.until("accepted", |r| r.accepted() == 99).await;
    running
        .until("rejected", |r| r.source.fate(0, 42) == Fate::Rejected)
        .await;
    assert_eq!(trap.caught(), 2, "another try, and no third");
    assert!(running.all_were_delivered_once(100));
    assert_eq!(running.now().generation, 3);
    assert_eq!(running.now().state, ConnectorState::Running);
    // What they come back with is void.
    drop(open);
    running.append(10, None);
    running.until("goes on", |r| r.accepted() == 109).await;
    let mut delivered = seen.delivered.lock().clone();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!((delivered.len(), seen.delivered.lock().len()), (109, 109));
    running.end(None).await;
}

#[actix::test]
async fn without_tolerance_a_record_that_hangs_the_converter_fails_the_connector_by_name() {
    let (trap, open) = Trap::new();
    let setting = Setting {
        tolerance: Tolerance::None,
        ..Setting::of(conversion_of_values(Trapped(trap)), delivers())
    };
    let running = setting.start();
    running.append(10, Some((3, b"trap")));
    running.until("accepted", |r| r.accepted() == 9).await;
    let failed = |running: &Running| matches!(running.now().state, ConnectorState::Failed(_));
    running.until("failed", failed).await;
    let ConnectorState::Failed(cause) = running.now().state else {
        unreachable!()
    };
    assert!(cause.contains("orders-0@3: VALUE_CONVERTER"), "{cause}");
    assert_eq!(running.source.delivery_count(0, 3), 1, "kept");
    drop(open);
    running.threads.stop();
}

#[actix::test]
async fn a_record_that_blocks_a_shared_thread_in_its_put_is_rejected_and_the_rest_delivered() {
    let (trap, open) = Trap::new();
    let running = Setting::of(plain(), trapped_at(5, &trap)).start();
    running.append(8, None);
    running.until("accepted", |r| r.accepted() == 7).await;
    running
        .until("rejected", |r| r.source.fate(0, 5) == Fate::Rejected)
        .await;
    assert!(trap.caught() >= 2, "another try before it is blamed");
    assert!(running.all_were_delivered_once(8));
    running.end(Some(open)).await;
}

#[actix::test]
async fn a_task_that_hangs_away_from_the_converter_is_replaced_alone() {
    let (trap, open) = Trap::new();
    let converts_on = Arc::new(Mutex::new(None));
    let noting = Noting(Arc::clone(&converts_on));
    let sink = FakeSinkFactory::new({
        let trap = trap.clone();
        move |_, _| {
            let is_shared = *converts_on.lock() == Some(std::thread::current().id());
            if !is_shared && trap.caught() == 0 {
                trap.block();
            }
            Act::Deliver
        }
    });
    let setting = Setting {
        pool: 2,
        ..Setting::of(conversion_of_values(noting), sink)
    };
    let running = setting.start();
    let mut records = 0;
    // On a busy machine the tasks beside the converter may put them all.
    while trap.caught() == 0 {
        running.append(20, None);
        records += 20;
        running
            .until("caught, or accepted", |r| {
                trap.caught() == 1 || r.accepted() == records
            })
            .await;
    }
    running.until("accepted", |r| r.accepted() == records).await;
    assert!(running.all_were_delivered_once(records as i64));
    assert_eq!(running.now().generation, 1);
    running
        .until("both tasks of the thread replaced", |r| {
            r.now().tasks_replaced == 2
        })
        .await;
    running.end(Some(open)).await;
}

#[actix::test]
async fn a_connector_whose_thread_another_one_blocks_goes_on() {
    let (trap, open) = Trap::new();
    let threads = Threads::start(1).with_hang_limit(LIMIT);
    let conversion = conversion_of_values(Trapped(trap.clone()));
    let hanging = Setting::of(conversion, delivers()).start_on(&threads);
    let slow = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_millis(100)));
    let other = Setting::of(plain(), slow).start_on(&threads);
    hanging.append(1, Some((0, b"trap")));
    hanging.until("caught", |_| trap.caught() == 1).await;
    other.append(20, None);
    other.until("accepted", |r| r.accepted() == 20).await;
    assert!(other.all_were_delivered_once(20));
    hanging
        .until("rejected", |r| r.source.fate(0, 0) == Fate::Rejected)
        .await;
    assert_eq!(other.source.count(|fate| fate == Fate::Rejected), 0);
    let drained = other.pipeline.drain(Duration::from_secs(10)).await;
    assert!(drained.clean, "{drained:?}");
    hanging.end(Some(open)).await;
}

#[actix::test]
async fn a_sink_that_blocks_its_own_thread_is_left_for_another_task() {
    let (trap, open) = Trap::new();
    let sink = FakeSinkFactory::new({
        let trap = trap.clone();
        move |_, _| {
            if trap.caught() == 0 {
                trap.block();
            }
            Act::Deliver
        }
    })
    .with_traits(SinkTraits {
        blocking: true,
        ..SinkTraits::default()
    });
    let setting = Setting {
        // The rule for slow puts, not that for hangs.
        delivery_timeout: LIMIT * 3,
        ..Setting::of(plain(), sink)
    };
    let running = setting.start();
    running.append(20, None);
    running.until("accepted", |r| r.accepted() == 20).await;
    assert!(running.all_were_delivered_once(20));
    assert_eq!(running.now().generation, 1);
    running
        .until("replaced", |r| r.now().tasks_replaced == 1)
        .await;
    running.end(Some(open)).await;
}

#[actix::test]
async fn a_put_that_waits_is_not_taken_for_a_hang() {
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(LIMIT * 3));
    let running = Setting::of(plain(), sink).start();
    running.append(2, None);
    running.until("accepted", |r| r.accepted() == 2).await;
    assert_eq!(running.now().generation, 1);
    assert_eq!(running.now().tasks_replaced, 0);
    running.end(None).await;
}

#[actix::test]
async fn a_converter_that_is_slow_but_moves_on_is_not_taken_for_a_hang() {
    let (_open, never) = mpsc::channel();
    let setting = Setting {
        records: 16,
        ..Setting::of(conversion_of_values(Slow(Mutex::new(never))), delivers())
    };
    let running = setting.start();
    running.until("accepted", |r| r.accepted() == 16).await;
    assert_eq!(running.now().generation, 1);
    running.end(None).await;
}

/// Notes the thread that it converts on.
struct Noting(Arc<Mutex<Option<std::thread::ThreadId>>>);

impl Converter for Noting {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        *self.0.lock() = Some(std::thread::current().id());
        Converter::to_datum(&AsTheyAre, topic, bytes)
    }
}

/// Blocks for a part of the limit over each record.
struct Slow(Mutex<mpsc::Receiver<()>>);

impl Converter for Slow {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        let waited = self.0.lock().recv_timeout(LIMIT / 6);
        assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
        Converter::to_datum(&AsTheyAre, topic, bytes)
    }
}
