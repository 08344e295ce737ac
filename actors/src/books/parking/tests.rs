use std::time::Duration;

use super::super::tests::{batch, ranges};
use super::super::{Letter, Put, PutEnd, Tolerance};
use super::*;
use crate::circuit::Refusal;
use crate::credit::Credit;
use crate::ports::source::{LostRange, Settlement};
use crate::record::{Parked, RecordId};
use crate::testing::{partition, policy, raw_record, record};

pub(in super::super) const SECOND: Duration = Duration::from_secs(1);

pub(in super::super) fn books() -> Books {
    let mut policy = policy(1, Tolerance::All);
    policy.parking = Some(ParkingPolicy {
        after: 10 * SECOND,
        backoff: 60 * SECOND,
        span: 100,
    });
    Books::new(policy, Credit::new(1000))
}

/// Acquires records, and hands them to a task.
pub(in super::super) fn deliver(books: &mut Books, offsets: std::ops::Range<i64>) -> Put {
    come(books, offsets);
    books.dispatch(3, Instant::now()).unwrap()
}

/// Acquires records, and queues them with their originals.
pub(in super::super) fn come(books: &mut Books, offsets: std::ops::Range<i64>) {
    let batch = batch(offsets.clone(), 1);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    let records = offsets.map(|offset| {
        let mut record = record(&batch.partition, offset, acquisition);
        record.original = Some(Arc::new(raw_record(offset)));
        record
    });
    books.converted(records.collect(), Holds::default());
}

fn end(books: &mut Books, put: &Put, at: Instant) -> Effects {
    books.put_ended(put.lease, PutEnd::Answered(Ok(())), false, at)
}

/// The sink wants the first record of a put again, and has the others.
fn fail_first(books: &mut Books, put: &Put, at: Instant) -> Effects {
    put.report.retry(0, "busy");
    end(books, put, at)
}

pub(in super::super) fn next_to_park(books: &mut Books) -> (u64, ToPark) {
    let (ticket, letter) = books.next_letter(Instant::now()).unwrap();
    match &*letter {
        Letter::Parked(record) => (ticket, record.clone()),
        Letter::Dead(letter) => panic!("dead: {letter:?}"),
    }
}

/// A record that comes back from the parking topic, where it lay at 0.
pub(in super::super) fn come_back(
    books: &mut Books,
    due: Instant,
    delivery_count: u16,
    count: u32,
) {
    let since = due.checked_sub(60 * SECOND).unwrap();
    come_back_since(books, since, due, delivery_count, count);
}

fn come_back_since(
    books: &mut Books,
    since: Instant,
    due: Instant,
    delivery_count: u16,
    count: u32,
) {
    let place = partition("parked", 0);
    let parked = Some(Arc::new(Parked {
        origin: RecordId {
            partition: partition("orders", 0),
            offset: 7,
        },
        place: RecordId {
            partition: Arc::clone(&place),
            offset: 0,
        },
        count,
        since,
        due,
    }));
    let mut batch = batch(0..1, delivery_count);
    batch.partition = place;
    batch.records[0].parked.clone_from(&parked);
    let acquisition = books.acquire(&batch, &mut Effects::default());
    let mut back = record(&partition("orders", 0), 7, acquisition);
    back.delivery_count = delivery_count;
    back.original = Some(Arc::new(raw_record(0)));
    back.parked = parked;
    books.converted(vec![back], Holds::default());
}

/// Another record is delivered.
pub(in super::super) fn deliver_another(books: &mut Books, offset: i64, at: Instant) {
    let put = deliver(books, offset..offset + 1);
    end(books, &put, at);
}

pub(in super::super) fn put_again(books: &mut Books, at: Instant) -> Put {
    books.dispatch(3, at).unwrap()
}

fn fail_letter(books: &mut Books, ticket: u64, at: Instant) -> Effects {
    books.letters_ended(vec![(ticket, Err("parking is away".into()))], at)
}

#[test]
fn a_record_that_fails_once_is_tried_again_where_it_is() {
    let mut books = books();
    let put = deliver(&mut books, 0..2);
    let effects = fail_first(&mut books, &put, Instant::now());
    assert!(!effects.letters && books.letters().is_empty());
    assert_eq!(books.queue().waiting(), 1);
}

