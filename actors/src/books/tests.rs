//! What the books answer, step by step.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Alike, Books, Effects, Notice, Policy, PutAside, PutEnd, Retriable, Tolerance, entry};
use crate::chunk::Holds;
use crate::credit::Credit;
use crate::intake::RawBatch;
use crate::ledger::Entry;
use crate::outcome::{Outcome, Rejection, Stage};
use crate::ports::sink::SinkError;
use crate::ports::source::{LostRange, Settlement};
use crate::record::{AcquiredBatch, CorruptRange, RawRecord};
use crate::retry::RetryPolicy;
use crate::terms::Terms;
use crate::testing::{partition, raw_record, record};

const LOCK: Duration = Duration::from_secs(30);

pub(super) fn books(retry_timeout: Option<Duration>, tolerance: Tolerance) -> Books {
    let policy = Policy {
        tolerance,
        retry: RetryPolicy {
            timeout: retry_timeout,
            max_delay: Duration::from_secs(1),
        },
        retriable: Retriable::Hold,
        terms: Terms::new(5, 2000),
        max_put_records: 10,
        tasks: 1,
        max_in_flight_records: None,
        parking: None,
    };
    Books::new(policy, Credit::new(1000))
}

pub(crate) fn batch(offsets: std::ops::Range<i64>, delivery_count: u16) -> AcquiredBatch {
    let now = Instant::now();
    AcquiredBatch {
        partition: partition("orders", 0),
        records: offsets
            .map(|offset| RawRecord {
                delivery_count,
                ..raw_record(offset)
            })
            .collect(),
        corrupt: Vec::new(),
        strays: Vec::new(),
        lock_deadline: now + LOCK,
        lock: LOCK,
        acquired_at: now,
        held: Credit::new(10).hold(0),
    }
}

/// Acquires and queues records, and hands them to task 0.
pub(super) fn deliver(
    books: &mut Books,
    offsets: std::ops::Range<i64>,
    delivery_count: u16,
) -> super::Put {
    let batch = batch(offsets.clone(), delivery_count);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    let records = offsets
        .map(|offset| {
            let mut record = record(&batch.partition, offset, acquisition);
            record.delivery_count = delivery_count;
            record
        })
        .collect();
    books.converted(records, Holds::default());
    books.dispatch(0, Instant::now()).unwrap()
}

pub(super) fn ranges(effects: &Effects) -> Vec<(i64, i64, Settlement)> {
    let range =
        |r: &crate::ports::source::SettleRange| (r.first_offset, r.last_offset, r.settlement);
    effects.settle.iter().map(range).collect()
}

#[test]
fn a_puts_answer_settles_what_has_no_outcome_yet_in_one_range() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..10, 1);
    put.report.delivered(9);
    let outcomes = put.report.take();
    let now = Instant::now();
    let first = books.outcomes(put.lease, outcomes, now);
    assert_eq!(ranges(&first), [(9, 9, Settlement::Accept)]);
    let rest = books.put_ended(put.lease, PutEnd::Answered(Ok(())), false, now);
    assert_eq!(ranges(&rest), [(0, 8, Settlement::Accept)]);
    assert!(books.puts.leases(None).is_empty());
}

#[test]
fn a_retry_past_its_time_is_released() {
    let mut books = books(Some(Duration::ZERO), Tolerance::None);
    let put = deliver(&mut books, 0..2, 4);
    let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    let effects = books.put_ended(put.lease, end, false, Instant::now());
    assert_eq!(ranges(&effects), [(0, 1, Settlement::Release)]);
    let told = Alike {
        records: 2,
        example: put.chunk[0].id(),
        cause: "busy".into(),
        trace: None,
    };
    assert_eq!(effects.notices, [Notice::Releasing(told)]);
}

#[test]
fn on_its_last_attempt_it_is_held_and_tried_on() {
    let mut books = books(Some(Duration::ZERO), Tolerance::None);
    let put = deliver(&mut books, 0..2, 5);
    let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    let effects = books.put_ended(put.lease, end, false, Instant::now());
    assert!(effects.settle.is_empty());
    assert!(effects.work);
    assert_eq!(books.queue().waiting(), 2);
}

