use tokio::time::Instant;

use super::super::parking::tests::{
    SECOND, books, come, come_back, deliver, deliver_another, next_to_park, put_again,
};
use super::super::tests::ranges;
use super::super::{Books, Effects, Put, PutEnd};
use crate::ports::source::Settlement;

fn hang(books: &mut Books, put: &Put, at: Instant) -> Effects {
    books.put_ended(put.lease, PutEnd::TimedOut, false, at)
}

/// These records hang in one put, and once more with another task, while one
/// more is delivered.
fn hang_twice(books: &mut Books, offsets: std::ops::Range<i64>, another: i64) -> Instant {
    let now = Instant::now();
    let put = deliver(books, offsets);
    deliver_another(books, another, now + SECOND);
    let effects = hang(books, &put, now + 60 * SECOND);
    assert!(effects.settle.is_empty() && !effects.letters);
    assert!(books.queue().ready() > 0, "another task first");
    let again = put_again(books, now + 60 * SECOND);
    let effects = hang(books, &again, now + 120 * SECOND);
    assert!(effects.settle.is_empty(), "nothing is given back");
    now + 120 * SECOND
}

#[test]
fn what_hangs_for_long_while_others_are_delivered_is_parked() {
    let mut books = books();
    hang_twice(&mut books, 0..1, 1);
    let (_, parked) = next_to_park(&mut books);
    assert_eq!((parked.record.offset, parked.count), (0, 1));
}

#[test]
fn what_hangs_while_others_are_delivered_stays_until_it_has_been_long_enough() {
    let mut books = books();
    books.policy.parking.as_mut().unwrap().after = 200 * SECOND;
    let mut at = hang_twice(&mut books, 0..1, 1);
    let mut puts = 0;
    while books.letters().is_empty() {
        assert_eq!(books.queue().waiting(), 1, "with a back-off, after {puts}");
        at += 10 * SECOND;
        let put = put_again(&mut books, at);
        come(&mut books, 2 + puts..3 + puts);
        at += SECOND;
        let another = put_again(&mut books, at);
        books.put_ended(another.lease, PutEnd::Answered(Ok(())), false, at);
        at += 60 * SECOND;
        let effects = hang(&mut books, &put, at);
        assert!(effects.settle.is_empty());
        puts += 1;
    }
    // It failed first a minute after it began, and each try takes a minute.
    assert_eq!(puts, 2);
}

#[test]
fn what_pins_its_partition_by_hanging_is_parked_before_its_time() {
    for (reach, is_parked) in [(73, false), (90, true)] {
        let mut books = books();
        books.policy.parking.as_mut().unwrap().after = 3600 * SECOND;
        hang_twice(&mut books, 0..1, reach);
        assert_eq!(books.letters().len(), usize::from(is_parked));
    }
}

#[test]
fn of_many_that_hung_together_only_those_are_parked_that_hang_by_themselves() {
    let mut books = books();
    let at = hang_twice(&mut books, 0..3, 3);
    assert!(books.letters().is_empty());
    for offset in 0..3 {
        let put = put_again(&mut books, at);
        let offsets: Vec<i64> = put.chunk.iter().map(|it| it.offset).collect();
        assert_eq!(offsets, [offset]);
        let end = match offset {
            1 => PutEnd::TimedOut,
            _ => PutEnd::Answered(Ok(())),
        };
        books.put_ended(put.lease, end, false, at + 60 * SECOND);
    }
    assert_eq!(next_to_park(&mut books).1.record.offset, 1);
    assert_eq!(books.letters().len(), 1);
}

/// The sink took one of the put, and then nothing any more.
#[test]
fn what_hangs_with_all_others_is_given_back_so_that_another_worker_can_try() {
    let mut books = books();
    let now = Instant::now();
    deliver_another(&mut books, 9, now);
    let put = deliver(&mut books, 0..2);
    put.report.delivered(1);
    hang(&mut books, &put, now + 60 * SECOND);
    let again = put_again(&mut books, now + 60 * SECOND);
    let effects = hang(&mut books, &again, now + 120 * SECOND);
    assert_eq!(ranges(&effects), [(0, 0, Settlement::Release)]);
    assert!(books.letters().is_empty() && books.failing.is_empty());
}

#[test]
fn a_parked_record_that_hangs_is_parked_again() {
    let mut books = books();
    let now = Instant::now();
    come_back(&mut books, now, 1, 2);
    let put = put_again(&mut books, now + SECOND);
    deliver_another(&mut books, 8, now + SECOND);
    let effects = hang(&mut books, &put, now + 60 * SECOND);
    assert!(effects.settle.is_empty());
    assert_eq!(next_to_park(&mut books).1.count, 3);
}
