//! What the books make of traced records, step by step.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::tests::{batch, books};
use super::super::{Effects, FlushEnd, Notice, Put, PutEnd, Tolerance};
use super::*;
use crate::chunk::Holds;
use crate::life::{End, FinishedLife};
use crate::outcome::Stage;
use crate::ports::sink::SinkError;
use crate::ports::source::{Answer, AnsweredRange, LostRange, Settlement};
use crate::record::{Parked, RawHeader, RecordId};
use crate::sampling::{Sampling, TraceIds};
use crate::terms::Terms;
use crate::testing::{FakeTracer, partition, record};
use crate::trace_context::TRACEPARENT;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// When a batch is taken, converted, and put, after it has come.
const TAKEN: Duration = MS;
const CONVERTED: Duration = Duration::from_millis(5);
const HANDED_OUT: Duration = Duration::from_millis(7);

struct Traced {
    books: Books,
    tracer: Arc<FakeTracer>,
}

impl Traced {
    fn by(sampling: Sampling) -> Self {
        Self::of(books(None, Tolerance::All), sampling)
    }

    fn of(mut books: Books, sampling: Sampling) -> Self {
        let tracer = FakeTracer::new(sampling);
        books.trace_by(tracer.clone());
        Self { books, tracer }
    }

    /// Acquires records, and hands them to task 0, as the actors do.
    fn deliver(&mut self, batch: &AcquiredBatch) -> Put {
        let acquisition = self.books.acquire(batch, &mut Effects::default());
        let lives = self.books.begin_lives(batch, acquisition);
        let now = batch.acquired_at;
        let mut pace = Pace::new(vec!["mask".into()], now + TAKEN);
        pace.enter(Stage::KeyConverter, || now);
        pace.enter(Stage::Transformation, || now + MS);
        pace.leave(now + 4 * MS);
        self.books.pass_time(now + CONVERTED);
        self.books.note_converted(acquisition, &pace);
        let records = batch.records.iter().enumerate().map(|(place, raw)| {
            let mut record = record(&batch.partition, raw.offset, acquisition);
            record.delivery_count = raw.delivery_count;
            record.original = Some(Arc::new(raw.clone()));
            record.life = lives
                .iter()
                .find_map(|(at, life)| (*at == place).then(|| Arc::clone(life)));
            record
        });
        self.books.converted(records.collect(), Holds::default());
        self.books.dispatch(0, now + HANDED_OUT).unwrap()
    }

    fn end(&mut self, put: &Put, end: PutEnd, now: Instant) -> Effects {
        let effects = self.books.put_ended(put.lease, end, false, now);
        self.books.settling(&effects.settle);
        effects
    }

    fn answer(&mut self, effects: &Effects, answer: &Answer, now: Instant) {
        let answered = effects.settle.iter().map(|range| AnsweredRange {
            range: range.clone(),
            answer: answer.clone(),
        });
        self.books.answered(&answered.collect::<Vec<_>>(), now);
    }

    /// What is over, as the actors tell it.
    fn lives(&mut self) -> Vec<FinishedLife> {
        self.books.take_finished().tell(&*self.tracer);
        self.tracer.take_lives()
    }

    /// What was told, as offset and outcome.
    fn told(&mut self) -> Vec<(i64, Choice, &'static str)> {
        let lives = self.lives();
        assert_eq!(
            self.books.traced() + self.tracer.ended(),
            self.tracer.admitted()
        );
        let told = lives.iter().map(|it| {
            assert!(!it.steps.is_empty());
            (it.life.origin.offset, it.life.choice, it.outcome())
        });
        told.collect()
    }
}

fn delivered() -> PutEnd {
    PutEnd::Answered(Ok(()))
}

fn with_parent(batch: &mut AcquiredBatch, place: usize) {
    batch.records[place].headers.push(RawHeader {
        key: Bytes::from_static(TRACEPARENT.as_bytes()),
        value: Some(Bytes::from_static(PARENT.as_bytes())),
    });
}