#[test]
fn on_its_last_attempt_it_is_put_aside_if_that_is_tolerated_and_its_time_is_over() {
    let minute = Duration::from_secs(60);
    let mut books = books(Some(minute), Tolerance::All);
    let put = deliver(&mut books, 0..2, 5);
    let busy = || PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    let now = Instant::now();
    let effects = books.put_ended(put.lease, busy(), false, now);
    assert!(effects.settle.is_empty(), "there is time left");
    let late = now + minute;
    let again = books.dispatch(0, late).unwrap();
    let effects = books.put_ended(again.lease, busy(), false, late);
    assert_eq!(ranges(&effects), [(0, 1, Settlement::Reject)]);
    let PutAside {
        record, rejection, ..
    } = &effects.put_aside[1];
    assert_eq!(record.offset, 1);
    assert!(rejection.cause.ends_with("no time left to retry: busy"));
    assert_eq!(books.errors().skipped, 2);
}

#[test]
fn what_takes_too_long_on_its_last_attempt_is_put_aside_when_its_time_is_over() {
    let mut books = books(Some(Duration::ZERO), Tolerance::All);
    let put = deliver(&mut books, 0..1, 5);
    let now = Instant::now();
    let effects = books.put_ended(put.lease, PutEnd::TimedOut, false, now);
    assert!(effects.settle.is_empty(), "another task first");
    let again = books.dispatch(1, now).unwrap();
    let effects = books.put_ended(again.lease, PutEnd::TimedOut, false, now);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Reject)]);
    assert!(
        effects.put_aside[0]
            .rejection
            .cause
            .contains("share.delivery.timeout.ms")
    );
}

#[test]
fn with_release_a_retry_goes_back_at_once_but_never_from_its_last_attempt() {
    let policy = Policy {
        retriable: Retriable::Release,
        ..books(None, Tolerance::All).policy
    };
    let mut books = Books::new(policy, Credit::new(1000));
    for (offset, count, settled) in [(0, 1, true), (1, 4, true), (2, 5, false)] {
        let put = deliver(&mut books, offset..offset + 1, count);
        let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
        let effects = books.put_ended(put.lease, end, false, Instant::now());
        let released = [(offset, offset, Settlement::Release)];
        assert_eq!(ranges(&effects), if settled { &released[..] } else { &[] });
        assert!(effects.notices.is_empty(), "it is as it should be");
    }
    assert_eq!(books.queue().waiting(), 1, "held, and tried on");
    assert_eq!((books.retries(), books.errors().transient), (1, 3));
}

#[test]
fn a_fenced_record_is_not_put_again() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..2, 1);
    deliver_anew(&mut books, 0);
    let end = PutEnd::Answered(Err(SinkError::Unavailable("down".into())));
    books.put_ended(put.lease, end, false, Instant::now());
    let again = books.dispatch(0, Instant::now()).unwrap();
    let offsets: Vec<i64> = again.chunk.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [1]);
}

fn deliver_anew(books: &mut Books, offset: i64) {
    books.acquire(&batch(offset..offset + 1, 2), &mut Effects::default());
}

#[test]
fn a_corrupt_range_is_rejected_as_it_comes() {
    let mut books = books(None, Tolerance::All);
    let mut corrupt = batch(0..1, 1);
    corrupt.corrupt.push(CorruptRange {
        first_offset: 1,
        last_offset: 3,
        delivery_count: 1,
        cause: "bad checksum".into(),
    });
    let mut effects = Effects::default();
    books.acquire(&corrupt, &mut effects);
    assert_eq!(effects.put_aside.len(), 3);
    assert!(
        effects
            .put_aside
            .iter()
            .all(|it| it.rejection.stage == Stage::KafkaConsume)
    );
    assert_eq!(ranges(&effects), [(1, 3, Settlement::Reject)]);
}

#[test]
fn without_tolerance_a_rejected_record_is_held_and_named() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..1, 1);
    let rejection = Rejection::new(Stage::TaskPut, "too large");
    let outcomes = vec![(0, Outcome::Reject(rejection.clone()))];
    let effects = books.outcomes(put.lease, outcomes, Instant::now());
    assert!(effects.settle.is_empty());
    let failed = effects.failure.unwrap();
    let (id, cause) = (failed.record, failed.rejection);
    assert_eq!((id.to_string().as_str(), cause), ("orders-0@0", rejection));
    assert_eq!(books.ledger().held(), 1);
}

