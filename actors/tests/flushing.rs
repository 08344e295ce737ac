//! When a sink that buffers is flushed, and its records are accepted. With
//! fakes and a paused clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::flush::FlushPolicy;
use sluice_actors::live_view::LiveView;
use sluice_actors::ports::sink::{SinkError, SinkTraits};
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeSource, Fate, Seen, TestPipeline, conversion_of_values,
    policy, spec,
};
use tokio::time::Instant;

const RECORDS: usize = 200;
/// Longer than any of these tests.
const NEVER: Duration = Duration::from_secs(3600);

struct Running {
    source: FakeSource,
    seen: Arc<Seen>,
    view: Arc<LiveView>,
    pipeline: Pipeline,
}

impl Running {
    /// One task with puts of at most 10 records.
    fn start(sink: &FakeSinkFactory, change: impl FnOnce(&mut PipelineSpec)) -> Self {
        let sink = sink.clone().with_traits(SinkTraits {
            buffers: true,
            ..SinkTraits::default()
        });
        let small = Policy {
            max_put_records: 10,
            ..policy(1, Tolerance::None)
        };
        let mut spec = spec(
            small,
            conversion_of_values(AsTheyAre),
            Arc::new(sink.clone()),
        );
        spec.flush = FlushPolicy {
            interval: NEVER,
            idle: NEVER,
            records: None,
            bytes: None,
        };
        spec.policy.max_in_flight_records = Some(1000);
        change(&mut spec);
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start(spec, &[RECORDS], Duration::from_secs(1));
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

    fn flushes(&self) -> usize {
        self.seen.flushes.load(Ordering::SeqCst)
    }

    fn puts(&self) -> usize {
        self.seen.puts.load(Ordering::SeqCst)
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let view = self.view.connector("test");
            assert!(since.elapsed().as_secs() < 60, "never: {what}; {view:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn delivering() -> FakeSinkFactory {
    FakeSinkFactory::new(|_, _| Act::Deliver)
}

#[actix::test]
async fn without_a_bound_that_is_reached_nothing_is_flushed_or_accepted() {
    tokio::time::pause();
    let running = Running::start(&delivering(), |_| {});
    running
        .until("all put", |it| it.puts() == RECORDS / 10)
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((running.flushes(), running.accepted()), (0, 0));
    assert!((0..RECORDS as i64).all(|offset| running.source.delivery_count(0, offset) == 1));
    let since = Instant::now();
    let drained = running.pipeline.drain(Duration::from_secs(60)).await;
    assert!(since.elapsed().as_secs() < 5, "a drain waits for no bound");
    assert!(drained.clean, "{drained:?}");
    assert_eq!((running.flushes(), running.accepted()), (1, RECORDS));
}

#[actix::test]
async fn so_many_records_or_bytes_bring_a_flush() {
    tokio::time::pause();
    // Values of the fake source have a few bytes each.
    for (records, bytes) in [(Some(50), None), (None, Some(1))] {
        let running = Running::start(&delivering(), |spec| {
            spec.flush.records = records;
            spec.flush.bytes = bytes;
        });
        running.source.append(0, b"some bytes");
        let flushes = if bytes.is_some() { 1 } else { RECORDS / 50 };
        running.until("flushed", |it| it.flushes() >= flushes).await;
        let at_least = flushes * records.unwrap_or(1);
        running
            .until("accepted", |it| it.accepted() >= at_least)
            .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(running.flushes(), flushes, "and no more");
    }
}

#[actix::test]
async fn the_wall_clock_brings_a_flush_also_when_no_more_records_come() {
    tokio::time::pause();
    let running = Running::start(&delivering(), |spec| {
        spec.flush.interval = Duration::from_secs(7);
    });
    let began = Instant::now();
    running
        .until("accepted", |it| it.accepted() == RECORDS)
        .await;
    assert_eq!(running.flushes(), 1);
    let took = began.elapsed();
    assert!((7..8).contains(&took.as_secs()), "{took:?}");
}

#[actix::test]
async fn when_the_source_can_give_no_more_it_is_flushed() {
    tokio::time::pause();
    let running = Running::start(&delivering(), |spec| {
        spec.policy.max_in_flight_records = Some(40);
    });
    let began = Instant::now();
    running
        .until("accepted", |it| it.accepted() == RECORDS)
        .await;
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(
        running.flushes() <= 2 * RECORDS / 40,
        "{}",
        running.flushes()
    );
}

/// Records that a put sends back, and all those of a flush that fails: each is
/// put once more for that, and never while it lies in the sink already.
#[actix::test]
async fn what_put_and_flush_both_send_back_is_put_once_for_each() {
    tokio::time::pause();
    let puts: Arc<Mutex<BTreeMap<i64, usize>>> = Arc::default();
    let counts = Arc::clone(&puts);
    let sink = FakeSinkFactory::new(move |record, _| {
        let mut counts = counts.lock();
        let count = counts.entry(record.offset).or_insert(0);
        *count += 1;
        match (record.offset % 7, *count) {
            (0, 1) => Act::Retry,
            _ => Act::Deliver,
        }
    });
    // By then those that were sent back have been put again.
    let sink = sink.with_flush(|flushes| match flushes {
        0 => Err(SinkError::Retry("disk full".into())),
        _ => Ok(()),
    });
    let running = Running::start(&sink, |spec| {
        spec.flush.interval = Duration::from_secs(5);
    });
    running
        .until("accepted", |it| it.accepted() == RECORDS)
        .await;
    assert_eq!(running.flushes(), 2);
    let expected = (0..RECORDS as i64).map(|offset| match offset % 7 {
        0 => (offset, 3),
        _ => (offset, 2),
    });
    assert_eq!(*puts.lock(), expected.collect());
    let mut delivered = running.seen.delivered.lock().clone();
    delivered.sort_unstable();
    let each_once: Vec<_> = (0..RECORDS as i64).map(|offset| (0, offset)).collect();
    assert_eq!(delivered, each_once);
    assert!((0..RECORDS as i64).all(|offset| running.source.delivery_count(0, offset) == 1));
}

#[actix::test]
async fn accepted_after_the_put_only_when_that_is_said() {
    tokio::time::pause();
    let failing = delivering().with_flush(|_| Err(SinkError::Retry("disk full".into())));
    let running = Running::start(&failing, |spec| spec.accepts_after_put = true);
    running
        .until("accepted", |it| it.accepted() == RECORDS)
        .await;
    assert_eq!(running.flushes(), 0);
    let running = Running::start(&failing, |spec| spec.flush.records = Some(10));
    running.until("flushed", |it| it.flushes() > 3).await;
    assert_eq!(running.accepted(), 0);
}

/// A record that no flush survives, or that each rejects, among others.
#[actix::test]
async fn the_record_that_flushes_fail_over_is_found_and_the_others_are_delivered() {
    const BAD: (i32, i64) = (0, 77);
    tokio::time::pause();
    for panics in [false, true] {
        let sink = delivering().with_flush_of(move |records| match records.contains(&BAD) {
            true if panics => panic!("by plan"),
            true => Err(SinkError::RejectedOne("one of these".into())),
            false => Ok(()),
        });
        let running = Running::start(&sink, |spec| {
            spec.policy.tolerance = Tolerance::All;
            spec.flush.records = Some(50);
            spec.flush.interval = Duration::from_secs(1);
        });
        running
            .until("accepted", |it| it.accepted() == RECORDS - 1)
            .await;
        running
            .until("rejected", |it| it.source.fate(0, BAD.1) == Fate::Rejected)
            .await;
        // Each put of the flush by itself, and the bad one in halves.
        assert!(running.flushes() < 30, "{}", running.flushes());
        let mut delivered = running.seen.delivered.lock().clone();
        delivered.sort_unstable();
        let others = (0..RECORDS as i64).map(|offset| (0, offset));
        let others: Vec<_> = others.filter(|id| *id != BAD).collect();
        assert_eq!(delivered, others, "each once");
        assert!((0..RECORDS as i64).all(|offset| running.source.delivery_count(0, offset) == 1));
    }
}
