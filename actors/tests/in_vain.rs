//! A sink that takes nothing, and says of each record that it may be tried
//! again: an outage as any other. With fakes and a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sluice_actors::books::{Policy, Tolerance};
use sluice_actors::live_view::ConnectorView;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeSinkFactory, Fate, TestPipeline, conversion_of_values, policy, spec,
};
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);
const SECOND: Duration = Duration::from_secs(1);
const RECORDS: usize = 400;
const TASKS: usize = 4;

struct Running {
    pipeline: TestPipeline,
    sink: FakeSinkFactory,
}

impl Running {
    fn start(sink: FakeSinkFactory, policy: Policy, records: usize) -> Self {
        let factory = Arc::new(sink.clone());
        let mut spec = spec(policy, conversion_of_values(AsTheyAre), factory);
        spec.delivery_timeout = 5 * SECOND;
        let pipeline = TestPipeline::start(spec, &[records], LOCK);
        Self { pipeline, sink }
    }

    fn shown(&self) -> ConnectorView {
        self.pipeline.view.connector("test").unwrap_or_default()
    }

    fn puts(&self) -> usize {
        self.sink.seen().puts.load(Ordering::SeqCst)
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let waited = since.elapsed();
            assert!(waited.as_secs() < 300, "never: {what}; {:?}", self.shown());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn count(&self, fate: Fate) -> usize {
        self.pipeline.source.count(|it| it == fate)
    }

    /// How often the record came that came most often.
    fn most_deliveries(&self, records: usize) -> u16 {
        let offsets = 0..records as i64;
        let counts = offsets.map(|offset| self.pipeline.source.delivery_count(0, offset));
        counts.max().unwrap_or_default()
    }
}

fn retrying(timeout: Option<Duration>) -> Policy {
    let mut policy = Policy {
        max_put_records: 5,
        ..policy(TASKS, Tolerance::All)
    };
    policy.retry.timeout = timeout;
    policy.retry.max_delay = 10 * SECOND;
    policy
}

/// What a sink does in an outage.
fn outages() -> [Act; 3] {
    [
        Act::Retry,
        Act::Fail(SinkError::Retry("bad gateway".into())),
        Act::DeliverAfter(1000 * SECOND),
    ]
}

#[actix::test]
async fn an_outage_told_as_retry_holds_what_was_in_hand_and_costs_no_attempt() {
    tokio::time::pause();
    for timeout in [None, Some(SECOND), Some(Duration::ZERO)] {
        for act in outages() {
            let end = Instant::now() + 120 * SECOND;
            let (of_outage, hangs) = (act.clone(), matches!(act, Act::DeliverAfter(_)));
            let sink = FakeSinkFactory::new(move |_, _| match Instant::now() < end {
                true => of_outage.clone(),
                false => Act::Deliver,
            });
            let running = Running::start(sink, retrying(timeout), RECORDS);
            let case = format!("{act:?} with {timeout:?}");
            running.until(&case, |it| it.shown().outage.is_some()).await;
            let (began, puts) = (Instant::now(), running.puts());
            assert!(end - began > 60 * SECOND, "{case}");
            assert!(running.shown().in_flight <= 60, "{:?}", running.shown());
            let open = running.shown().in_flight;
            tokio::time::sleep_until(end).await;
            let shown = running.shown();
            // One after each rest, where one probes alone.
            let let_in = if hangs { 16 } else { RECORDS };
            assert!(shown.in_flight <= open + let_in, "{case}: {shown:?}");
            let cause = shown
                .outage
                .map_or_else(String::new, |it| it.cause.to_string());
            match hangs {
                true => assert!(cause.starts_with("8 puts"), "{case}: {cause}"),
                false => assert!(cause.starts_with("16 records"), "{case}: {cause}"),
            }
            let probes = running.puts() - puts;
            assert!(!hangs || probes < 20, "{probes}: {case}");
            assert_eq!(shown.outages, 1, "{case}");
            running
                .until(&case, |it| it.pipeline.accepted() == RECORDS)
                .await;
            running.until(&case, |it| it.shown().outage.is_none()).await;
            // Those before there were too many, and each of them once.
            let few = hangs || timeout == Some(Duration::ZERO);
            assert!(
                running.most_deliveries(RECORDS) <= 1 + u16::from(few),
                "{case}"
            );
        }
    }
}

#[actix::test]
async fn a_sink_that_takes_one_in_fifty_is_not_kept_from_it() {
    tokio::time::pause();
    let sink = FakeSinkFactory::new(|record, puts| match (record.offset, puts % 50) {
        (_, 0) => Act::Deliver,
        _ => Act::Fail(SinkError::Retry("busy".into())),
    });
    let running = Running::start(sink, retrying(None), RECORDS);
    running
        .until("some", |it| it.pipeline.accepted() >= 10)
        .await;
    assert_eq!(running.shown().outages, 0);
}

#[actix::test]
async fn a_few_records_that_always_fail_do_not_delay_a_new_one() {
    tokio::time::pause();
    for tasks in [1, TASKS] {
        let sink = FakeSinkFactory::new(|record, _| match record.offset {
            0..4 => Act::Retry,
            _ => Act::Deliver,
        });
        let policy = Policy {
            tasks,
            ..retrying(None)
        };
        let running = Running::start(sink, policy, 4);
        tokio::time::sleep(300 * SECOND).await;
        for delivered in 1..10 {
            running.pipeline.source.append(0, b"good");
            let began = Instant::now();
            running
                .until("delivered", |it| it.pipeline.accepted() == delivered)
                .await;
            assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
            tokio::time::sleep(60 * SECOND).await;
        }
        assert_eq!(running.shown().outages, 0);
    }
}

const BAD: usize = 500;

/// So many fail by themselves that the sink might be down.
fn takes_all_but_the_first() -> FakeSinkFactory {
    FakeSinkFactory::new(|record, _| match record.offset {
        0..500 => Act::Fail(SinkError::Retry("bad gateway".into())),
        _ => Act::Deliver,
    })
}

fn with_the_longest_rests(timeout: Option<Duration>) -> Policy {
    let mut policy = retrying(timeout);
    policy.retry.max_delay = 60 * SECOND;
    policy
}

#[actix::test]
async fn a_good_record_behind_hundreds_that_fail_comes_in_minutes() {
    tokio::time::pause();
    for timeout in [None, Some(SECOND), Some(Duration::ZERO)] {
        let policy = with_the_longest_rests(timeout);
        let running = Running::start(takes_all_but_the_first(), policy, BAD + 1);
        let began = Instant::now();
        running
            .until("the good one", |it| it.pipeline.accepted() == 1)
            .await;
        // The row of 30 s, and nine or ten rests.
        let took = began.elapsed();
        assert!(took < 240 * SECOND, "{took:?} with {timeout:?}");
        running
            .until("the end", |it| it.shown().outage.is_none())
            .await;
        assert_eq!(running.shown().outages, 1, "with {timeout:?}");
        assert!(running.most_deliveries(BAD) <= 2, "with {timeout:?}");
    }
}

/// One that says once that it is unavailable as a whole does not stop it.
#[actix::test]
async fn a_good_record_comes_in_minutes_though_the_sink_was_unavailable_for_a_moment() {
    tokio::time::pause();
    let began = Instant::now();
    let was_away = AtomicUsize::new(0);
    let sink = FakeSinkFactory::new(move |record, _| match record.offset {
        500.. => Act::Deliver,
        _ if began.elapsed() > 40 * SECOND && was_away.fetch_add(1, Ordering::SeqCst) == 0 => {
            Act::Fail(SinkError::Unavailable("a moment".into()))
        }
        _ => Act::Fail(SinkError::Retry("bad gateway".into())),
    });
    let running = Running::start(sink, with_the_longest_rests(None), BAD + 1);
    running
        .until("the good one", |it| it.pipeline.accepted() == 1)
        .await;
    let took = began.elapsed();
    assert!(took > 40 * SECOND && took < 280 * SECOND, "{took:?}");
    assert!(running.most_deliveries(BAD) <= 1);
}

/// Each good one tells that it is they that fail.
#[actix::test]
async fn hundreds_that_fail_go_their_way_by_the_retry_timeout_while_others_are_delivered() {
    tokio::time::pause();
    let policy = with_the_longest_rests(Some(SECOND));
    let running = Running::start(takes_all_but_the_first(), policy, BAD);
    let began = Instant::now();
    while running.count(Fate::Rejected) < BAD {
        running.pipeline.source.append(0, b"good");
        tokio::time::sleep(5 * SECOND).await;
        assert!(began.elapsed() < 7200 * SECOND, "{:?}", running.shown());
    }
    assert_eq!(running.count(Fate::Archived), 0);
    let good = |it: &Running| it.shown().in_flight == 0;
    running.until("all are answered for", good).await;
    assert_eq!(running.count(Fate::Rejected), BAD);
}

/// What is in hand is tried on, each after its own back-off, and is all that
/// the window holds.
#[actix::test]
async fn an_outage_is_asked_no_more_often_than_each_record_in_hand_may_be_tried() {
    const WINDOW: usize = 300;
    tokio::time::pause();
    let policy = Policy {
        max_in_flight_records: Some(WINDOW),
        ..with_the_longest_rests(None)
    };
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSinkFactory::new(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        Act::Retry
    });
    let running = Running::start(sink, policy, 10 * WINDOW);
    running
        .until("a full window", |it| it.shown().in_flight >= WINDOW)
        .await;
    tokio::time::sleep(400 * SECOND).await;
    let before = tries.load(Ordering::SeqCst);
    let (minutes, half_a_rest) = (10, 30 * SECOND);
    tokio::time::sleep(minutes * 60 * SECOND).await;
    let tried = tries.load(Ordering::SeqCst) - before;
    let most = WINDOW as u32 * (minutes * 60 * SECOND).div_duration_f64(half_a_rest) as u32;
    assert!(tried <= most as usize, "{tried} of at most {most}");
    assert!(tried >= WINDOW * minutes as usize / 2, "{tried}");
    assert_eq!(running.shown().in_flight, WINDOW);
    assert_eq!(running.most_deliveries(10 * WINDOW), 1);
}

