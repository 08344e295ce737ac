//! The pipeline's laws, with fakes and a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::credit::Credit;
use sluice_actors::live_view::{ConnectorState, LiveView};
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::ports::sink::{SinkError, SinkTraits};
use sluice_actors::supervisor::Pipeline;
use sluice_actors::terms::Terms;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, FakeSource, Fate, Seen, TestPipeline, conversion_of_values,
    policy, spec,
};
use sluice_actors::threads::Threads;
use sluice_actors::value::Datum;
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);

/// Refuses `poison`, panics on `bomb`.
struct Picky;

impl Converter for Picky {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        match bytes.map(Bytes::as_ref) {
            Some(b"poison") => Err(ConvertError("not to my taste".into())),
            Some(b"bomb") => panic!("boom"),
            Some(_) | None => Converter::to_datum(&AsTheyAre, topic, bytes),
        }
    }
}

struct Running {
    source: FakeSource,
    credit: Arc<Credit>,
    seen: Arc<Seen>,
    view: Arc<LiveView>,
    pipeline: Pipeline,
}

impl Running {
    fn state(&self) -> ConnectorState {
        self.view.connector("test").unwrap_or_default().state
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            assert!(
                since.elapsed() < Duration::from_secs(120),
                "never: {what}; {:?}",
                self.view.connector("test")
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn until_accepted(&self, records: usize) {
        let accepted = |running: &Self| running.source.count(|fate| fate == Fate::Accepted);
        self.until("accepted", |running| accepted(running) >= records)
            .await;
    }
}

fn start(partitions: &[usize], policy: Policy, sink: &FakeSinkFactory) -> Running {
    tokio::time::pause();
    start_on(Threads::current(), partitions, policy, sink)
}

fn start_on(
    threads: Threads,
    partitions: &[usize],
    policy: Policy,
    sink: &FakeSinkFactory,
) -> Running {
    let spec = spec(policy, conversion_of_values(Picky), Arc::new(sink.clone()));
    let TestPipeline {
        source,
        credit,
        view,
        pipeline,
    } = TestPipeline::start_on(threads, LiveView::new(), spec, partitions, LOCK);
    Running {
        source,
        credit,
        seen: sink.seen(),
        view,
        pipeline,
    }
}

#[actix::test]
async fn every_record_is_delivered_once_and_accepted() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let running = start(&[700, 300], policy(8, Tolerance::None), &sink);
    running.until_accepted(1000).await;
    let mut delivered = running.seen.delivered.lock().clone();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered.len(), 1000);
    running
        .until("confirmed", |running| {
            let view = running.view.connector("test").unwrap_or_default();
            view.totals.accepted == 1000 && view.in_flight == 0
        })
        .await;
    assert_eq!(running.state(), ConnectorState::Running);
}

/// Where the clock runs and tasks may be faster than those who start them.
#[actix::test]
async fn a_task_gets_work_however_soon_it_asks() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let threads = Threads::start(1);
    for _ in 0..200 {
        let one_task = policy(1, Tolerance::None);
        let running = start_on(threads.clone(), &[1], one_task, &sink);
        running.until_accepted(1).await;
    }
    threads.stop();
}

#[actix::test]
async fn nothing_waits_for_a_slow_neighbour() {
    let sink = FakeSinkFactory::new(|record, _| match record.offset {
        7 => Act::DeliverAfter(Duration::from_secs(30)),
        _ => Act::Deliver,
    });
    let running = start(&[500], policy(2, Tolerance::None), &sink);
    let since = Instant::now();
    running.until_accepted(499).await;
    assert!(since.elapsed() < Duration::from_secs(5));
    let pinned = |running: &Running| running.view.connector("test")?.pins.into_iter().next();
    running
        .until("the pin shows", |running| {
            pinned(running).is_some_and(|pin| pin.offset == 7 && pin.span == 493)
        })
        .await;
    running.until_accepted(500).await;
    assert_eq!(running.source.delivery_count(0, 7), 1, "renewed meanwhile");
    assert!(running.source.renewals() >= 29);
}

#[actix::test]
async fn a_record_that_kills_tasks_is_put_aside_and_the_rest_delivered() {
    let sink = FakeSinkFactory::new(|record, _| match record.offset {
        42 => Act::Panic,
        _ => Act::Deliver,
    });
    let running = start(&[300], policy(4, Tolerance::All), &sink);
    running.until_accepted(299).await;
    running
        .until("rejected", |running| {
            running.source.fate(0, 42) == Fate::Rejected
        })
        .await;
    for offset in 0..300 {
        assert_eq!(running.source.delivery_count(0, offset), 1);
    }
    assert_eq!(running.state(), ConnectorState::Running);
    assert!(running.view.connector("test").unwrap().tasks_replaced >= 1);
}