#[test]
fn what_an_actor_took_with_it_is_released() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..2, 1);
    let forgotten = batch(2..4, 1);
    books.acquire(&forgotten, &mut Effects::default());
    let to_convert = batch(4..6, 1);
    let raw = RawBatch {
        acquisition: books.acquire(&to_convert, &mut Effects::default()),
        partition: to_convert.partition,
        records: to_convert.records,
        lives: Vec::new(),
    };
    books.intake().push(raw, to_convert.held);
    let effects = books.release_forgotten(Instant::now());
    assert_eq!(ranges(&effects), [(2, 3, Settlement::Release)]);
    assert!(effects.work, "the put's records are queued again");
    let late = books.put_ended(put.lease, PutEnd::Answered(Ok(())), false, Instant::now());
    assert!(late.settle.is_empty(), "its task is gone");
}

#[test]
fn what_an_actor_took_with_it_on_its_last_attempt_is_told_and_kept() {
    let mut books = books(None, Tolerance::None);
    books.acquire(&batch(0..2, 5), &mut Effects::default());
    let effects = books.release_forgotten(Instant::now());
    assert!(effects.settle.is_empty());
    assert_eq!(effects.notices, [Notice::WentDown { records: 2 }]);
}

#[test]
fn records_that_wait_long_no_longer_hold_their_response() {
    let credit = Credit::new(1000);
    let mut books = Books::new(books(None, Tolerance::None).policy, Arc::clone(&credit));
    let batch = batch(0..1, 1);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    let mut waiting = record(&batch.partition, 0, acquisition);
    let response = bytes::Bytes::from(vec![7_u8; 900]);
    waiting.value =
        crate::value::Datum::schemaless(crate::value::Value::Bytes(response.slice(0..5)));
    assert_eq!(entry(&waiting).offset, 0);
    books.converted(vec![waiting], Holds::of(credit.hold(900)));
    let put = books.dispatch(0, Instant::now()).unwrap();
    let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    books.put_ended(put.lease, end, false, Instant::now());
    drop(put);
    assert_eq!(credit.held_bytes(), 5);
    assert!(response.is_unique());
}

#[test]
fn a_record_gets_another_task_before_it_is_blamed_for_a_death() {
    let mut books = books(None, Tolerance::All);
    let put = deliver(&mut books, 0..1, 1);
    let panicked = || PutEnd::Panicked("boom".into());
    let first = books.put_ended(put.lease, panicked(), false, Instant::now());
    assert!(first.settle.is_empty());
    let cause = "boom".into();
    let (task, records) = (0, 1);
    let died = Notice::DiedOver {
        task,
        records,
        cause,
    };
    assert_eq!(first.notices, [died]);
    let again = books.dispatch(1, Instant::now()).unwrap();
    let second = books.put_ended(again.lease, panicked(), false, Instant::now());
    assert_eq!(ranges(&second), [(0, 0, Settlement::Reject)]);
}

/// A time-out tells nothing of a death, and a death nothing of a time-out.
#[test]
fn a_put_that_took_too_long_once_leaves_a_first_death_unblamed_and_the_other_way_round() {
    let ends = [PutEnd::TimedOut, PutEnd::Panicked("boom".into())];
    for (first, second) in [(0, 1), (1, 0)] {
        let mut books = books(None, Tolerance::All);
        let now = Instant::now();
        let mut put = deliver(&mut books, 0..1, 1);
        for end in [&ends[first], &ends[second]] {
            let effects = books.put_ended(put.lease, end.clone(), false, now);
            assert!(effects.settle.is_empty(), "{end:?} of {first}, {second}");
            put = books.dispatch(1, now).unwrap();
        }
        let effects = books.put_ended(put.lease, ends[0].clone(), false, now);
        let expected = [(0, 0, Settlement::Release)];
        assert_eq!(ranges(&effects), expected, "the second of its kind");
    }
}

