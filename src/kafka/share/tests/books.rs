//! One partition's book: every settled offset is answered exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{Answer, SettleRange, Settlement};
use sluice_actors::record::{AcquiredBatch, CorruptRange, SourcePartition, TopicId};
use sluice_actors::testing::raw_record;
use tokio::time::Instant;

use super::sim::key;
use crate::kafka::share::records::AcquiredRange;
use crate::kafka::share::request::{Acquired, Acquisition, Read};
use crate::kafka::share::settlements::{AckBatch, AckType, Book, Told};
use crate::kafka::share::verdicts::Refused;

const LOCK: Duration = Duration::from_secs(10);

fn partition() -> Arc<SourcePartition> {
    Arc::new(SourcePartition {
        topic: "orders".into(),
        topic_id: TopicId([7; 16]),
        partition: 3,
    })
}

/// A book with a clock, and what it told.
struct Desk {
    book: Book,
    partition: Arc<SourcePartition>,
    acquisition: Acquisition,
    now: Instant,
    told: Told,
}

impl Desk {
    fn new() -> Self {
        let partition = partition();
        Self {
            book: Book::new(Arc::clone(&partition)),
            partition,
            acquisition: Acquisition(0),
            now: Instant::now(),
            told: Told::default(),
        }
    }

    fn holding(first: i64, last: i64) -> Self {
        let mut desk = Self::new();
        desk.acquire(first, last);
        desk
    }

    fn acquire(&mut self, first: i64, last: i64) {
        self.acquisition.0 += 1;
        let acquired = self.acquired(first, last);
        self.book.acquire(&acquired, &mut self.told);
    }

    /// Of the last acquisition.
    fn acquired(&self, first: i64, last: i64) -> Acquired {
        Acquired {
            acquisition: self.acquisition,
            partition: Arc::clone(&self.partition),
            ranges: vec![AcquiredRange {
                first,
                last,
                delivery_count: 1,
            }],
            doubled: false,
            deadline: self.now + LOCK,
            lock: LOCK,
            arrived_at: self.now,
            bytes: None,
            held: Credit::new(0).hold(0),
        }
    }

    /// What was acquired last was read; gives back the offsets of its records.
    fn read(&mut self, records: std::ops::Range<i64>, gaps: &[(i64, i64)]) -> Vec<i64> {
        let kept = self.read_also(records, gaps, &[]);
        let records = kept.into_iter().flat_map(|batch| batch.records);
        records.map(|record| record.offset).collect()
    }

    fn read_also(
        &mut self,
        records: std::ops::Range<i64>,
        gaps: &[(i64, i64)],
        corrupt: &[(i64, i64)],
    ) -> Option<AcquiredBatch> {
        let corrupt = corrupt
            .iter()
            .map(|&(first_offset, last_offset)| CorruptRange {
                first_offset,
                last_offset,
                delivery_count: 1,
                cause: "CRC".into(),
            });
        let batch = AcquiredBatch {
            partition: Arc::clone(&self.partition),
            records: records.map(raw_record).collect(),
            corrupt: corrupt.collect(),
            strays: Vec::new(),
            lock_deadline: self.now + LOCK,
            lock: LOCK,
            acquired_at: self.now,
            held: Credit::new(0).hold(0),
        };
        self.book.read(Read {
            broker: 1,
            key: key(3),
            batch: Some(batch),
            gaps: gaps.to_vec(),
            acquisition: self.acquisition,
            packed: 0,
            unpacked: 0,
        })
    }

    fn settle(&mut self, first: i64, last: i64, settlement: Settlement) {
        let range = SettleRange {
            partition: Arc::clone(&self.partition),
            first_offset: first,
            last_offset: last,
            settlement,
        };
        self.book.settle(&range, &mut self.told);
    }

    fn take(&mut self) -> Vec<(i64, i64, AckType)> {
        shape(self.book.take(true, self.now))
    }

    fn confirm(&mut self) {
        self.book.confirm(self.now + LOCK, &mut self.told);
    }