/// Its steps, and how long after its acquisition each began.
fn told_of(life: &FinishedLife) -> Vec<(Step, Duration)> {
    let came = life.life.acquired_at;
    let steps = life.steps.iter();
    steps.map(|it| (it.step.clone(), it.began - came)).collect()
}

const fn put_by(task: u32) -> Step {
    Step::Put { task, batch: None }
}

/// What all records of a batch go through that is delivered here.
fn until_put() -> Vec<(Step, Duration)> {
    vec![
        (Step::Acquire, Duration::ZERO),
        (Step::Convert, TAKEN),
        (Step::Transform("mask".into()), 2 * MS),
        (Step::Queue, CONVERTED),
        (put_by(0), HANDED_OUT),
    ]
}

#[test]
fn only_records_that_came_before_are_traced_when_none_is_sampled() {
    let mut traced = Traced::by(Sampling::ratio(0.0));
    let mut batch = batch(0..5, 1);
    batch.records[3].delivery_count = 2;
    let put = traced.deliver(&batch);
    assert_eq!(traced.books.traced(), 1);
    let effects = traced.end(&put, delivered(), batch.acquired_at);
    assert!(traced.told().is_empty(), "not answered yet");
    traced.answer(&effects, &Answer::Confirmed, batch.acquired_at);
    assert_eq!(traced.told(), [(3, Choice::Redelivered, "accepted")]);
}

#[test]
fn without_a_tracer_no_life_begins() {
    let mut books = books(None, Tolerance::All);
    let batch = batch(0..5, 2);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    assert!(books.begin_lives(&batch, acquisition).is_empty());
    assert_eq!(books.traced(), 0);
}

#[test]
fn a_record_that_fails_is_traced_from_its_acquisition_on_in_its_producers_trace() {
    let mut traced = Traced::by(Sampling::ratio(0.0).following_parents());
    let mut batch = batch(0..3, 1);
    with_parent(&mut batch, 1);
    let put = traced.deliver(&batch);
    put.report.reject(1, "too large");
    let now = batch.acquired_at + SECOND;
    let effects = traced.end(&put, delivered(), now);
    let trace = effects.put_aside[0].trace.unwrap();
    assert_eq!(format!("{:032x}", trace.trace_id), PARENT[3..35]);
    traced.answer(&effects, &Answer::Confirmed, now);
    let lives = traced.lives();
    assert_eq!(lives.len(), 1);
    let (life, steps) = (&lives[0].life, &lives[0].steps);
    assert_eq!((life.choice, life.origin.offset), (Choice::Failed, 1));
    assert_eq!(life.context.trace_id, trace.trace_id);
    assert_eq!(life.acquired_at, batch.acquired_at);
    let settle = (Step::Settle(Settlement::Reject), SECOND);
    assert_eq!(told_of(&lives[0]), [until_put(), vec![settle]].concat());
    assert_eq!(steps[4].events[0].1.name(), "rejected");
}

#[test]
fn each_try_is_a_put_and_the_wait_before_it_is_seen() {
    let mut traced = Traced::by(Sampling::ratio(0.0));
    let batch = batch(0..1, 1);
    let put = traced.deliver(&batch);
    assert!(put.chunk[0].life.is_none(), "not chosen yet");
    let down = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    traced.end(&put, down, batch.acquired_at + SECOND);
    let later = batch.acquired_at + 9 * SECOND;
    let again = traced.books.dispatch(4, later).unwrap();
    let context = again.chunk[0].trace_context().unwrap();
    let effects = traced.end(&again, delivered(), later + SECOND);
    traced.answer(&effects, &Answer::Confirmed, later + 2 * SECOND);
    let lives = traced.lives();
    let again = [
        (Step::Queue, SECOND),
        (put_by(4), 9 * SECOND),
        (Step::Settle(Settlement::Accept), 10 * SECOND),
    ];
    assert_eq!(told_of(&lives[0]), [until_put(), again.into()].concat());
    assert_eq!(
        lives[0].steps[6].span_id, context.span_id,
        "as the sink saw it"
    );
}

