use std::sync::Arc;

use super::super::tests::{books, deliver, ranges};
use super::*;
use crate::books::{Put, PutEnd, Retriable, Tolerance};
use crate::credit::Credit;
use crate::outcome::{Outcome, Rejection, Stage};
use crate::ports::sink::SinkError;
use crate::ports::source::{LostRange, Settlement};

const MANY: i64 = 16;
const SECOND: Duration = Duration::from_secs(1);

fn books_with(timeout: Option<Duration>) -> Books {
    with_policy(|policy| policy.retry.timeout = timeout)
}

fn with_policy(change: impl FnOnce(&mut Policy)) -> Books {
    let mut policy = books(None, Tolerance::None).policy;
    policy.max_put_records = 100;
    change(&mut policy);
    Books::new(policy, Credit::new(1000))
}

fn busy() -> PutEnd {
    PutEnd::Answered(Err(SinkError::Retry("busy".into())))
}

fn fail(books: &mut Books, put: &Put, after: Duration) -> Effects {
    let now = Instant::now() + after;
    books.put_ended(put.lease, busy(), false, now)
}

#[test]
fn many_records_that_fail_in_a_row_open_the_circuit_and_tell_why() {
    let mut books = books_with(None);
    let put = deliver(&mut books, 0..1, 1);
    fail(&mut books, &put, Duration::ZERO);
    let put = deliver(&mut books, 1..MANY, 1);
    let effects = fail(&mut books, &put, 31 * SECOND);
    let outage = books.circuit().outage().unwrap();
    assert_eq!(
        &*outage.cause,
        "16 records and more failed in a row, none was delivered since: busy"
    );
    let cause = outage.cause;
    assert_eq!(effects.notices, [Notice::SinkUnavailable { cause }]);
}

#[test]
fn the_same_few_never_open_it_however_often_they_fail_and_come_again() {
    let mut books = books_with(None);
    for times in 1..100 {
        let put = deliver(&mut books, 0..MANY - 1, 1);
        fail(&mut books, &put, times * SECOND);
    }
    assert!(!books.circuit().is_open());
    let put = deliver(&mut books, MANY..MANY + 1, 1);
    fail(&mut books, &put, 100 * SECOND);
    assert!(books.circuit().is_open(), "one more");
}

#[test]
fn a_sink_that_takes_one_in_fifty_is_no_outage() {
    let mut books = books_with(None);
    for round in 0..200_i64 {
        let put = deliver(&mut books, 50 * round..50 * (round + 1), 1);
        let now = Instant::now() + SECOND * round as u32;
        let delivered = (0, Outcome::Delivered);
        books.outcomes(put.lease, vec![delivered], now);
        books.put_ended(put.lease, busy(), false, now);
        assert!(!books.circuit().is_open(), "in round {round}");
    }
}

/// It is there, and has something against most records.
#[test]
fn a_sink_that_rejects_is_no_outage() {
    let mut books = with_policy(|policy| policy.tolerance = Tolerance::All);
    for round in 0..200_i64 {
        let put = deliver(&mut books, 10 * round..10 * (round + 1), 1);
        let now = Instant::now() + SECOND * round as u32;
        let reject = Rejection::new(Stage::TaskPut, "no good");
        books.outcomes(put.lease, vec![(0, Outcome::Reject(reject))], now);
        books.put_ended(put.lease, busy(), false, now);
        assert_eq!(books.circuit().outages(), 0, "in round {round}");
    }
}

/// The task heard first that the sink takes records, and the books then of one
/// more that failed before.
#[test]
fn an_outage_does_not_outlast_a_delivery_that_is_entered_late() {
    let mut books = books_with(None);
    let good = deliver(&mut books, 0..1, 1);
    let bad = deliver(&mut books, 1..MANY, 1);
    fail(&mut books, &bad, Duration::ZERO);
    let worse = deliver(&mut books, MANY..2 * MANY, 1);
    let last = deliver(&mut books, 100..101, 1);
    fail(&mut books, &worse, 31 * SECOND);
    assert!(books.circuit().is_open());
    books.circuit().answered("test", 0);
    let entered_before = fail(&mut books, &last, 31 * SECOND);
    assert!(entered_before.notices.is_empty(), "{entered_before:?}");
    let now = Instant::now() + 32 * SECOND;
    let effects = books.put_ended(good.lease, PutEnd::Answered(Ok(())), false, now);
    assert!(!books.circuit().is_open());
    let is_back = |it: &Notice| matches!(it, Notice::SinkIsBack { .. });
    assert!(effects.notices.iter().any(is_back), "{effects:?}");
    assert_eq!(books.circuit().outages(), 1);
}

#[test]
fn a_row_that_lasts_for_a_moment_is_no_outage_yet() {
    let mut books = books_with(None);
    let put = deliver(&mut books, 0..MANY, 1);
    fail(&mut books, &put, 600 * SECOND);
    assert!(!books.circuit().is_open());
}

