//! The laws of the ledger by name.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Entry, Ledger, Step};
use crate::ports::source::{Answer, AnsweredRange, SettleRange, Settlement};
use crate::record::SourcePartition;
use crate::testing::partition;

const LOCK: Duration = Duration::from_secs(30);

struct Bench {
    ledger: Ledger,
    partition: Arc<SourcePartition>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            ledger: Ledger::default(),
            partition: partition("orders", 0),
            now: Instant::now(),
        }
    }

    fn acquire(&mut self, offsets: std::ops::Range<i64>, delivery_count: u16) -> u32 {
        let records = offsets.map(|offset| (offset, delivery_count));
        let until = self.now + LOCK;
        self.ledger
            .acquire(&self.partition, records, until, self.now)
    }

    fn accept(&self) -> Step {
        Step::Settle(Settlement::Accept, self.now)
    }

    fn lease(&mut self, lease: u32, offset: i64, acquisition: u32) -> bool {
        let partition = Arc::clone(&self.partition);
        let mut ours = true;
        let entry = Entry {
            partition: &partition,
            offset,
            acquisition,
        };
        self.ledger
            .lease(lease, std::iter::once(entry), |_| ours = false);
        ours
    }

    fn step(&mut self, lease: u32, step: Step, offset: i64, acquisition: u32) -> Vec<SettleRange> {
        let partition = Arc::clone(&self.partition);
        let entry = Entry {
            partition: &partition,
            offset,
            acquisition,
        };
        let mut settle = Vec::new();
        self.ledger
            .step(lease, step, std::iter::once(entry), &mut settle, |_| {});
        settle
    }

    fn answer(&mut self, first: i64, last: i64, settlement: Settlement, answer: Answer) {
        let answered = AnsweredRange {
            range: SettleRange {
                partition: Arc::clone(&self.partition),
                first_offset: first,
                last_offset: last,
                settlement,
            },
            answer,
        };
        self.ledger.answered(&answered, self.now);
    }
}

#[test]
fn a_record_is_open_until_the_broker_has_answered() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(10..12, 1);
    assert!(bench.lease(1, 10, acquisition));
    assert_eq!(bench.step(1, bench.accept(), 10, acquisition).len(), 1);
    assert_eq!(bench.ledger.open(), 2);
    bench.answer(10, 10, Settlement::Accept, Answer::Confirmed);
    assert_eq!(bench.ledger.open(), 1);
    assert_eq!(bench.ledger.totals().accepted, 1);
}

#[test]
fn an_unknown_answer_is_never_counted_as_accepted() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..1, 1);
    bench.lease(1, 0, acquisition);
    bench.step(1, bench.accept(), 0, acquisition);
    let cause = "connection lost".into();
    bench.answer(0, 0, Settlement::Accept, Answer::Unknown { cause });
    let totals = bench.ledger.totals();
    assert_eq!(
        (totals.accepted, totals.unknown, bench.ledger.open()),
        (0, 1, 0)
    );
}

#[test]
fn times_are_those_of_confirmed_accepts() {
    let ms = Duration::from_millis;
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..4, 1);
    bench.now += ms(100);
    for (lease, offset) in [(1, 0), (1, 1), (1, 2)] {
        bench.lease(lease, offset, acquisition);
        bench.step(lease, bench.accept(), offset, acquisition);
    }
    // Dropped by a transform: no put had it.
    bench.step(0, bench.accept(), 3, acquisition);
    bench.now += ms(7);
    bench.answer(0, 1, Settlement::Accept, Answer::Confirmed);
    bench.answer(3, 3, Settlement::Accept, Answer::Confirmed);
    let cause = "connection lost".into();
    bench.answer(2, 2, Settlement::Accept, Answer::Unknown { cause });
    let times = bench.ledger.times();
    assert_eq!((times.accept.count, times.accept.total), (3, ms(321)));
    assert_eq!(times.accept.longest.value(bench.now), ms(107));
    assert_eq!(times.settlement.count(), 2);
    assert!((times.settlement.seconds - 0.014).abs() < 1e-9);
}

#[test]
fn the_highest_delivery_count_is_of_open_records() {
    let mut bench = Bench::new();
    assert_eq!(bench.ledger.highest_delivery_count(), None);
    bench.acquire(0..1, 1);
    let again = bench.acquire(1..2, 4);
    assert_eq!(bench.ledger.highest_delivery_count(), Some(4));
    bench.lease(1, 1, again);
    bench.step(1, bench.accept(), 1, again);
    assert_eq!(bench.ledger.highest_delivery_count(), Some(1));
}

#[test]
fn one_final_settlement_per_delivery() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..1, 1);
    bench.lease(1, 0, acquisition);
    assert_eq!(bench.step(1, bench.accept(), 0, acquisition).len(), 1);
    assert!(bench.step(1, bench.accept(), 0, acquisition).is_empty());
    let release = Step::Settle(Settlement::Release, bench.now);
    assert!(bench.step(1, release, 0, acquisition).is_empty());
    assert_eq!(bench.ledger.totals().fenced, 2);
}

#[test]
fn an_outcome_of_another_lease_or_acquisition_is_fenced() {
    let mut bench = Bench::new();
    let first = bench.acquire(0..1, 1);
    bench.lease(1, 0, first);
    assert!(bench.step(2, bench.accept(), 0, first).is_empty());
    let second = bench.acquire(0..1, 2);
    assert!(bench.step(1, bench.accept(), 0, first).is_empty());
    assert!(!bench.lease(3, 0, first));
    assert!(bench.lease(3, 0, second));
    assert_eq!(bench.ledger.open(), 1);
    assert_eq!(bench.ledger.totals().redelivered, 1);
}