#[actix::test]
async fn a_dead_tasks_records_go_to_another_task_under_the_same_locks() {
    let sink = FakeSinkFactory::new(|_, puts| if puts == 0 { Act::Panic } else { Act::Deliver });
    let running = start(&[100], policy(2, Tolerance::None), &sink);
    running.until_accepted(100).await;
    assert!((0..100).all(|offset| running.source.delivery_count(0, offset) == 1));
    assert_eq!(running.state(), ConnectorState::Running);
}

#[actix::test]
async fn without_tolerance_a_bad_record_stops_fetching_and_stays_locked() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let running = start(&[5], policy(2, Tolerance::None), &sink);
    let bad = running.source.append(0, b"poison");
    running
        .until("failed", |r| matches!(r.state(), ConnectorState::Failed(_)))
        .await;
    running.until_accepted(5).await;
    running.source.append(0, b"good");
    tokio::time::sleep(LOCK * 10).await;
    assert!(matches!(running.source.fate(0, bad), Fate::Acquired { .. }));
    assert_eq!(
        running.source.delivery_count(0, bad),
        1,
        "kept, not retried"
    );
    assert_eq!(running.source.fate(0, bad + 1), Fate::Available);
    let ConnectorState::Failed(cause) = running.state() else {
        unreachable!()
    };
    assert!(cause.contains("orders-0@5"), "{cause}");
    assert!(cause.contains("VALUE_CONVERTER"), "{cause}");
    assert!(cause.contains("not to my taste"), "{cause}");
    running.pipeline.drain(Duration::from_secs(5)).await;
    assert_eq!(running.source.fate(0, bad), Fate::Available, "given back");
}

#[actix::test]
async fn with_tolerance_bad_records_are_rejected_alone() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let running = start(&[10], policy(2, Tolerance::All), &sink);
    let (poison, bomb) = (
        running.source.append(0, b"poison"),
        running.source.append(0, b"bomb"),
    );
    running.source.append(0, b"good");
    running.until_accepted(11).await;
    running
        .until("rejected", |r| {
            r.source.fate(0, poison) == Fate::Rejected && r.source.fate(0, bomb) == Fate::Rejected
        })
        .await;
    assert_eq!(running.state(), ConnectorState::Running);
}

#[actix::test]
async fn a_transient_failure_is_tried_again_under_the_same_lock() {
    let sink = FakeSinkFactory::new(|record, puts| match record.offset {
        3 if puts < 4 => Act::Retry,
        _ => Act::Deliver,
    });
    let running = start(&[4], policy(1, Tolerance::None), &sink);
    running.until_accepted(4).await;
    assert_eq!(running.source.delivery_count(0, 3), 1);
    assert!(running.view.connector("test").unwrap().retries >= 1);
}

#[actix::test]
async fn an_unavailable_sink_burns_no_attempts() {
    let down = Instant::now() + Duration::from_secs(20);
    let sink = FakeSinkFactory::new(move |_, _| {
        if Instant::now() < down {
            Act::Fail(SinkError::Unavailable("refused".into()))
        } else {
            Act::Deliver
        }
    });
    let running = start(&[50], policy(4, Tolerance::None), &sink);
    running.until_accepted(50).await;
    assert!((0..50).all(|offset| running.source.delivery_count(0, offset) == 1));
}

#[actix::test]
async fn a_sink_that_says_for_how_long_is_left_alone_so_long() {
    const REST: Duration = Duration::from_secs(20);
    const PUTS: usize = 4;
    let sink = FakeSinkFactory::new(|_, puts| {
        if puts + 1 < PUTS {
            Act::Fail(SinkError::UnavailableFor("throttled".into(), REST))
        } else {
            Act::Deliver
        }
    });
    let began = Instant::now();
    let running = start(&[1], policy(1, Tolerance::None), &sink);
    running.until_accepted(1).await;
    let (took, rests) = (began.elapsed(), REST * (PUTS as u32 - 1));
    assert!(took >= rests, "{took:?}");
    assert!(
        took < rests + REST / 2,
        "no back-off on top of it: {took:?}"
    );
    let puts = running.seen.puts.load(Ordering::SeqCst);
    assert_eq!(puts, PUTS);
    assert_eq!(running.source.delivery_count(0, 0), 1);
}

