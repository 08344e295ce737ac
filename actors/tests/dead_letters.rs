//! The laws of records that are put aside, with fakes and a paused clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sluice_actors::books::Tolerance;
use sluice_actors::live_view::{ConnectorState, ConnectorView};
use sluice_actors::outcome::Stage;
use sluice_actors::ports::converter::{ConvertError, Converter};
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;
use sluice_actors::testing::{
    Act, AsTheyAre, FakeDeadLetters, FakeSinkFactory, Fate, Post, TestPipeline,
    conversion_of_values, policy, spec,
};
use sluice_actors::value::Datum;
use tokio::time::Instant;

const LOCK: Duration = Duration::from_secs(1);

/// Refuses `poison`.
struct Picky;

impl Converter for Picky {
    fn to_datum(&self, topic: &str, bytes: Option<&Bytes>) -> Result<Datum, ConvertError> {
        match bytes.map(Bytes::as_ref) {
            Some(b"poison") => Err(ConvertError("not to my taste".into())),
            _ => Converter::to_datum(&AsTheyAre, topic, bytes),
        }
    }
}

/// Refuses offset 5.
struct Fussy;

impl Transform for Fussy {
    fn apply(&self, record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        match record.offset {
            5 => Err(ConvertError("not five".into())),
            _ => Ok(Some(record)),
        }
    }
}

struct Running {
    test: TestPipeline,
    queue: FakeDeadLetters,
    sink: FakeSinkFactory,
}

impl Running {
    fn view(&self) -> ConnectorView {
        self.test.view.connector("test").unwrap_or_default()
    }