    fn refuse(&mut self, retriable: bool) {
        let refused = Refused {
            cause: "INVALID_RECORD_STATE".into(),
            retriable,
        };
        self.book.refuse(&refused, self.now, &mut self.told);
    }

    /// Offsets by answer: confirmed, renewed, unknown.
    fn answers(&self) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
        let (mut confirmed, mut renewed, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for answered in &self.told.answered {
            let offsets = answered.range.first_offset..=answered.range.last_offset;
            match answered.answer {
                Answer::Confirmed => confirmed.extend(offsets),
                Answer::Renewed { .. } => renewed.extend(offsets),
                Answer::Unknown { .. } => unknown.extend(offsets),
            }
        }
        confirmed.sort_unstable();
        unknown.sort_unstable();
        (confirmed, renewed, unknown)
    }

    fn lost(&self) -> Vec<(i64, i64)> {
        let ranges = self.told.lost.iter();
        ranges
            .map(|range| (range.first_offset, range.last_offset))
            .collect()
    }
}

fn shape(batches: &[AckBatch]) -> Vec<(i64, i64, AckType)> {
    batches
        .iter()
        .map(|batch| (batch.first, batch.last, batch.kind))
        .collect()
}

#[test]
fn settlements_go_out_merged_and_in_ascending_order() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(7, 7, Settlement::Release);
    for offset in [2, 0, 1, 9] {
        desk.settle(offset, offset, Settlement::Accept);
    }
    desk.settle(4, 5, Settlement::Renew);
    assert_eq!(
        desk.take(),
        [
            (0, 2, AckType::Accept),
            (4, 5, AckType::Renew),
            (7, 7, AckType::Release),
            (9, 9, AckType::Accept)
        ]
    );
}

#[test]
fn records_of_different_fetches_share_a_range_that_keeps_the_earlier_deadline() {
    let mut desk = Desk::holding(0, 4);
    let earlier = desk.now + LOCK;
    desk.now += Duration::from_secs(1);
    desk.acquire(5, 9);
    desk.settle(0, 9, Settlement::Accept);
    let batches = desk.book.take(true, desk.now);
    assert_eq!(shape(batches), [(0, 9, AckType::Accept)]);
    assert_eq!(batches[0].deadline, earlier);
}

#[test]
fn a_final_settlement_replaces_a_renewal_without_an_answer_to_it() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 9, Settlement::Renew);
    desk.settle(3, 3, Settlement::Accept);
    assert_eq!(
        desk.take(),
        [
            (0, 2, AckType::Renew),
            (3, 3, AckType::Accept),
            (4, 9, AckType::Renew)
        ]
    );
    // Settled while its renewal is in flight.
    desk.settle(5, 5, Settlement::Accept);
    desk.confirm();
    let (confirmed, renewed, unknown) = desk.answers();
    assert_eq!(confirmed, [3]);
    assert_eq!(renewed, [0, 1, 2, 4, 6, 7, 8, 9]);
    assert!(unknown.is_empty());
    assert_eq!(desk.take(), [(5, 5, AckType::Accept)]);
}

#[test]
fn a_final_settlement_replaces_a_renewal_that_was_refused() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 9, Settlement::Renew);
    desk.take();
    // Settled before the refusal, and after it.
    desk.settle(7, 7, Settlement::Accept);
    desk.refuse(true);
    desk.settle(2, 2, Settlement::Release);
    desk.now = desk.book.retry_at().unwrap();
    let mut sent = Vec::new();
    while desk.book.has_work() {
        sent.extend(desk.take());
        desk.confirm();
    }
    sent.sort_unstable_by_key(|(first, ..)| *first);
    assert_eq!(
        sent,
        [
            (0, 1, AckType::Renew),
            (2, 2, AckType::Release),
            (3, 6, AckType::Renew),
            (7, 7, AckType::Accept),
            (8, 9, AckType::Renew),
        ]
    );
    let (confirmed, renewed, unknown) = desk.answers();
    assert_eq!((confirmed.len(), renewed.len(), unknown.len()), (2, 8, 0));
}

