//! The laws of records that are parked, with fakes and a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluice_actors::books::Tolerance;
use sluice_actors::credit::Credit;
use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView};
use sluice_actors::parking::ParkingPolicy;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::record::SinkRecord;
use sluice_actors::supervisor::Pipeline;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeParking, FakeSinkFactory, FakeSource, Fate, conversion_of_values, policy,
    spec,
};
use sluice_actors::threads::Threads;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The offset of the record that fails.
const ODD: i64 = 3;
const LOCK: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// What the sink does with records that it does not take.
type Refuses = fn(&SinkRecord) -> Act;

struct Setting {
    records: usize,
    after: Duration,
    span: u64,
    tolerance: Tolerance,
    timeout: Option<Duration>,
    refuses: Refuses,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            records: 500,
            after: 10 * SECOND,
            span: 2000,
            tolerance: Tolerance::None,
            timeout: None,
            refuses: refuses_odd,
        }
    }
}

fn refuses_odd(record: &SinkRecord) -> Act {
    match record.offset {
        ODD => Act::Retry,
        _ => Act::Deliver,
    }
}

fn takes_all(_: &SinkRecord) -> Act {
    Act::Deliver
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Running {
    records: usize,
    source: FakeSource,
    parking: FakeParking,
    sink: FakeSinkFactory,
    refuses: Arc<Mutex<Refuses>>,
    view: Arc<LiveView>,
    pipeline: Pipeline,
    began: Instant,
}

impl Setting {
    /// A record is parked when it fails again after others were delivered.
    fn at_the_second_failure() -> Self {
        Self {
            after: Duration::ZERO,
            ..Self::default()
        }
    }

    fn start(self) -> Running {
        tokio::time::pause();
        let refuses = Arc::new(Mutex::new(self.refuses));
        let now = Arc::clone(&refuses);
        let sink = FakeSinkFactory::new(move |record, _| (*now.lock())(record));
        let credit = Credit::new(1 << 20);
        let (source, events) = FakeSource::start(&credit, &[self.records], LOCK);
        let (parking, joined, events) = FakeParking::beside(source.clone(), events, MINUTE, LOCK);
        let mut policy = policy(4, self.tolerance);
        policy.retry.timeout = self.timeout;
        policy.retry.max_delay = 5 * SECOND;
        policy.parking = Some(ParkingPolicy {
            after: self.after,
            backoff: MINUTE,
            span: self.span,
        });
        let mut spec = spec(
            policy,
            conversion_of_values(AsTheyAre),
            Arc::new(sink.clone()),
        );
        spec.parking = Some(parking.spec());
        let view = LiveView::new();
        let (threads, shown) = (Threads::current(), Arc::clone(&view));
        let pipeline = Pipeline::start(spec, joined, events, credit, threads, shown);
        Running {
            records: self.records,
            source,
            parking,
            sink,
            refuses,
            view,
            pipeline,
            began: Instant::now(),
        }
    }
}

impl Running {
    fn view(&self) -> ConnectorView {
        self.view.connector("test").unwrap_or_default()
    }

    /// Of the records that are there from the start.
    fn accepted(&self) -> usize {
        let firsts = 0..self.records as i64;
        let fates = firsts.map(|offset| self.source.fate(0, offset));
        fates.filter(|fate| *fate == Fate::Accepted).count()
    }

    /// More of them come all the time.
    fn keep_coming(&self) -> AbortOnDrop {
        let source = self.source.clone();
        AbortOnDrop(tokio::spawn(async move {
            loop {
                tokio::time::sleep(SECOND / 2).await;
                source.append(0, b"more");
            }
        }))
    }

    fn set_sink(&self, refuses: Refuses) {
        *self.refuses.lock() = refuses;
    }

    fn mend(&self) {
        self.set_sink(takes_all);
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) -> Duration {
        let since = Instant::now();
        while !done(self) {
            let in_time = since.elapsed() < 10 * MINUTE;
            assert!(in_time, "never: {what}; {:?}", self.view());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.began.elapsed()
    }

    async fn until_parked(&self, times: usize) -> Duration {
        self.until("parked", |it| it.parking.kept().len() == times)
            .await
    }
}

#[actix::test]
async fn a_record_that_fails_for_long_is_parked_and_comes_back_when_it_is_due() {
    let running = Setting::default().start();
    let flow = running.keep_coming();
    let parked = running.until_parked(1).await;
    assert!((10 * SECOND..20 * SECOND).contains(&parked), "{parked:?}");
    running
        .until("accepted", |it| it.source.fate(0, ODD) == Fate::Accepted)
        .await;
    let delivered = |it: &Running| it.sink.seen().delivered.lock().contains(&(0, ODD));
    assert!(!delivered(&running), "accepted, since it is parked");
    running.mend();
    let came = running.until("delivered", delivered).await;
    assert!(
        (MINUTE..MINUTE + 3 * SECOND).contains(&(came - parked)),
        "{came:?}"
    );
    let settled = |it: &Running| it.parking.source().fate(0, 0) == Fate::Accepted;
    running.until("settled", settled).await;
    assert_eq!(running.parking.source().delivery_count(0, 0), 1);
    drop(flow);
    let all = |it: &Running| it.view().in_flight == 0;
    running.until("all are answered for", all).await;
    let view = running.view();
    let accepted = running.source.count(|fate| fate == Fate::Accepted) as u64;
    assert_eq!(view.totals.parked, 1);
    assert_eq!(view.totals.accepted, accepted - 1 + 1, "and the parked one");
    assert_eq!(view.totals.released + view.totals.lost, 0);
    assert_eq!(view.topics, ["orders".into()], "the connector's own");
}

#[actix::test]
async fn a_record_that_fails_again_is_parked_again_and_keeps_its_name() {
    let running = Setting::at_the_second_failure().start();
    let _flow = running.keep_coming();
    let first = running.until_parked(1).await;
    let third = running.until_parked(3).await;
    assert!(
        (2 * MINUTE..2 * MINUTE + 6 * SECOND).contains(&(third - first)),
        "a constant back-off: {first:?} to {third:?}"
    );
    let kept = running.parking.kept();
    for (place, record) in kept.iter().enumerate() {
        assert_eq!(record.record.to_string(), "orders-0@3");
        assert_eq!(record.count as usize, place + 1);
        assert_eq!(record.since, kept[0].since);
    }
    let settled = |it: &Running| it.parking.source().count(|fate| fate == Fate::Accepted) == 2;
    running.until("the others are settled", settled).await;
}

#[actix::test]
async fn a_record_that_pins_its_partition_is_parked_at_once() {
    let running = Setting {
        span: 100,
        after: 10 * MINUTE,
        ..Setting::default()
    }
    .start();
    let flow = running.keep_coming();
    let parked = running.until_parked(1).await;
    assert!((SECOND..3 * SECOND).contains(&parked), "{parked:?}");
    let all = |it: &Running| it.accepted() == 500;
    running.until("all are accepted", all).await;
    let fetched = |it: &Running| it.parking.source().delivery_count(0, 0) == 1;
    running.until("it waits for its time here", fetched).await;
    drop(flow);
    let pins_nothing = |it: &Running| it.view().pins.is_empty() && it.view().in_flight == 1;
    running.until("parked ones pin nothing", pins_nothing).await;
}

fn wants_all_again(_: &SinkRecord) -> Act {
    Act::Retry
}

fn is_away(_: &SinkRecord) -> Act {
    Act::Fail(SinkError::Unavailable("away".into()))
}

/// The sink takes records, then none for minutes, and all in the end.
async fn nothing_is_parked(outages: &[Refuses]) {
    let running = Setting {
        span: 100,
        refuses: takes_all,
        ..Setting::at_the_second_failure()
    }
    .start();
    let flow = running.keep_coming();
    let many = |it: &Running| it.source.count(|fate| fate == Fate::Accepted) >= 510;
    running.until("records are delivered", many).await;
    for outage in outages {
        running.set_sink(*outage);
        tokio::time::sleep(2 * MINUTE).await;
    }
    assert_eq!(running.parking.kept().len(), 0);
    assert_eq!(running.source.count(|fate| fate == Fate::Archived), 0);
    running.mend();
    drop(flow);
    let all = |it: &Running| it.view().in_flight == 0;
    running.until("all are delivered", all).await;
    assert_eq!(running.parking.kept().len(), 0);
    assert_eq!(running.view().totals.released, 0);
}

#[actix::test]
async fn nothing_is_parked_while_no_record_is_taken() {
    nothing_is_parked(&[wants_all_again]).await;
}

#[actix::test]
async fn nothing_is_parked_while_the_sink_is_unavailable() {
    nothing_is_parked(&[is_away]).await;
}

#[actix::test]
async fn nothing_is_parked_while_the_sink_fails_in_one_way_and_in_another() {
    nothing_is_parked(&[wants_all_again, is_away, wants_all_again]).await;
}

#[actix::test]
async fn a_parked_record_is_not_written_again_and_again_in_an_outage() {
    let running = Setting::at_the_second_failure().start();
    let _flow = running.keep_coming();
    running.until_parked(1).await;
    running.set_sink(wants_all_again);
    tokio::time::sleep(5 * MINUTE).await;
    let written = running.parking.kept().len();
    assert!(
        written <= 2,
        "{written} times, though its sink takes nothing"
    );
    running.mend();
    let delivered = |it: &Running| it.sink.seen().delivered.lock().contains(&(0, ODD));
    running.until("it is delivered", delivered).await;
    assert_eq!(running.parking.kept().len(), written);
}

fn takes_the_odd_one_alone(record: &SinkRecord) -> Act {
    match record.offset {
        ODD => Act::Deliver,
        _ => Act::Retry,
    }
}

/// It comes due while the records in hand look like an outage.
#[actix::test]
async fn a_parked_record_is_fetched_though_all_in_hand_fail() {
    let running = Setting::default().start();
    let flow = running.keep_coming();
    running.until_parked(1).await;
    running.set_sink(takes_the_odd_one_alone);
    let is_outage = |it: &Running| it.view().outage.is_some();
    let began = running.until("an outage", is_outage).await;
    assert_eq!(running.parking.source().delivery_count(0, 0), 0);
    drop(flow);
    let delivered = |it: &Running| it.sink.seen().delivered.lock().contains(&(0, ODD));
    let came = running.until("it is delivered", delivered).await;
    assert!(came - began < 2 * MINUTE, "{came:?}");
}

/// It can be delivered, but not be written: too large, perhaps.
#[actix::test]
async fn a_record_that_cannot_be_parked_goes_back_to_its_sink() {
    let running = Setting::at_the_second_failure().start();
    let _flow = running.keep_coming();
    running.parking.set_away(true);
    let told = |it: &Running| it.view().trouble().map(|it| &**it) == Some("away by plan");
    running.until("the trouble is told", told).await;
    running.mend();
    let taken = |it: &Running| it.source.fate(0, ODD) == Fate::Accepted;
    running.until("its sink takes it", taken).await;
    let over = |it: &Running| it.view().trouble().is_none();
    running.until("the trouble is over", over).await;
    assert_eq!(running.view().totals.parked, 0);
}

#[actix::test]
async fn a_parked_record_that_cannot_be_written_shuts_no_other_out() {
    let running = Setting::at_the_second_failure().start();
    let _flow = running.keep_coming();
    running.until_parked(1).await;
    // Another one, when the first is there already.
    running.set_sink(|record| match record.offset {
        ODD | 600 => Act::Retry,
        _ => Act::Deliver,
    });
    let both = |it: &Running| it.parking.kept().iter().any(|it| it.record.offset == 600);
    running.until("both are parked", both).await;
    let place = running.parking.kept().len() as i64 - 1;
    running.parking.set_away(true);
    running.set_sink(refuses_odd);
    let second = |it: &Running| it.parking.source().fate(0, place) == Fate::Accepted;
    running.until("it comes back and is taken", second).await;
    let held = running.parking.source().fate(0, place - 1);
    assert!(matches!(held, Fate::Acquired { .. }), "{held:?}");
    assert!(running.view().trouble().is_some());
}

#[actix::test]
async fn a_record_is_not_accepted_before_it_is_parked() {
    let running = Setting::at_the_second_failure().start();
    let _flow = running.keep_coming();
    running.parking.set_away(true);
    let told = |it: &Running| it.view().trouble().is_some() && it.accepted() == 499;
    running.until("it cannot be parked", told).await;
    tokio::time::sleep(MINUTE).await;
    let view = running.view();
    assert_eq!(view.trouble().map(|it| &**it), Some("away by plan"));
    assert_eq!((view.totals.parked, view.totals.lost), (0, 0));
    assert!(matches!(running.source.fate(0, ODD), Fate::Acquired { .. }));
    running.parking.set_away(false);
    let parked = |it: &Running| it.view().totals.parked == 1;
    running.until("parked", parked).await;
    assert_eq!(running.view().trouble(), None);
}

#[actix::test]
async fn a_record_that_is_written_and_not_accepted_is_parked_once_more_and_never_lost() {
    let running = Setting::at_the_second_failure().start();
    let flow = running.keep_coming();
    // Nothing that is settled is heard.
    running.source.hold_answers(true);
    running.until_parked(1).await;
    running.source.lose_connection();
    running.source.hold_answers(false);
    running.until_parked(2).await;
    drop(flow);
    let all = |it: &Running| it.accepted() == 500;
    running.until("all are accepted", all).await;
    let kept = running.parking.kept();
    let parked = kept.iter().map(|it| (it.record.offset, it.count));
    assert_eq!(parked.collect::<Vec<_>>(), [(ODD, 1), (ODD, 1)]);
    running.mend();
    let done = |it: &Running| it.parking.source().count(|fate| fate == Fate::Accepted) == 2;
    running.until("both are delivered", done).await;
    assert_eq!(running.parking.kept().len(), 2);
}

async fn given_up(tolerance: Tolerance) -> Running {
    let running = Setting {
        timeout: Some(150 * SECOND),
        tolerance,
        ..Setting::at_the_second_failure()
    }
    .start();
    let flow = running.keep_coming();
    let rejected = |it: &Running| it.view().errors.rejected == 1;
    running.until("it is given up", rejected).await;
    drop(flow);
    assert_eq!(running.parking.kept().len(), 2);
    running
}

#[actix::test]
async fn a_parked_record_whose_time_is_over_is_put_aside() {
    let running = given_up(Tolerance::All).await;
    let settled = |it: &Running| it.parking.source().fate(0, 1) == Fate::Rejected;
    running.until("rejected where it lay", settled).await;
}

#[actix::test]
async fn a_parked_record_whose_time_is_over_fails_its_connector_as_what_it_was() {
    let running = given_up(Tolerance::None).await;
    let cause = "record orders-0@3: TASK_PUT: parked 2 times, with no time left to retry: by plan";
    let failed = |it: &Running| it.view().state == ConnectorState::Failed(cause.into());
    running.until("the state tells", failed).await;
    tokio::time::sleep(MINUTE).await;
    let held = running.parking.source().fate(0, 1);
    assert!(matches!(held, Fate::Acquired { .. }), "{held:?}");
}

#[actix::test]
async fn parked_records_that_are_not_due_hold_no_drain_up_and_lose_no_attempt() {
    let running = Setting::at_the_second_failure().start();
    let flow = running.keep_coming();
    running.until_parked(1).await;
    drop(flow);
    let fetched = |it: &Running| it.parking.source().delivery_count(0, 0) == 1;
    running.until("it waits for its time here", fetched).await;
    let began = Instant::now();
    let drained = running.pipeline.drain(MINUTE).await;
    assert!(drained.clean, "{drained:?}");
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    assert_eq!(drained.released, 0, "it was parked once more");
    assert_eq!(running.parking.kept().len(), 2);
}

static TRIES: AtomicU64 = AtomicU64::new(0);

/// One in fifty, of whichever records.
fn takes_a_few(_: &SinkRecord) -> Act {
    match TRIES.fetch_add(1, Ordering::SeqCst) % 50 {
        0 => Act::Deliver,
        _ => Act::Retry,
    }
}

#[actix::test]
async fn a_partial_outage_is_bounded_in_memory_and_in_tries() {
    const RECORDS: usize = 10_000;
    const ROUNDS: u32 = 5;
    let running = Setting {
        records: RECORDS,
        refuses: takes_a_few,
        ..Setting::default()
    }
    .start();
    let view = Arc::clone(&running.view);
    let most = Arc::<AtomicU64>::default();
    let seen = Arc::clone(&most);
    let _watching = AbortOnDrop(tokio::spawn(async move {
        loop {
            let in_flight = view.connector("test").map_or(0, |it| it.in_flight as u64);
            seen.fetch_max(in_flight, Ordering::SeqCst);
            tokio::time::sleep(SECOND / 10).await;
        }
    }));
    while running.accepted() < RECORDS {
        assert!(
            running.began.elapsed() < 10 * MINUTE,
            "{:?}",
            running.view()
        );
        tokio::time::sleep(SECOND).await;
    }
    let before = most.swap(0, Ordering::SeqCst);
    assert!(before < RECORDS as u64 / 2, "{before} in flight");
    let tries = TRIES.load(Ordering::SeqCst);
    tokio::time::sleep(ROUNDS * MINUTE).await;
    let tries = TRIES.load(Ordering::SeqCst) - tries;
    let delivered = |it: &Running| it.sink.seen().delivered.lock().len();
    let left = RECORDS - delivered(&running);
    let in_flight = most.load(Ordering::SeqCst);
    assert!(in_flight < 1200, "{in_flight} in flight, of {left}");
    // Each of them once in a back-off, or a little less often.
    let (most, least) = (
        RECORDS as u64 * u64::from(ROUNDS),
        left as u64 * u64::from(ROUNDS - 1),
    );
    assert!(
        (least..=most).contains(&tries),
        "{tries} tries, {left} are left"
    );
    running.mend();
    let mended = running.began.elapsed();
    let all = |it: &Running| delivered(it) == RECORDS;
    let end = running.until("all are delivered", all).await;
    assert!(end - mended < 2 * MINUTE, "{:?}", end - mended);
    assert_eq!(running.view().totals.released, 0);
}