#[test]
fn what_tells_nothing_leaves_a_death_and_a_time_out_known() {
    let tells_nothing = [
        PutEnd::Abandoned,
        PutEnd::Answered(Err(SinkError::Fatal("broken".into()))),
    ];
    for between in tells_nothing {
        for (kind, settlement) in [
            (PutEnd::TimedOut, Settlement::Release),
            (PutEnd::Panicked("boom".into()), Settlement::Reject),
        ] {
            let mut books = books(None, Tolerance::All);
            let now = Instant::now();
            let mut put = deliver(&mut books, 0..1, 1);
            for end in [&kind, &between] {
                let effects = books.put_ended(put.lease, end.clone(), false, now);
                assert!(effects.settle.is_empty(), "{end:?}");
                put = books.dispatch(1, now).unwrap();
            }
            let effects = books.put_ended(put.lease, kind, false, now);
            assert_eq!(ranges(&effects), [(0, 0, settlement)], "after {between:?}");
        }
    }
}

#[test]
fn an_answer_between_two_of_them_begins_anew() {
    for kind in [PutEnd::TimedOut, PutEnd::Panicked("boom".into())] {
        let mut books = books(None, Tolerance::All);
        let now = Instant::now();
        let busy = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
        let mut put = deliver(&mut books, 0..1, 1);
        for end in [&kind, &busy, &kind] {
            let effects = books.put_ended(put.lease, end.clone(), false, now);
            assert!(effects.settle.is_empty(), "{end:?}");
            put = books.dispatch(1, now + LOCK).unwrap();
        }
    }
}

#[test]
fn a_failing_record_that_is_lost_is_forgotten() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..3, 1);
    let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    books.put_ended(put.lease, end, false, Instant::now());
    books.watch_locks(Instant::now());
    assert_eq!(books.failing.len(), 3, "still failing");
    let lost = LostRange {
        partition: partition("orders", 0),
        first_offset: 0,
        last_offset: 1,
        cause: "connection lost".into(),
    };
    books.lost(&[lost], Instant::now());
    books.watch_locks(Instant::now());
    assert_eq!(books.failing.len(), 1);
}

#[test]
fn what_is_due_waits_for_a_task_and_no_longer_for_its_time() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..1, 1);
    let end = PutEnd::Answered(Err(SinkError::Retry("busy".into())));
    books.put_ended(put.lease, end, false, Instant::now());
    let due = books.queue().next_due().unwrap();
    books.wake(due);
    assert_eq!(books.queue().next_due(), None, "nobody has to wake again");
    assert_eq!((books.queue().ready(), books.queue().waiting()), (1, 0));
}

#[test]
fn what_takes_too_long_twice_is_released_through_the_gate() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..2, 1);
    let now = Instant::now();
    let effects = books.put_ended(put.lease, PutEnd::TimedOut, false, now);
    assert!(
        effects.settle.is_empty() && effects.work,
        "another task first"
    );
    let again = books.dispatch(1, now).unwrap();
    let effects = books.put_ended(again.lease, PutEnd::TimedOut, false, now);
    assert_eq!(ranges(&effects), [(0, 1, Settlement::Release)]);

    let put = deliver(&mut books, 5..6, 5);
    books.put_ended(put.lease, PutEnd::TimedOut, false, now);
    let again = books.dispatch(1, now).unwrap();
    let effects = books.put_ended(again.lease, PutEnd::TimedOut, false, now);
    assert!(effects.settle.is_empty(), "never on its last attempt");
    assert_eq!(books.dispatch(0, now).unwrap().chunk.len(), 1);
}

#[test]
fn records_that_end_without_the_sink_count_for_the_rate() {
    let mut books = books(None, Tolerance::All);
    let batch = batch(0..2, 1);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    let of = |offset| Entry {
        partition: &batch.partition,
        offset,
        acquisition,
    };
    let mut effects = Effects::default();
    books.filtered(std::iter::once(of(0)), &mut effects);
    let rejection = Rejection::new(Stage::ValueConverter, "not JSON");
    books.unconverted(
        of(1),
        &batch.records[1],
        &rejection,
        &Holds::default(),
        &mut effects,
    );
    assert_eq!((books.finished(), books.delivered()), (2, 0));
}