#[test]
fn a_fetch_leaves_renewals_behind() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 4, Settlement::Renew);
    desk.settle(5, 9, Settlement::Accept);
    assert!(desk.book.is_renewal_due(desk.now));
    let batches = desk.book.take(false, desk.now);
    assert_eq!(shape(batches), [(5, 9, AckType::Accept)]);
    desk.confirm();
    assert_eq!(desk.take(), [(0, 4, AckType::Renew)]);
}

#[test]
fn a_settlement_that_meets_no_lock_is_unknown_at_once() {
    let mut desk = Desk::holding(2, 3);
    desk.settle(0, 5, Settlement::Accept);
    desk.settle(2, 2, Settlement::Release);
    assert_eq!(desk.answers().2, [0, 1, 2, 4, 5]);
    assert_eq!(desk.take(), [(2, 3, AckType::Accept)]);
}

#[test]
fn a_refused_record_is_found_by_halving_and_the_others_are_confirmed() {
    let mut desk = Desk::holding(0, 99);
    desk.settle(0, 49, Settlement::Accept);
    desk.settle(50, 99, Settlement::Release);
    let mut requests = 0;
    while desk.book.has_work() {
        requests += 1;
        let batches = desk.take();
        if batches
            .iter()
            .any(|(first, last, _)| (first..=last).contains(&&37))
        {
            desk.refuse(false);
        } else {
            desk.confirm();
        }
    }
    let (confirmed, _, unknown) = desk.answers();
    assert_eq!(unknown, [37]);
    assert_eq!(confirmed.len(), 99);
    assert!(requests <= 16, "{requests} requests");
}

#[test]
fn fresh_settlements_take_turns_with_those_tried_again() {
    let mut desk = Desk::holding(0, 99);
    desk.settle(0, 63, Settlement::Accept);
    desk.take();
    desk.refuse(false);
    desk.settle(80, 80, Settlement::Accept);
    assert_eq!(desk.take(), [(0, 31, AckType::Accept)]);
    desk.refuse(false);
    assert_eq!(desk.take(), [(80, 80, AckType::Accept)]);
}

#[test]
fn what_the_broker_cannot_take_now_is_sent_again_later_while_the_lock_lasts() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 9, Settlement::Accept);
    desk.take();
    desk.refuse(true);
    assert!(desk.take().is_empty());
    desk.now = desk.book.retry_at().unwrap();
    assert_eq!(desk.take(), [(0, 9, AckType::Accept)]);
    desk.now += LOCK;
    desk.refuse(true);
    assert_eq!(desk.answers().2.len(), 10);
    assert!(desk.book.is_empty());
}

#[test]
fn a_renewal_that_fails_for_good_ends_the_lock() {
    let mut desk = Desk::holding(0, 0);
    desk.settle(0, 0, Settlement::Renew);
    desk.take();
    desk.refuse(false);
    assert_eq!(desk.answers().2, [0]);
    assert_eq!(desk.book.open(), 0);
}

#[test]
fn a_request_that_the_broker_did_not_look_at_goes_out_again_as_it_was() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 4, Settlement::Accept);
    desk.settle(5, 9, Settlement::Renew);
    let before = desk.take();
    desk.settle(7, 7, Settlement::Accept);
    desk.book.put_back();
    assert!(desk.told.answered.is_empty());
    assert_eq!(before, [(0, 4, AckType::Accept), (5, 9, AckType::Renew)]);
    assert_eq!(
        desk.take(),
        [
            (0, 4, AckType::Accept),
            (5, 6, AckType::Renew),
            (7, 7, AckType::Accept),
            (8, 9, AckType::Renew)
        ]
    );
}

#[test]
fn a_lost_session_makes_settlements_unknown_and_loses_what_is_held() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 1, Settlement::Accept);
    desk.take();
    desk.settle(2, 3, Settlement::Release);
    desk.book.lose(&"connection lost".into(), &mut desk.told);
    assert_eq!(desk.answers().2, [0, 1, 2, 3]);
    assert_eq!(desk.lost(), [(4, 9)]);
    assert!(desk.book.is_empty());
}