/// The first of two fails twice, while the other and one more are taken:
/// in a partition of which so many offsets are open.
fn pinned(books: &mut Books, reaching: i64, now: Instant) -> Instant {
    let first = deliver(books, 0..2);
    fail_first(books, &first, now);
    deliver_another(books, reaching, now + SECOND / 2);
    let again = put_again(books, now + SECOND / 2);
    fail_first(books, &again, now + SECOND / 2);
    // From here on it has been the first open one for a second.
    Instant::now() + SECOND
}

#[test]
fn what_pins_a_partition_is_parked_from_where_it_waits_and_accepted_behind_that() {
    let mut books = books();
    let now = Instant::now();
    let later = pinned(&mut books, 73, now);
    assert!(books.watch_locks(later).notices.is_empty());
    assert!(
        books.letters().is_empty(),
        "three quarters are not reached yet"
    );
    deliver_another(&mut books, 74, later);
    let effects = books.watch_locks(later);
    assert!(effects.letters && effects.settle.is_empty());
    assert_eq!(books.queue().waiting(), 0);
    let (ticket, parked) = next_to_park(&mut books);
    assert_eq!(parked.record.to_string(), "orders-0@0");
    assert_eq!((parked.count, parked.since), (1, now));
    let effects = books.letters_ended(vec![(ticket, Ok(()))], later);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Accept)]);
    assert!(effects.put_aside.is_empty(), "it is no dead letter");
    assert_eq!(books.letters().totals(), Default::default());
}

/// Nobody is delivered any more, since the span is used up.
#[test]
fn what_pins_its_partition_and_could_not_be_parked_is_written_again_when_it_fails_again() {
    let mut books = books();
    let mut at = pinned(&mut books, 90, Instant::now());
    books.watch_locks(at);
    for _ in 0..3 {
        let (ticket, _) = next_to_park(&mut books);
        fail_letter(&mut books, ticket, at);
        assert!(books.letters().is_empty(), "the sink is asked first");
        at += 60 * SECOND;
        let put = put_again(&mut books, at);
        fail_first(&mut books, &put, at);
    }
    let (ticket, _) = next_to_park(&mut books);
    let effects = books.letters_ended(vec![(ticket, Ok(()))], at);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Accept)]);
}

#[test]
fn nothing_is_parked_while_the_circuit_is_open() {
    let mut books = books();
    let later = pinned(&mut books, 90, Instant::now()) + SECOND;
    let refusal = Refusal {
        task: 3,
        leases: &[],
        cause: &"away".into(),
        lasts: None,
    };
    let put = put_again(&mut books, later);
    deliver_another(&mut books, 91, later);
    books.circuit.refused("test", &refusal);
    fail_first(&mut books, &put, later);
    assert_eq!(books.queue().waiting(), 1, "tried on");
    assert!(!books.watch_locks(later).letters);
    books.circuit.answered("test", 3);
    assert!(books.watch_locks(later).letters, "but for that");
}

#[test]
fn a_record_that_pins_a_busy_partition_for_a_moment_is_not_parked() {
    let mut books = books();
    let now = Instant::now();
    pinned(&mut books, 90, now);
    books.watch_locks(now + SECOND / 2);
    assert!(books.letters().is_empty());
    let put = put_again(&mut books, now + 2 * SECOND);
    end(&mut books, &put, now + 2 * SECOND);
    assert_eq!(books.delivered(), 3, "it was a hiccup");
}

#[test]
fn no_record_is_parked_at_its_first_failure_whatever_it_pins() {
    let mut books = books();
    let put = deliver(&mut books, 0..91);
    let later = Instant::now() + 20 * SECOND;
    let effects = fail_first(&mut books, &put, later);
    assert!(!effects.letters, "the others are of the same put");
    assert!(!books.watch_locks(later).letters);
}

#[test]
fn an_outage_that_begins_within_a_put_parks_nothing() {
    let mut books = books();
    books.policy.parking.as_mut().unwrap().after = Duration::ZERO;
    let mut at = Instant::now();
    let put = deliver(&mut books, 0..91);
    fail_first(&mut books, &put, at);
    for _ in 0..10 {
        at += 60 * SECOND;
        let again = put_again(&mut books, at);
        fail_first(&mut books, &again, at);
        books.park_pins(at, &mut Effects::default());
    }
    assert!(books.letters().is_empty());
}