#[test]
fn none_of_many_is_given_back_for_its_time_before_others_were_delivered() {
    for timeout in [Duration::ZERO, SECOND] {
        let mut books = books_with(Some(timeout));
        let put = deliver(&mut books, 0..MANY, 1);
        assert!(fail(&mut books, &put, Duration::ZERO).settle.is_empty());
        let later = Instant::now() + 10 * SECOND;
        let again = books.dispatch(0, later).unwrap();
        let effects = books.put_ended(again.lease, busy(), false, later);
        assert!(effects.settle.is_empty(), "{effects:?}");

        let other = deliver(&mut books, MANY..MANY + 1, 1);
        let end = PutEnd::Answered(Ok(()));
        books.put_ended(other.lease, end, false, later + SECOND);
        let again = books.dispatch(0, later + 100 * SECOND).unwrap();
        let effects = fail(&mut books, &again, 100 * SECOND);
        let released = [(0, MANY - 1, Settlement::Release)];
        assert_eq!(
            ranges(&effects),
            released,
            "past its time, and others go on"
        );
    }
}

#[test]
fn share_retriable_release_is_no_loop_in_an_outage() {
    let mut books = with_policy(|policy| policy.retriable = Retriable::Release);
    let put = deliver(&mut books, 0..MANY, 1);
    let effects = fail(&mut books, &put, Duration::ZERO);
    assert!(effects.settle.is_empty(), "{effects:?}");
}

#[test]
fn puts_that_hang_open_it_though_they_are_of_one_record() {
    let mut books = books_with(None);
    let mut put = deliver(&mut books, 0..1, 1);
    let mut settled = Vec::new();
    for times in 1..=8 {
        let now = Instant::now() + 1000 * times * SECOND;
        let effects = books.put_ended(put.lease, PutEnd::TimedOut, false, now);
        settled.push(effects.settle.len());
        if settled.last() == Some(&1) {
            // It comes back.
            put = deliver(&mut books, 0..1, 2);
        } else {
            put = books.dispatch(0, now + 900 * SECOND).unwrap();
        }
    }
    assert_eq!(settled, [0, 1, 0, 0, 0, 0, 0, 0]);
    let outage = books.circuit().outage().unwrap();
    let words = "4 puts in a row took longer than share.delivery.timeout.ms";
    assert!(outage.cause.starts_with(words), "{}", outage.cause);
}

#[test]
fn what_comes_back_and_fails_again_waits_before_it_goes_back_once_more() {
    let mut books = books_with(Some(Duration::ZERO));
    let released = |effects: &Effects| !effects.settle.is_empty();
    let mut fail_one = |offset, count| {
        let put = deliver(&mut books, offset..offset + 1, count);
        let first = fail(&mut books, &put, Duration::ZERO);
        if released(&first) {
            return 1;
        }
        let again = books.dispatch(0, Instant::now() + SECOND).unwrap();
        let second = fail(&mut books, &again, SECOND);
        if released(&second) { 2 } else { 3 }
    };
    assert_eq!(fail_one(0, 1), 1, "not at all if 0");
    assert_eq!(fail_one(0, 2), 2, "nothing was delivered since");
    assert_eq!(fail_one(1, 1), 1, "another one");
}

/// Its lock was lost meanwhile; the sink took it all the same.
#[test]
fn a_delivery_of_what_is_not_ours_any_more_ends_an_outage() {
    let mut books = books_with(None);
    let good = deliver(&mut books, 0..1, 1);
    let bad = deliver(&mut books, 1..MANY + 1, 1);
    fail(&mut books, &bad, Duration::ZERO);
    let again = books.dispatch(0, Instant::now() + SECOND).unwrap();
    fail(&mut books, &again, 31 * SECOND);
    assert!(books.circuit().is_open());
    let now = Instant::now() + 32 * SECOND;
    let lost = LostRange {
        partition: Arc::clone(&good.chunk[0].partition),
        first_offset: 0,
        last_offset: 0,
        cause: "expired".into(),
    };
    books.lost(&[lost], now);
    let effects = books.put_ended(good.lease, PutEnd::Answered(Ok(())), false, now);
    assert!(effects.settle.is_empty(), "{effects:?}");
    assert!(!books.circuit().is_open());
}

#[test]
fn many_are_no_more_than_a_fixed_window_holds_and_never_a_few() {
    let many = |tasks, max_in_flight_records| {
        let policy = Policy {
            tasks,
            max_in_flight_records,
            ..books(None, Tolerance::None).policy
        };
        let Many { records, puts } = Many::of(&policy);
        (records, puts)
    };
    assert_eq!(many(1, None), (16, 4));
    assert_eq!(many(20, None), (40, 40));
    assert_eq!(many(20, Some(1000)), (40, 40));
    assert_eq!(many(20, Some(30)), (30, 40));
    assert_eq!(many(20, Some(10)), (10, 20), "no more tasks are busy");
    assert_eq!(many(1, Some(8)), (8, 4));
    assert_eq!(many(20, Some(1)), (4, 4));
}