#[test]
fn a_record_given_out_again_is_lost_before_it_is_held_anew() {
    let mut desk = Desk::holding(0, 9);
    desk.settle(0, 2, Settlement::Accept);
    desk.take();
    desk.refuse(false);
    desk.settle(4, 4, Settlement::Release);
    desk.settle(5, 5, Settlement::Renew);
    desk.acquire(1, 5);
    assert_eq!(desk.lost(), [(3, 3), (5, 5)]);
    assert_eq!(desk.answers().2, [1, 2, 4, 5]);
    // The new lock is not settled by what was meant for the old one.
    desk.take();
    desk.confirm();
    assert_eq!(desk.answers().0, [0]);
    assert_eq!(desk.book.open(), 9);
}

#[test]
fn a_lock_that_ended_without_a_settlement_is_lost() {
    let mut desk = Desk::holding(0, 4);
    desk.settle(0, 0, Settlement::Accept);
    desk.now += LOCK;
    desk.book.expire(desk.now, &mut desk.told);
    assert!(desk.lost().is_empty(), "some grace for what is on its way");
    desk.now += Duration::from_secs(1);
    desk.book.expire(desk.now, &mut desk.told);
    assert_eq!(desk.lost(), [(1, 4)]);
    assert_eq!(desk.book.open(), 1);
}

#[test]
fn gaps_are_settled_unasked_and_never_told() {
    let mut desk = Desk::holding(0, 5);
    assert_eq!(desk.read(0..4, &[(4, 5)]), [0, 1, 2, 3]);
    assert_eq!(desk.take(), [(4, 5, AckType::Gap)]);
    desk.confirm();
    desk.book.lose(&"closed".into(), &mut desk.told);
    assert!(desk.told.answered.is_empty());
    assert_eq!(desk.lost(), [(0, 3)]);
}

#[test]
fn an_acquisition_is_being_renewed_until_all_that_is_left_of_it_has_its_answer() {
    let mut desk = Desk::holding(0, 5);
    let first = desk.acquired(0, 5);
    assert!(!desk.book.is_renewing(&first));
    desk.book.renew_acquired(&first);
    assert!(desk.book.is_renewing(&first), "asked for");
    desk.take();
    assert!(desk.book.is_renewing(&first), "sent");
    desk.refuse(true);
    assert!(desk.book.is_renewing(&first), "to be sent again");
    // What comes again is another acquisition's, and so is the rest of this one.
    desk.acquire(4, 5);
    let (second, rest) = (desk.acquired(4, 5), desk.acquired(9, 9));
    assert!(!desk.book.is_renewing(&second) && !desk.book.is_renewing(&rest));
    desk.now = desk.book.retry_at().unwrap();
    assert_eq!(desk.take(), [(0, 3, AckType::Renew)]);
    desk.confirm();
    assert!(!desk.book.is_renewing(&first));
    desk.book.renew_acquired(&second);
    assert!(!desk.book.is_renewing(&first), "has nothing left there");
}

#[test]
fn a_gap_is_not_renewed() {
    let mut desk = Desk::holding(0, 5);
    desk.book.renew(0, 5);
    assert_eq!(desk.read(0..4, &[(4, 5)]), [0, 1, 2, 3]);
    let sent = [(0, 3, AckType::Renew), (4, 5, AckType::Gap)];
    assert_eq!(desk.take(), sent);
    desk.confirm();
    let (confirmed, renewed, unknown) = desk.answers();
    assert_eq!((confirmed, renewed), (Vec::new(), vec![0, 1, 2, 3]));
    assert!(unknown.is_empty() && !desk.book.has_work());
}

#[test]
fn what_lost_its_lock_before_it_was_read_is_left_out() {
    let mut desk = Desk::holding(0, 5);
    let first = desk.acquisition;
    desk.acquire(2, 3);
    let again = std::mem::replace(&mut desk.acquisition, first);
    assert_eq!(desk.read(0..5, &[(3, 3), (5, 5)]), [0, 1, 4]);
    desk.acquisition = again;
    assert_eq!(desk.read(2..4, &[]), [2, 3], "the newer acquisition stands");
    assert_eq!(desk.take(), [(5, 5, AckType::Gap)]);
    desk.book.lose(&"connection lost".into(), &mut desk.told);
    assert!(desk.read(2..4, &[]).is_empty());
}