    fn accepted(&self) -> usize {
        self.test.accepted()
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let since = Instant::now();
        while !done(self) {
            let in_time = since.elapsed() < Duration::from_secs(120);
            assert!(in_time, "never: {what}; {:?}", self.view());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn until_accepted(&self, records: usize) {
        self.until("accepted", |running| running.accepted() == records)
            .await;
    }
}

/// A connector over so many records; the sink rejects those of `bad`.
fn start(
    records: usize,
    bad: fn(i64) -> bool,
    plan: impl Fn(i64, usize) -> Post + Send + Sync + 'static,
) -> Running {
    tokio::time::pause();
    let queue = FakeDeadLetters::new(move |letter, before| plan(letter.record.offset, before));
    let sink = FakeSinkFactory::new(move |record, _| match bad(record.offset) {
        true => Act::Reject,
        false => Act::Deliver,
    });
    let mut conversion = conversion_of_values(Picky);
    conversion.transforms = vec![Arc::new(Fussy)];
    let mut spec = spec(
        policy(4, Tolerance::All),
        conversion,
        Arc::new(sink.clone()),
    );
    spec.dead_letters = Some(Arc::new(queue.clone()));
    Running {
        test: TestPipeline::start(spec, &[records], LOCK),
        queue,
        sink,
    }
}

#[actix::test]
async fn what_each_stage_rejects_is_put_aside_and_the_rest_delivered() {
    let running = start(100, |offset| offset == 7, |_, _| Post::Keep);
    let poison = running.test.source.append(0, b"poison");
    running.until_accepted(101).await;
    let kept = running.queue.kept();
    assert_eq!(kept.len(), 3);
    for (offset, stage, cause) in [
        (poison, Stage::ValueConverter, "not to my taste"),
        (5, Stage::Transformation, "not five"),
        (7, Stage::TaskPut, "by plan"),
    ] {
        let letter = kept.iter().find(|it| it.record.offset == offset).unwrap();
        assert_eq!(letter.rejection.stage, stage);
        assert_eq!(&*letter.rejection.cause, cause);
        let original = letter.original.as_ref().unwrap();
        assert_eq!(original.offset, offset);
        assert_eq!(
            original.value.is_some(),
            offset == poison,
            "as it lay there"
        );
    }
    assert_eq!(running.sink.seen().delivered.lock().len(), 98);
    running
        .until("counted", |it| it.view().totals.accepted == 98)
        .await;
    let view = running.view();
    assert_eq!((view.totals.rejected, view.in_flight), (3, 0));
    assert_eq!((view.errors.rejected, view.errors.skipped), (3, 3));
    assert_eq!((view.delivered, view.letters.requests), (98, 3));
    assert_eq!(view.state, ConnectorState::Running);
}

#[actix::test]
async fn while_letters_fail_their_records_stay_locked_and_the_others_go_on() {
    let running = start(500, |offset| offset % 50 == 0, |_, _| Post::Fail);
    // And the one that the transform refuses.
    running.until_accepted(489).await;
    let shows = |it: &Running| it.view().trouble().map(|it| &**it) == Some("dead by plan");
    running.until("the trouble shows", shows).await;
    let renewals = running.test.source.renewals();
    running
        .until("locks are renewed for long", |it| {
            it.test.source.renewals() > renewals + 11 * 20
        })
        .await;
    let view = running.view();
    assert_eq!((running.accepted(), view.letters_waiting), (489, 11));
    assert_eq!((view.errors.rejected, view.errors.skipped), (11, 0));
    assert!(view.letters.failures > 11, "{:?}", view.letters);

    running.queue.follow(|_, _| Post::Keep);
    running.until_accepted(500).await;
    assert_eq!(running.queue.kept().len(), 11, "each once");
    assert!((0..500).all(|offset| running.test.source.delivery_count(0, offset) == 1));
    running
        .until("the trouble has passed", |it| it.view().trouble().is_none())
        .await;
}

#[actix::test]
async fn nothing_is_fetched_while_many_records_wait_for_letters_that_fail() {
    let running = start(2000, |_| true, |_, _| Post::Fail);
    let stops = |it: &Running| it.view().window == 0 && it.view().letters_waiting >= 100;
    running.until("it stops", stops).await;
    let all_wait = |it: &Running| it.view().letters_waiting == it.view().in_flight;
    running.until("all that is open waits", all_wait).await;
    let open = running.view().in_flight;
    let told = format!("{open} records wait to be written, so no more are fetched: dead by plan");
    assert_eq!(running.view().trouble().map(|it| &**it), Some(&*told));
    tokio::time::sleep(10 * LOCK).await;
    assert_eq!(running.view().in_flight, open, "no more come");
    assert!(open < 2000, "{open}");
    assert_eq!(running.accepted(), 0);

    running.queue.follow(|_, _| Post::Keep);
    running.until_accepted(2000).await;
    assert_eq!(running.queue.kept().len(), 2000);
}

#[actix::test]
async fn one_letter_that_never_gets_through_holds_up_no_other() {
    let plan = |offset, _| match offset {
        10 => Post::Fail,
        20 => Post::Panic,
        30 => Post::Hang,
        _ => Post::Keep,
    };
    let running = start(1000, |offset| offset % 10 == 0, plan);
    running.until_accepted(997).await;
    running
        .until("three wait", |it| it.view().letters_waiting == 3)
        .await;
    assert_eq!(running.view().generation, 1, "a panic there is no death");
    // The one that hangs is written again when it has taken too long.
    running.queue.follow(|_, _| Post::Keep);
    running.until_accepted(1000).await;
    assert_eq!(running.queue.kept_offsets().len(), 101);
}

#[actix::test]
async fn a_record_that_is_lost_meanwhile_is_put_aside_where_it_comes_again() {
    let running = start(
        20,
        |offset| offset == 7,
        |offset, before| match (offset, before) {
            (7, 0) => Post::KeepAfter(3 * LOCK),
            _ => Post::Keep,
        },
    );
    running.until_accepted(19).await;
    running.test.source.lose_connection();
    running.until_accepted(20).await;
    assert_eq!(running.test.source.delivery_count(0, 7), 2);
    tokio::time::sleep(5 * LOCK).await;
    assert_eq!(running.queue.kept_offsets(), [5, 7, 7], "twice at most");
}

#[actix::test]
async fn a_drain_waits_for_letters() {
    let slow = |_, _| Post::KeepAfter(3 * LOCK);
    let running = start(100, |offset| offset == 7, slow);
    running.until_accepted(98).await;
    let drained = running.test.pipeline.drain(Duration::from_secs(30)).await;
    assert!(drained.clean, "{drained:?}");
    assert_eq!((running.accepted(), drained.released), (100, 0));
    assert_eq!(running.queue.kept_offsets(), [5, 7]);
}

#[actix::test]
async fn a_drain_gives_back_what_has_no_letter_in_time() {
    let running = start(100, |offset| offset == 7, |_, _| Post::Fail);
    running.until_accepted(98).await;
    let drained = running.test.pipeline.drain(Duration::from_secs(4)).await;
    assert_eq!((drained.clean, drained.released), (false, 2));
    for offset in [5, 7] {
        assert_eq!(running.test.source.fate(0, offset), Fate::Available);
    }
}