#[test]
fn a_record_that_failed_before_the_others_were_taken_gets_another_try() {
    let mut books = books();
    let now = Instant::now();
    let first = deliver(&mut books, 0..1);
    fail_first(&mut books, &first, now);
    deliver_another(&mut books, 90, now + SECOND);
    books.watch_locks(now + 2 * SECOND);
    assert!(books.letters().is_empty());
}

#[test]
fn a_record_that_cannot_be_parked_is_put_again_before_it_is_written_again() {
    let mut books = books();
    books.policy.parking.as_mut().unwrap().after = Duration::ZERO;
    let now = Instant::now();
    let first = deliver(&mut books, 0..2);
    fail_first(&mut books, &first, now);
    deliver_another(&mut books, 2, now + SECOND);
    let again = put_again(&mut books, now + SECOND);
    fail_first(&mut books, &again, now + SECOND);
    let (ticket, _) = next_to_park(&mut books);
    let finished = books.finished();

    let effects = fail_letter(&mut books, ticket, now + SECOND);
    assert!(effects.settle.is_empty() && effects.work);
    let cause = Cause::from("parking is away");
    assert_eq!(books.letters().trouble(), Some(cause.clone()));
    assert_eq!(effects.notices, [Notice::LettersFail { cause }]);
    assert!(books.letters().is_empty());
    let later = now + 60 * SECOND;
    assert!(
        books.next_letter(later).is_none(),
        "the sink is asked first"
    );
    // It fails once more; nobody else has been delivered meanwhile.
    let again = put_again(&mut books, later);
    fail_first(&mut books, &again, later);
    assert!(books.letters().is_empty() && books.letters().trouble().is_some());
    let again = put_again(&mut books, later + 60 * SECOND);
    let effects = end(&mut books, &again, later + 60 * SECOND);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Accept)]);
    assert_eq!(books.finished(), finished + 1, "counted once");
    let effects = books.watch_locks(now);
    assert_eq!(effects.notices, [Notice::LettersAreWritten]);
    assert_eq!(books.letters().trouble(), None);
}

#[test]
fn a_record_that_could_not_be_parked_is_parked_when_it_fails_while_others_succeed() {
    let mut books = books();
    books.policy.parking.as_mut().unwrap().after = Duration::ZERO;
    let mut at = Instant::now();
    let since = at;
    let first = deliver(&mut books, 0..2);
    fail_first(&mut books, &first, at);
    for offset in 2..5 {
        at += 60 * SECOND;
        deliver_another(&mut books, offset, at);
        let again = put_again(&mut books, at);
        fail_first(&mut books, &again, at);
        let (ticket, letter) = next_to_park(&mut books);
        assert_eq!((letter.count, letter.since), (1, since));
        if offset < 4 {
            fail_letter(&mut books, ticket, at);
        } else {
            books.letters_ended(vec![(ticket, Ok(()))], at);
        }
    }
    assert_eq!(books.letters().trouble(), None);
    assert!(books.failing.is_empty());
}

#[test]
fn records_that_cannot_be_parked_stop_no_fetching() {
    let mut books = books();
    books.policy.parking.as_mut().unwrap().after = Duration::ZERO;
    let mut at = Instant::now();
    let mut put = deliver(&mut books, 0..150);
    for another in [150, 151] {
        for place in 0..put.chunk.len() {
            put.report.retry(place, "busy");
        }
        end(&mut books, &put, at);
        at += SECOND;
        deliver_another(&mut books, another, at);
        if books.queue().waiting() > 0 {
            put = put_again(&mut books, at);
        }
    }
    assert_eq!(books.letters().len(), 150);
    while let Some((ticket, _)) = books.next_letter(at) {
        fail_letter(&mut books, ticket, at);
        assert!(!books.letters().is_clogged());
    }
    assert!(books.letters().trouble().is_some());
    assert_eq!(books.queue().waiting(), 150);
}

#[test]
fn a_parked_record_waits_for_its_time_and_goes_by_its_first_name() {
    let mut books = books();
    let now = Instant::now();
    come_back(&mut books, now + 30 * SECOND, 1, 2);
    assert_eq!((books.queue().ready(), books.queue().waiting()), (0, 1));
    assert!(books.dispatch(3, now + 29 * SECOND).is_none());
    let put = books.dispatch(3, now + 31 * SECOND).unwrap();
    assert_eq!(put.chunk[0].id().to_string(), "orders-0@7");
    let effects = end(&mut books, &put, now + 31 * SECOND);
    let settled = &effects.settle[0];
    assert_eq!(&*settled.partition.topic, "parked");
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Accept)]);
}