#[test]
fn what_a_put_has_reported_counts_however_it_ends() {
    for is_gone in [false, true] {
        let mut books = books(None, Tolerance::None);
        let put = deliver(&mut books, 0..3, 1);
        let now = Instant::now();
        put.report.delivered(1);
        let effects = if is_gone {
            books.task_gone(Some(0), now)
        } else {
            books.put_ended(put.lease, PutEnd::TimedOut, false, now)
        };
        assert_eq!(ranges(&effects), [(1, 1, Settlement::Accept)]);
        put.report.delivered(0);
        let late = books.reported(put.lease, now);
        assert!(late.settle.is_empty(), "too late");
        let again = books.dispatch(1, now).unwrap();
        let offsets: Vec<i64> = again.chunk.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [0, 2]);
    }
}

#[test]
fn locks_are_unwatched_long_before_a_renewal_would_be_late() {
    let mut books = books(None, Tolerance::None);
    let now = Instant::now();
    let after = |millis| now + Duration::from_millis(millis);
    assert!(!books.are_locks_watched(now), "never yet");
    books.watch_locks(now);
    assert!(books.are_locks_watched(after(999)));
    assert!(!books.are_locks_watched(after(1000)));
    let mut short = batch(0..1, 1);
    short.lock = Duration::from_millis(800);
    books.acquire(&short, &mut Effects::default());
    assert!(books.are_locks_watched(after(99)));
    assert!(!books.are_locks_watched(after(100)));
}

/// Its records have little time left, and all others have as much as before.
#[test]
fn a_slow_answer_of_the_broker_makes_no_renewal_late() {
    let mut books = books(None, Tolerance::None);
    let in_time = batch(0..1, 1);
    let mut slow = batch(1..2, 1);
    slow.lock_deadline = slow.acquired_at + LOCK / 15;
    for batch in [&in_time, &slow] {
        books.acquire(batch, &mut Effects::default());
    }
    let at_once = books.watch_locks(slow.acquired_at);
    assert_eq!(ranges(&at_once), [(1, 1, Settlement::Renew)]);
    let early = in_time.lock_deadline - LOCK / 3;
    let ahead = books.watch_locks(early);
    assert_eq!(ranges(&ahead), [(0, 0, Settlement::Renew)]);
}

/// Its task was cut off before it could tell.
#[test]
fn what_a_put_has_reported_is_not_released_with_the_rest() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..3, 1);
    put.report.delivered(1);
    let (effects, shut_out) = books.release_rest(Instant::now());
    let expected = [
        (1, 1, Settlement::Accept),
        (0, 0, Settlement::Release),
        (2, 2, Settlement::Release),
    ];
    assert_eq!(ranges(&effects), expected);
    assert_eq!(shut_out, []);
    assert!(books.queue().records().next().is_none());
}

#[test]
fn what_a_sink_has_vouched_for_is_accepted_with_the_rest_though_its_end_was_not_read() {
    let mut books = books(None, Tolerance::None);
    let put = deliver(&mut books, 0..3, 1);
    put.report.reject(1, "no good");
    put.report.vouch();
    let (effects, shut_out) = books.release_rest(Instant::now());
    assert!(shut_out.is_empty());
    assert_eq!(
        ranges(&effects),
        [
            (0, 0, Settlement::Accept),
            (2, 2, Settlement::Accept),
            (1, 1, Settlement::Release)
        ]
    );
}

#[test]
fn what_was_buffered_is_taken_back_unless_its_flush_has_vouched_for_it() {
    for is_flushed in [false, true] {
        let mut books = books(None, Tolerance::None);
        let put = deliver(&mut books, 0..3, 1);
        let now = Instant::now();
        books.put_ended(put.lease, PutEnd::Answered(Ok(())), true, now);
        if is_flushed {
            put.report.vouch();
        }
        let (effects, _) = books.release_rest(now);
        let settlement = match is_flushed {
            true => Settlement::Accept,
            false => Settlement::Release,
        };
        assert_eq!(ranges(&effects), [(0, 2, settlement)]);
    }
}