#[actix::test]
async fn a_chunk_with_a_hidden_bad_record_is_split_until_it_is_found() {
    let sink = FakeSinkFactory::new(|record, _| match record.offset {
        11 => Act::Fail(SinkError::RejectedOne("one of these".into())),
        _ => Act::Deliver,
    });
    let running = start(&[64], policy(1, Tolerance::All), &sink);
    running.until_accepted(63).await;
    assert_eq!(running.source.fate(0, 11), Fate::Rejected);
}

#[actix::test]
async fn a_buffering_sinks_records_are_accepted_after_the_flush_only() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver).with_traits(buffering());
    let running = start(&[200], policy(2, Tolerance::None), &sink);
    running.until_accepted(200).await;
    assert_eq!(running.seen.delivered.lock().len(), 200);
    assert!(running.seen.flushes.load(Ordering::SeqCst) >= 1);
}

fn buffering() -> SinkTraits {
    SinkTraits {
        buffers: true,
        ..SinkTraits::default()
    }
}

#[actix::test]
async fn buffered_records_are_flushed_though_the_next_put_fails() {
    let sink = FakeSinkFactory::new(|record, _| match record.offset {
        1 => Act::Fail(SinkError::RejectedOne("too large".into())),
        _ => Act::Deliver,
    })
    .with_traits(buffering());
    let one_by_one = Policy {
        max_put_records: 1,
        ..policy(1, Tolerance::All)
    };
    let running = start(&[2], one_by_one, &sink);
    running.until_accepted(1).await;
    assert_eq!(running.source.fate(0, 1), Fate::Rejected);
}

#[actix::test]
async fn a_flush_that_finds_the_sink_unavailable_is_not_tried_in_a_loop() {
    let down = Instant::now() + Duration::from_secs(20);
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver)
        .with_traits(buffering())
        .with_flush(move |_| {
            if Instant::now() < down {
                Err(SinkError::Unavailable("refused".into()))
            } else {
                Ok(())
            }
        });
    let running = start(&[50], policy(2, Tolerance::None), &sink);
    running.until_accepted(50).await;
    assert!((0..50).all(|offset| running.source.delivery_count(0, offset) == 1));
    let flushes = running.seen.flushes.load(Ordering::SeqCst);
    assert!(flushes < 40, "{flushes} flushes in 20 seconds");
}

#[actix::test]
async fn a_retry_that_comes_due_while_all_tasks_are_busy_waits_quietly() {
    // A pipeline that spins keeps the paused clock from moving on.
    let sink = FakeSinkFactory::new(|record, puts| match (record.offset, puts) {
        (0, 0) => Act::Retry,
        (1, _) => Act::DeliverAfter(Duration::from_secs(5)),
        _ => Act::Deliver,
    });
    let one_by_one = Policy {
        max_put_records: 1,
        ..policy(1, Tolerance::None)
    };
    let running = start(&[2], one_by_one, &sink);
    running.until_accepted(2).await;
    assert_eq!(running.source.delivery_count(0, 0), 1);
}

#[actix::test]
async fn after_a_lost_connection_late_outcomes_are_fenced() {
    let sink = FakeSinkFactory::new(|_, puts| match puts {
        0 => Act::DeliverAfter(Duration::from_millis(300)),
        _ => Act::Deliver,
    });
    let running = start(&[1], policy(2, Tolerance::None), &sink);
    running
        .until("put", |r| r.seen.puts.load(Ordering::SeqCst) == 1)
        .await;
    running.source.lose_connection();
    running.until_accepted(1).await;
    running
        .until("the late outcome", |r| {
            r.view.connector("test").unwrap().totals.fenced == 1
        })
        .await;
    assert_eq!(running.source.delivery_count(0, 0), 2);
    assert_eq!(running.view.connector("test").unwrap().totals.accepted, 1);
}

#[actix::test]
async fn a_drain_finishes_what_is_open_and_fetches_no_more() {
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_millis(50)));
    let running = start(&[1000], policy(4, Tolerance::None), &sink);
    running.until_accepted(20).await;
    let drained = running.pipeline.drain(Duration::from_secs(5)).await;
    assert!(drained.clean, "{drained:?}");
    assert_eq!(drained.released, 0);
    let accepted = running.source.count(|fate| fate == Fate::Accepted);
    assert_eq!(running.seen.delivered.lock().len(), accepted);
    assert!(accepted < 1000);
    assert_eq!(
        running.source.count(|fate| fate == Fate::Available),
        1000 - accepted
    );
    assert_eq!(running.seen.closed.load(Ordering::SeqCst), 4);
}