#[test]
fn a_record_that_took_long_is_told_whole_once_the_broker_has_answered() {
    let mut traced = Traced::by(Sampling::ratio(0.0).with_slow(Some(SECOND)));
    let mut batch = batch(0..3, 1);
    with_parent(&mut batch, 1);
    let (put, came) = (traced.deliver(&batch), batch.acquired_at);
    put.report.delivered(0);
    let quick = traced.books.reported(put.lease, came + SECOND / 2);
    traced.books.settling(&quick.settle);
    traced.answer(&quick, &Answer::Confirmed, came + SECOND);
    put.report.delivered(1);
    let slow = traced.books.reported(put.lease, came + SECOND / 2);
    traced.books.settling(&slow.settle);
    traced.answer(&slow, &Answer::Confirmed, came + 2 * SECOND);
    let lives = traced.lives();
    assert_eq!(lives.len(), 1, "the first one took no longer than a second");
    let life = &lives[0].life;
    assert_eq!((life.choice, life.origin.offset), (Choice::Slow, 1));
    let trace_id = format!("{:032x}", life.context.trace_id);
    assert_eq!(trace_id, PARENT[3..35], "though the record is gone");
    let settle = (Step::Settle(Settlement::Accept), SECOND / 2);
    assert_eq!(told_of(&lives[0]), [until_put(), vec![settle]].concat());
    let events = &lives[0].steps[4].events;
    assert_eq!(events[..], [(came + SECOND / 2, Event::Delivered)]);
    assert_eq!(lives[0].ended_at, came + 2 * SECOND);
}

#[test]
fn a_record_that_waited_long_for_its_flush_is_told_with_it() {
    let mut traced = Traced::by(Sampling::ratio(0.0).with_slow(Some(SECOND)));
    let batch = batch(0..1, 1);
    let (put, came) = (traced.deliver(&batch), batch.acquired_at);
    let buffered = came + SECOND / 4;
    traced
        .books
        .put_ended(put.lease, delivered(), true, buffered);
    let flushed = FlushEnd::Answered(Ok(()));
    let end = came + 3 * SECOND;
    let effects = traced.books.flushed(&[put.lease], &flushed, end);
    traced.books.settling(&effects.settle);
    traced.answer(&effects, &Answer::Confirmed, end);
    let own = [
        (Step::Flush, SECOND / 4),
        (Step::Settle(Settlement::Accept), 3 * SECOND),
    ];
    let lives = traced.lives();
    assert_eq!(told_of(&lives[0]), [until_put(), own.into()].concat());
}

#[test]
fn a_slow_record_that_came_to_no_put_is_told_as_far_as_it_came() {
    for settlement in [Settlement::Accept, Settlement::Release] {
        let mut traced = Traced::by(Sampling::ratio(0.0).with_slow(Some(SECOND)));
        let batch = batch(0..1, 1);
        let put = traced.deliver(&batch);
        let came = batch.acquired_at;
        traced.end(&put, PutEnd::Abandoned, came + SECOND);
        let mut effects = Effects::default();
        traced.books.pass_time(came + 2 * SECOND);
        match settlement {
            Settlement::Accept => {
                let one = std::iter::once(entry(&put.chunk[0]));
                traced.books.filtered(one, &mut effects);
            }
            _ => effects = traced.books.release_rest(came + 2 * SECOND).0,
        }
        traced.books.settling(&effects.settle);
        traced.answer(&effects, &Answer::Confirmed, came + 2 * SECOND);
        let mut expected = until_put();
        expected.pop();
        if settlement == Settlement::Accept {
            expected.pop();
        }
        expected.push((Step::Settle(settlement), 2 * SECOND));
        assert_eq!(told_of(&traced.lives()[0]), expected);
    }
}

#[test]
fn what_is_kept_of_a_batch_goes_with_the_last_of_its_records() {
    let slow = Sampling::ratio(0.0).with_slow(Some(3600 * SECOND));
    let mut traced = Traced::by(slow);
    for offset in 0..10 {
        let batch = batch(offset..offset + 1, 1);
        let put = traced.deliver(&batch);
        let effects = traced.end(&put, delivered(), batch.acquired_at);
        assert_eq!(traced.books.journal.passages.len(), 1);
        traced.answer(&effects, &Answer::Confirmed, batch.acquired_at);
        traced.books.watch_locks(batch.acquired_at);
        assert_eq!(traced.books.journal.passages.len(), 0);
    }
}

