//! What a life keeps.

use std::time::Duration;

use super::*;
use crate::outcome::Stage;
use crate::testing::partition;

const MS: Duration = Duration::from_millis(1);

fn life() -> Arc<Life> {
    let origin = RecordId {
        partition: partition("orders", 0),
        offset: 7,
    };
    Life::begin(Birth {
        place: origin.clone(),
        origin,
        acquisition: 1,
        delivery_count: 1,
        choice: Choice::Sampled,
        trace_id: 0xabc,
        parent: None,
        acquired_at: Instant::now(),
    })
}

const PUT: Step = Step::Put {
    task: 3,
    batch: None,
};

#[test]
fn each_step_begins_where_the_last_one_ended() {
    let (life, now) = (life(), Instant::now());
    life.enter(Step::Acquire, now);
    life.enter(Step::Convert, now + MS);
    life.enter(PUT, now + 3 * MS);
    life.note(Event::Delivered, now + 4 * MS);
    let finished = life.end(End::Confirmed, now + 9 * MS);
    let times = finished.steps.iter().map(|it| (it.began, it.ended));
    let at = |from: u32, to: u32| (now + from * MS, now + to * MS);
    assert_eq!(times.collect::<Vec<_>>(), [at(0, 1), at(1, 3), at(3, 9)]);
    assert_eq!(finished.ended_at, now + 9 * MS);
    assert_eq!(finished.steps[2].events, [(now + 4 * MS, Event::Delivered)]);
}

#[test]
fn no_step_ends_before_it_began() {
    let (life, now) = (life(), Instant::now() + MS);
    life.enter(Step::Queue, now);
    life.enter(PUT, now - MS);
    life.note(Event::Delivered, now - MS);
    let finished = life.end(End::Confirmed, now - MS);
    assert!(finished.steps.iter().all(|it| it.began <= it.ended));
    assert_eq!(finished.steps[1].events[0].0, now);
}

#[test]
fn the_span_of_a_put_is_known_while_it_runs() {
    let (life, now) = (life(), Instant::now());
    assert_eq!(life.current(), life.context);
    life.enter(PUT, now);
    let put = life.current();
    assert_ne!(put.span_id, life.context.span_id);
    assert_eq!((put.trace_id, put.is_sampled), (0xabc, true));
    life.enter(Step::Settle(Settlement::Accept), now);
    assert_ne!(life.current(), put);
    let finished = life.end(End::Confirmed, now);
    assert_eq!(finished.steps[0].span_id, put.span_id);
}

#[test]
fn a_record_that_is_held_for_long_keeps_its_first_and_last_steps() {
    let (life, now) = (life(), Instant::now());
    life.enter(Step::Acquire, now);
    for _ in 0..1000 {
        life.enter(PUT, now);
        for _ in 0..3 {
            life.note(Event::Retry("busy".into()), now);
        }
    }
    (0..1000).for_each(|_| life.note(Event::Renewed, now));
    life.note(Event::Delivered, now);
    let finished = life.end(End::Confirmed, now);
    assert_eq!((finished.steps.len(), finished.left_out), (MOST, 981));
    assert_eq!(finished.steps[0].step, Step::Acquire);
    let last = &finished.steps[MOST - 1].events;
    assert_eq!((last.len(), last[0].1.name()), (MOST, "retry"));
    assert_eq!(last[MOST - 1].1, Event::Delivered);
}

#[test]
fn an_outcome_is_what_became_of_the_record() {
    let rejected = Event::Rejected(Rejection::new(Stage::TaskPut, "too large"));
    let lived = |steps: &[Step], end: End| {
        let (life, now) = (life(), Instant::now());
        for step in steps {
            life.enter(step.clone(), now);
        }
        life.note(rejected.clone(), now);
        life.end(end, now).outcome()
    };
    let settle = Step::Settle;
    let accept = settle(Settlement::Accept);
    let confirmed = |steps: &[Step]| lived(steps, End::Confirmed);
    assert_eq!(confirmed(&[PUT, accept.clone()]), "accepted");
    assert_eq!(confirmed(&[Step::PutAside, accept.clone()]), "rejected");
    assert_eq!(confirmed(&[Step::Park, accept.clone()]), "parked");
    assert_eq!(confirmed(&[settle(Settlement::Release)]), "released");
    assert_eq!(confirmed(&[settle(Settlement::Reject)]), "rejected");
    assert_eq!(lived(&[accept], End::Unknown("gone".into())), "unknown");
    assert_eq!(lived(&[PUT], End::Lost("gone".into())), "lost");
}

#[test]
fn a_failure_is_a_reason_to_trace_and_a_stopped_task_is_none() {
    let of = |end: &PutEnd| Event::of_end(end).map(|it| (it.name(), it.is_failure()));
    assert_eq!(of(&PutEnd::Answered(Ok(()))), None);
    assert_eq!(of(&PutEnd::Abandoned), Some(("abandoned", false)));
    assert_eq!(of(&PutEnd::TimedOut), Some(("timed_out", true)));
    let down = PutEnd::Answered(Err(SinkError::Unavailable("down".into())));
    assert_eq!(of(&down), Some(("unavailable", true)));
    let one = PutEnd::Answered(Err(SinkError::RejectedOne("which?".into())));
    assert_eq!(of(&one), None, "only one of them");
    let cause = Event::of_end(&down).and_then(|it| it.cause().cloned());
    assert_eq!(cause, Some("down".into()));
}