#[actix::test]
async fn a_drain_waits_for_records_that_were_asked_for() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let running = start(&[10], policy(2, Tolerance::None), &sink);
    running.until_accepted(10).await;
    running.credit.set_awaiting(true);
    let answer = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.credit.set_awaiting(false);
    };
    let since = Instant::now();
    let (drained, ()) = tokio::join!(running.pipeline.drain(Duration::from_secs(5)), answer);
    assert!(drained.clean, "{drained:?}");
    let took = since.elapsed();
    assert!((1..3).contains(&took.as_secs()), "{took:?}");
}

#[actix::test]
async fn a_drain_keeps_its_deadline_when_the_sink_does_not_answer() {
    let sink = FakeSinkFactory::new(|_, _| Act::DeliverAfter(Duration::from_secs(3600)));
    let running = start(&[100], policy(2, Tolerance::None), &sink);
    running
        .until("put", |r| r.seen.puts.load(Ordering::SeqCst) >= 2)
        .await;
    let since = Instant::now();
    let drained = running.pipeline.drain(Duration::from_secs(5)).await;
    assert!(!drained.clean);
    assert!(drained.released >= 2);
    assert!(since.elapsed() <= Duration::from_millis(5600));
    assert_eq!(running.source.count(|fate| fate == Fate::Available), 100);
}

#[actix::test]
async fn memory_comes_back_when_records_are_done() {
    let sink = FakeSinkFactory::new(|_, _| Act::Deliver);
    let running = start(&[0], policy(2, Tolerance::None), &sink);
    for _ in 0..100 {
        running.source.append(0, b"0123456789");
    }
    running.until_accepted(100).await;
    running
        .until("bytes back", |r| r.credit.held_bytes() == 0)
        .await;
}

#[actix::test]
async fn a_sink_that_kills_every_task_does_not_spin() {
    let sink = FakeSinkFactory::new(|_, _| Act::Panic);
    let running = start(&[100_000], policy(4, Tolerance::All), &sink);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let replaced = running.view.connector("test").unwrap().tasks_replaced;
    assert!((32..=32 + 4 * 31).contains(&replaced), "{replaced}");
    let since = Instant::now();
    let deadline = Duration::from_secs(2);
    running.pipeline.drain(deadline).await;
    assert!(since.elapsed() <= deadline, "{:?}", since.elapsed());
    let is_open = |fate| matches!(fate, Fate::Acquired { .. });
    assert_eq!(running.source.count(is_open), 0);
}

/// A sink that is down until told otherwise, and the only record of its
/// source on its last attempt.
async fn last_attempt_while_down() -> (Running, Arc<AtomicBool>) {
    let up = Arc::new(AtomicBool::new(false));
    let is_up = Arc::clone(&up);
    let sink = FakeSinkFactory::new(move |_, _| match is_up.load(Ordering::SeqCst) {
        true => Act::Deliver,
        false => Act::Fail(SinkError::Unavailable("refused".into())),
    });
    let last = Policy {
        terms: Terms::new(1, 2000),
        ..policy(2, Tolerance::None)
    };
    let running = start(&[1], last, &sink);
    running
        .until("acquired", |it| {
            matches!(it.source.fate(0, 0), Fate::Acquired { .. })
        })
        .await;
    running
        .until("entered", |it| {
            it.view
                .connector("test")
                .is_some_and(|it| it.in_flight == 1)
        })
        .await;
    (running, up)
}

#[actix::test]
async fn a_record_on_its_last_attempt_that_waits_for_its_sink_keeps_the_pipeline_at_work() {
    let (running, up) = last_attempt_while_down().await;
    let last = running.pipeline.quiesce(Duration::from_secs(1)).await;
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].to_string(), "orders-0@0");
    up.store(true, Ordering::SeqCst);
    running.source.append(0, b"later");
    running.until_accepted(2).await;
}

#[actix::test]
async fn the_look_before_a_restart_waits_for_records_that_were_asked_for() {
    let (running, up) = last_attempt_while_down().await;
    up.store(true, Ordering::SeqCst);
    running.credit.set_awaiting(true);
    let answer = async {
        running.until_accepted(1).await;
        running.credit.set_awaiting(false);
    };
    let patience = Duration::from_secs(100);
    let (last, ()) = tokio::join!(running.pipeline.quiesce(patience), answer);
    assert!(last.is_empty(), "{last:?}");
    running.source.append(0, b"later");
    tokio::time::sleep(LOCK).await;
    assert_eq!(running.source.fate(0, 1), Fate::Available, "takes no more");
}

#[actix::test]
async fn a_drain_that_runs_out_counts_what_is_lost() {
    let (running, _up) = last_attempt_while_down().await;
    let drained = running.pipeline.drain(Duration::from_secs(1)).await;
    assert_eq!(
        (drained.clean, drained.lost, drained.released),
        (false, 1, 0)
    );
}