#[test]
fn a_record_that_is_settled_is_not_renewed() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..3, 1);
    bench.lease(1, 1, acquisition);
    bench.step(1, bench.accept(), 1, acquisition);
    let renewals = bench.ledger.renewals(bench.now, |_| LOCK);
    let ranges: Vec<_> = renewals
        .iter()
        .map(|range| (range.first_offset, range.last_offset))
        .collect();
    assert_eq!(ranges, [(0, 0), (2, 2)]);
    assert!(
        bench.ledger.renewals(bench.now, |_| LOCK).is_empty(),
        "asked once"
    );
}

#[test]
fn a_renewal_moves_the_deadline() {
    let mut bench = Bench::new();
    bench.acquire(0..1, 1);
    assert!(bench.ledger.renewals(bench.now, |_| LOCK / 2).is_empty());
    bench.now += LOCK * 2 / 3;
    assert_eq!(bench.ledger.renewals(bench.now, |_| LOCK / 2).len(), 1);
    let lock_deadline = bench.now + LOCK;
    bench.answer(0, 0, Settlement::Renew, Answer::Renewed { lock_deadline });
    bench.now += LOCK * 2 / 3;
    assert_eq!(bench.ledger.expire(bench.now), 0);
    assert_eq!(bench.ledger.renewals(bench.now, |_| LOCK / 2).len(), 1);
}

#[test]
fn an_expired_lock_fences_its_delivery_but_not_a_settlement_under_way() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..2, 1);
    bench.lease(1, 0, acquisition);
    bench.lease(1, 1, acquisition);
    bench.step(1, bench.accept(), 0, acquisition);
    bench.now += LOCK;
    assert_eq!(bench.ledger.expire(bench.now), 1);
    assert!(bench.step(1, bench.accept(), 1, acquisition).is_empty());
    bench.answer(0, 0, Settlement::Accept, Answer::Confirmed);
    assert_eq!(bench.ledger.totals().accepted, 1);
    assert_eq!(bench.ledger.open(), 0);
}

#[test]
fn a_held_record_stays_until_it_is_given_back() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..1, 1);
    bench.step(0, Step::Hold, 0, acquisition);
    assert_eq!(bench.ledger.held(), 1);
    assert!(bench.step(0, bench.accept(), 0, acquisition).is_empty());
    assert_eq!(bench.ledger.renewals(bench.now, |_| LOCK).len(), 1);
    assert_eq!(
        bench
            .ledger
            .settle_rest(Settlement::Release, |_| true)
            .len(),
        1
    );
    assert_eq!((bench.ledger.held(), bench.ledger.open()), (0, 1));
}

#[test]
fn the_pin_is_the_first_open_offset_and_spans_what_is_settled_behind_it() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(5..9, 1);
    for offset in [5, 7, 8] {
        bench.step(0, bench.accept(), offset, acquisition);
        bench.answer(offset, offset, Settlement::Accept, Answer::Confirmed);
    }
    let pins = bench.ledger.pins();
    assert_eq!((pins[0].offset, pins[0].span), (6, 3));
    let partition = (bench.partition.topic_id, bench.partition.partition);
    let is_open = |offset, acquisition| bench.ledger.is_open(partition, offset, acquisition);
    assert!(is_open(6, acquisition));
    assert!(!is_open(5, acquisition), "accepted");
    assert!(!is_open(6, acquisition + 1), "another delivery");
}

#[test]
fn offsets_far_apart_are_not_open_together() {
    let mut bench = Bench::new();
    bench.acquire(0..3, 1);
    bench.acquire(i64::from(u32::MAX)..i64::from(u32::MAX) + 1, 1);
    assert_eq!(bench.ledger.open(), 1);
    assert_eq!(bench.ledger.totals().lost, 3);
}

#[test]
fn a_partition_waits_for_a_flush_when_its_first_record_is_buffered_and_its_span_used_up() {
    let mut bench = Bench::new();
    let acquisition = bench.acquire(0..100, 1);
    assert!(bench.lease(1, 0, acquisition) && bench.lease(2, 1, acquisition));
    bench.step(2, Step::Buffer, 1, acquisition);
    assert!(
        !bench.ledger.waits_for_flush(100),
        "the first one is being put"
    );
    bench.step(1, Step::Buffer, 0, acquisition);
    assert!(bench.ledger.waits_for_flush(100));
    assert!(!bench.ledger.waits_for_flush(101), "there is room");
}

#[test]
fn records_near_the_limit_are_counted_and_the_worst_is_named() {
    let mut bench = Bench::new();
    bench.acquire(0..10, 3);
    assert_eq!(bench.ledger.came_often(4), None);
    bench.acquire(10..12, 4);
    let acquisition = bench.acquire(12..13, 5);
    let near = bench.ledger.came_often(4).unwrap();
    assert_eq!((near.records, near.delivery_count), (3, 5));
    assert_eq!(near.example.to_string(), "orders-0@12");
    bench.step(0, bench.accept(), 12, acquisition);
    let near = bench.ledger.came_often(4).unwrap();
    assert_eq!(
        (near.records, near.example.offset),
        (2, 10),
        "settled is over"
    );
}