#[test]
fn a_parked_record_is_traced_by_where_it_came_from() {
    let mut traced = Traced::by(Sampling::ratio(0.0));
    let now = Instant::now();
    let origin = RecordId {
        partition: partition("orders", 2),
        offset: 77,
    };
    let mut parked = AcquiredBatch {
        partition: partition("parking", 0),
        ..batch(5..6, 1)
    };
    parked.records[0].parked = Some(Arc::new(Parked {
        origin: origin.clone(),
        place: RecordId {
            partition: Arc::clone(&parked.partition),
            offset: 5,
        },
        count: 1,
        since: now,
        due: now,
    }));
    let acquisition = traced.books.acquire(&parked, &mut Effects::default());
    let lives = traced.books.begin_lives(&parked, acquisition);
    let life = &lives[0].1;
    let id = TraceIds::of(&origin.partition).id(77);
    assert_eq!((life.context.trace_id, &life.origin), (id, &origin));
    assert_eq!(life.place.to_string(), "parking-0@5");
}

#[test]
fn a_record_that_cannot_be_converted_is_traced() {
    let mut traced = Traced::by(Sampling::ratio(0.0));
    let batch = batch(0..1, 1);
    let acquisition = traced.books.acquire(&batch, &mut Effects::default());
    traced.books.begin_lives(&batch, acquisition);
    let entry = Entry {
        partition: &batch.partition,
        offset: 0,
        acquisition,
    };
    let rejection = Rejection::new(Stage::ValueConverter, "no JSON");
    let (raw, holds) = (&batch.records[0], Holds::default());
    let mut effects = Effects::default();
    let books = &mut traced.books;
    books.unconverted(entry, raw, &rejection, &holds, &mut effects);
    books.settling(&effects.settle);
    traced.answer(&effects, &Answer::Confirmed, batch.acquired_at);
    assert_eq!(traced.told(), [(0, Choice::Failed, "rejected")]);
}

#[test]
fn what_is_logged_of_a_record_says_where_it_is_in_its_trace() {
    let no_time = Some(Duration::ZERO);
    let sampling = Sampling::ratio(0.0);
    let mut traced = Traced::of(books(no_time, Tolerance::None), sampling);
    let id = |place| TraceIds::of(&partition("orders", 0)).id(place);
    let batch = batch(0..3, 3);
    let put = traced.deliver(&batch);
    put.report.retry(0, "busy");
    put.report.reject(1, "too large");
    let effects = traced.end(&put, PutEnd::Abandoned, batch.acquired_at);
    let Some(Notice::Releasing(alike)) = effects.notices.first() else {
        panic!("{effects:?}");
    };
    assert_eq!(alike.trace.map(|it| it.trace_id), Some(id(0)));
    let failure = effects.failure.unwrap().trace;
    assert_eq!(failure.map(|it| it.trace_id), Some(id(1)));
    traced.books.set_terms(Terms::new(3, 2000));
    let near = traced.books.near_limit().unwrap();
    assert_eq!(near.trace, traced.books.trace_at(&near.example));
    assert!(near.trace.is_some());
}

#[test]
fn records_of_one_put_have_a_span_together_with_links_to_theirs() {
    let mut traced = Traced::by(Sampling::ratio(0.0));
    let mut batch = batch(0..4, 1);
    batch.records[1].delivery_count = 2;
    batch.records[2].delivery_count = 3;
    let put = traced.deliver(&batch);
    let own: Vec<_> = put
        .chunk
        .iter()
        .filter_map(|it| it.trace_context())
        .collect();
    let together = put.chunk[1].life.as_ref().unwrap().batch().unwrap();
    traced.end(&put, delivered(), batch.acquired_at + SECOND);
    traced.books.take_finished().tell(&*traced.tracer);
    let puts = traced.tracer.take_puts();
    assert_eq!(puts.len(), 1);
    assert_eq!((puts[0].context, puts[0].records), (together, 4));
    assert_eq!((&puts[0].links, own.len()), (&own, 2));
    assert_eq!(puts[0].ended - puts[0].began, SECOND - HANDED_OUT);
    assert!(own.iter().all(|it| it.trace_id != together.trace_id));
}