#[test]
fn a_parked_record_that_fails_again_is_parked_at_once_with_one_more() {
    let mut books = books();
    let now = Instant::now();
    come_back(&mut books, now, 1, 2);
    let put = put_again(&mut books, now + SECOND);
    deliver_another(&mut books, 8, now + SECOND);
    fail_first(&mut books, &put, now + SECOND);
    let (_, parked) = next_to_park(&mut books);
    assert_eq!((parked.count, parked.record.offset), (3, 7));
}

#[test]
fn a_parked_record_that_fails_with_all_others_is_held_and_not_written_again() {
    let mut books = books();
    let mut at = Instant::now();
    // Before it was parked.
    deliver_another(&mut books, 8, at.checked_sub(61 * SECOND).unwrap());
    come_back(&mut books, at, 1, 2);
    for _ in 0..10 {
        let put = put_again(&mut books, at);
        let effects = fail_first(&mut books, &put, at);
        assert!(effects.settle.is_empty() && !effects.letters);
        at += 60 * SECOND;
    }
    deliver_another(&mut books, 9, at);
    let put = put_again(&mut books, at);
    fail_first(&mut books, &put, at);
    next_to_park(&mut books);
}

#[test]
fn a_parked_record_whose_time_went_by_while_no_worker_ran_is_tried_once_more() {
    let mut books = books();
    books.policy.retry.timeout = Some(100 * SECOND);
    let now = Instant::now();
    let since = now.checked_sub(1000 * SECOND).unwrap();
    come_back_since(&mut books, since, now, 1, 2);
    let put = put_again(&mut books, now);
    let effects = fail_first(&mut books, &put, now);
    assert_eq!((books.queue().waiting(), effects.put_aside.len()), (1, 0));
    let later = now + SECOND;
    let put = put_again(&mut books, later);
    let effects = fail_first(&mut books, &put, later);
    assert_eq!(effects.put_aside.len(), 1, "enough");
}

#[test]
fn a_parked_record_on_its_last_attempt_does_not_wait() {
    let mut books = books();
    come_back(&mut books, Instant::now() + 30 * SECOND, 5, 1);
    assert_eq!((books.queue().ready(), books.queue().waiting()), (1, 0));
}

#[test]
fn parked_records_that_wait_are_put_when_the_worker_is_to_stop() {
    let mut books = books();
    let due = Instant::now() + 30 * SECOND;
    come_back(&mut books, due, 1, 1);
    assert!(books.hurry_parked().work);
    assert_eq!((books.queue().ready(), books.queue().waiting()), (1, 0));
    come_back(&mut books, due, 1, 1);
    assert_eq!(books.queue().ready(), 2, "those that come later, too");
}

#[test]
fn a_record_that_is_lost_while_it_is_parked_is_not_accepted() {
    let mut books = books();
    come_back(&mut books, Instant::now(), 1, 1);
    let put = books.dispatch(3, Instant::now() + SECOND).unwrap();
    deliver_another(&mut books, 8, Instant::now());
    fail_first(&mut books, &put, Instant::now() + SECOND);
    let (ticket, _) = next_to_park(&mut books);
    let lost = LostRange {
        partition: partition("parked", 0),
        first_offset: 0,
        last_offset: 0,
        cause: "connection lost".into(),
    };
    books.lost(&[lost], Instant::now());
    let effects = books.letters_ended(vec![(ticket, Ok(()))], Instant::now());
    assert!(effects.settle.is_empty());
}

#[test]
fn a_record_whose_time_went_by_in_an_outage_is_tried_once_more() {
    let mut books = books();
    books.policy.retry.timeout = Some(100 * SECOND);
    let now = Instant::now();
    let put = deliver(&mut books, 0..1);
    fail_first(&mut books, &put, now);
    let refusal = Refusal {
        task: 3,
        leases: &[put.lease],
        cause: &"away".into(),
        lasts: None,
    };
    books.circuit.refused("test", &refusal);
    books.circuit.answered("test", 3);
    let later = now + 1000 * SECOND;
    let put = put_again(&mut books, later);
    let effects = fail_first(&mut books, &put, later);
    assert!(effects.settle.is_empty(), "{effects:?}");
    let put = put_again(&mut books, later + SECOND);
    let effects = fail_first(&mut books, &put, later + SECOND);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Release)]);
}