/// It never has as many in hand as an outage takes otherwise.
#[actix::test]
async fn an_outage_behind_a_small_window_costs_no_attempt() {
    tokio::time::pause();
    for window in [4, 8, 15] {
        let end = Instant::now() + 120 * SECOND;
        let sink = FakeSinkFactory::new(move |_, _| match Instant::now() < end {
            true => Act::Retry,
            false => Act::Deliver,
        });
        let policy = Policy {
            max_in_flight_records: Some(window),
            ..retrying(Some(Duration::ZERO))
        };
        let running = Running::start(sink, policy, RECORDS);
        let case = format!("a window of {window}");
        running.until(&case, |it| it.shown().outage.is_some()).await;
        running
            .until(&case, |it| it.pipeline.accepted() == RECORDS)
            .await;
        assert!(running.most_deliveries(RECORDS) <= 2, "{case}");
        assert_eq!(running.shown().outages, 1, "{case}");
    }
}

#[actix::test]
async fn hundreds_that_fail_on_do_not_delay_a_new_one_once_another_was_taken() {
    tokio::time::pause();
    let policy = with_the_longest_rests(None);
    let running = Running::start(takes_all_but_the_first(), policy, BAD + 1);
    for delivered in 1..30 {
        let began = Instant::now();
        running
            .until("delivered", |it| it.pipeline.accepted() == delivered)
            .await;
        let took = began.elapsed();
        assert!(delivered == 1 || took < SECOND, "{took:?}: {delivered}");
        tokio::time::sleep(SECOND).await;
        running.pipeline.source.append(0, b"good");
    }
    assert_eq!(running.shown().outages, 1);
}