#[test]
fn a_life_ends_with_its_lock_and_with_an_unknown_answer() {
    let mut traced = Traced::by(Sampling::ratio(1.0));
    let batch = batch(0..3, 1);
    let now = batch.acquired_at;
    let put = traced.deliver(&batch);
    put.report.delivered(0);
    let effects = traced.books.reported(put.lease, now);
    traced.books.settling(&effects.settle);
    let unknown = Answer::Unknown {
        cause: "timed out".into(),
    };
    traced.answer(&effects, &unknown, now);
    let lost = LostRange {
        partition: Arc::clone(&batch.partition),
        first_offset: 0,
        last_offset: 1,
        cause: "connection lost".into(),
    };
    traced.books.lost(&[lost], now);
    let sampled = Choice::Sampled;
    assert_eq!(
        traced.told(),
        [(0, sampled, "unknown"), (1, sampled, "lost")]
    );
    traced.books.watch_locks(batch.lock_deadline);
    assert_eq!(traced.told(), [(2, sampled, "lost")], "expired");
    let late = traced.end(&put, delivered(), batch.lock_deadline);
    assert!(late.settle.is_empty() && traced.books.traced() == 0);
}

#[test]
fn an_answer_to_an_older_delivery_ends_no_life() {
    let mut traced = Traced::by(Sampling::ratio(1.0));
    let first = batch(0..1, 1);
    let put = traced.deliver(&first);
    let effects = traced.end(&put, delivered(), first.acquired_at);
    traced.deliver(&batch(0..1, 2));
    assert_eq!(
        traced.told(),
        [(0, Choice::Sampled, "lost")],
        "acquired again"
    );
    traced.answer(&effects, &Answer::Confirmed, first.acquired_at);
    assert_eq!((traced.told().len(), traced.books.traced()), (0, 1));
}

#[test]
fn renewals_are_seen_in_the_step_that_they_are_for() {
    let mut traced = Traced::by(Sampling::ratio(1.0));
    let batch = batch(0..1, 1);
    let put = traced.deliver(&batch);
    let near_its_end = batch.lock_deadline - SECOND;
    let renewing = traced.books.watch_locks(near_its_end);
    traced.books.settling(&renewing.settle);
    let renewed = Answer::Renewed {
        lock_deadline: near_its_end + 30 * SECOND,
    };
    traced.answer(&renewing, &renewed, near_its_end);
    let effects = traced.end(&put, delivered(), near_its_end + SECOND);
    traced.answer(&effects, &Answer::Confirmed, near_its_end + SECOND);
    let lives = traced.lives();
    let put = &lives[0].steps[lives[0].steps.len() - 2];
    let events: Vec<_> = put.events.iter().map(|(_, it)| it.name()).collect();
    assert_eq!(events, ["renewing", "renewed", "delivered"]);
}

#[test]
fn whoever_is_left_at_the_end_is_told() {
    let mut traced = Traced::by(Sampling::ratio(1.0));
    traced.deliver(&batch(0..2, 1));
    drop(traced.books);
    let lives = traced.tracer.take_lives();
    assert_eq!(lives.len(), 2);
    assert!(matches!(lives[0].end, End::Unknown(_)));
}

#[test]
fn a_tracer_without_room_traces_no_more() {
    let mut traced = Traced::by(Sampling::ratio(1.0));
    traced.tracer.set_room(2);
    let batch = batch(0..5, 1);
    let put = traced.deliver(&batch);
    let busy = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    traced.end(&put, busy, batch.acquired_at);
    assert_eq!((traced.books.traced(), traced.tracer.admitted()), (2, 2));
    let (at_first, later) = (3, 3);
    assert_eq!(
        traced.tracer.without_room(),
        at_first + later,
        "all are counted"
    );
}