#[test]
fn corrupt_offsets_are_told_as_far_as_their_locks_last() {
    let mut desk = Desk::holding(0, 9);
    // One part is renewed, another one comes again.
    desk.settle(0, 1, Settlement::Renew);
    desk.take();
    desk.now += Duration::from_secs(1);
    desk.confirm();
    let first = desk.acquisition;
    desk.acquire(4, 5);
    desk.acquisition = first;
    let batch = desk.read_also(0..0, &[], &[(0, 9)]).unwrap();
    let corrupt = batch.corrupt.iter();
    let told: Vec<_> = corrupt.map(|c| (c.first_offset, c.last_offset)).collect();
    assert_eq!(told, [(0, 1), (2, 3), (6, 9)]);
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(i64, i64),
    Settle(i64, i64, Settlement),
    Exchange {
        with_renewals: bool,
        refuse: Option<bool>,
    },
    PutBack,
    Lose,
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let span = || (0_i64..30, 0_i64..6).prop_map(|(first, more)| (first, first + more));
    let settlement = prop_oneof![
        4 => Just(Settlement::Accept),
        1 => Just(Settlement::Release),
        1 => Just(Settlement::Reject),
        2 => Just(Settlement::Renew),
    ];
    prop_oneof![
        3 => span().prop_map(|(first, last)| Step::Acquire(first, last)),
        5 => (span(), settlement).prop_map(|((first, last), s)| Step::Settle(first, last, s)),
        4 => (any::<bool>(), prop::option::of(any::<bool>()))
            .prop_map(|(with_renewals, refuse)| Step::Exchange { with_renewals, refuse }),
        1 => Just(Step::PutBack),
        1 => Just(Step::Lose),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn every_settled_offset_is_answered_exactly_once(steps in prop::collection::vec(step(), 0..80)) {
        let mut desk = Desk::new();
        let mut asked: BTreeMap<i64, u32> = BTreeMap::new();
        let mut given: BTreeMap<i64, u32> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Acquire(first, last) => {
                    for offset in first..=last {
                        *given.entry(offset).or_default() += 1;
                    }
                    desk.acquire(first, last);
                }
                Step::Settle(first, last, settlement) => {
                    if settlement.is_final() {
                        for offset in first..=last {
                            *asked.entry(offset).or_default() += 1;
                        }
                    }
                    desk.settle(first, last, settlement);
                }
                Step::Exchange { with_renewals, refuse } => {
                    let batches = shape(desk.book.take(with_renewals, desk.now));
                    for pair in batches.windows(2) {
                        prop_assert!(pair[0].1 < pair[1].0, "overlap or disorder: {batches:?}");
                    }
                    prop_assert!(with_renewals || batches.iter().all(|b| b.2 != AckType::Renew));
                    match refuse {
                        Some(retriable) => desk.refuse(retriable),
                        None => desk.confirm(),
                    }
                    desk.now += Duration::from_millis(400);
                }
                Step::PutBack => {
                    desk.book.take(true, desk.now);
                    desk.book.put_back();
                }
                Step::Lose => desk.book.lose(&"lost".into(), &mut desk.told),
                Step::Expire => {
                    desk.now += LOCK;
                    desk.book.expire(desk.now, &mut desk.told);
                }
            }
        }
        desk.book.lose(&"the end".into(), &mut desk.told);
        prop_assert!(desk.book.is_empty());
        prop_assert_eq!(desk.book.open(), 0);
        let mut answered: BTreeMap<i64, u32> = BTreeMap::new();
        for answer in &desk.told.answered {
            if answer.range.settlement.is_final() {
                for offset in answer.range.first_offset..=answer.range.last_offset {
                    *answered.entry(offset).or_default() += 1;
                }
            }
        }
        prop_assert_eq!(&answered, &asked);
        for (first, last) in desk.lost() {
            for offset in first..=last {
                let left = given.get_mut(&offset);
                prop_assert!(left.is_some_and(|left| { *left -= 1; true }), "lost more than was given");
            }
        }
    }
}
