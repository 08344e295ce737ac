//! What may happen to a ledger, in any order.

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::Index;

use super::super::Aside;
use crate::ports::source::Settlement;

const OFFSETS: i64 = 40;
/// Partition (of two) and offset.
pub(super) type Place = (usize, i64);

/// Consecutive offsets of a partition.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) of: usize,
    pub(super) offsets: Range<i64>,
}

impl Run {
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let of = self.of;
        self.offsets.clone().map(move |offset| (of, offset))
    }
}

/// What a sink or a converter may say of a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Settle(Settlement),
    Requeue,
    PutAside(Aside),
    Buffer,
    Hold,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Acquire(Run, u16),
    /// Hands what is open of these to a put.
    Lease(Run),
    /// Hands a delivery of before to a put, which may be over since long.
    LeaseAgain(Index),
    /// A put tells of some of its records, in time, late, or twice.
    Report(Index, usize, Word),
    /// Of records that no put has.
    Convert(Run, Word),
    Renew {
        margin_ms: u64,
    },
    /// The answer to a part of what was sent, or to what was answered before.
    Answer {
        sent: Index,
        skip: i64,
        take: i64,
        known: bool,
    },
    Lose(Run),
    Wait {
        ms: u64,
    },
    Expire,
    /// Settles what nobody has settled, held records too or not.
    SettleRest(Settlement, bool),
}

fn run() -> impl Strategy<Value = Run> {
    (0..2_usize, 0..OFFSETS, 1..10_i64).prop_map(|(of, first, len)| Run {
        of,
        offsets: first..first + len,
    })
}

fn final_settlement() -> impl Strategy<Value = Settlement> {
    prop_oneof![
        3 => Just(Settlement::Accept),
        1 => Just(Settlement::Release),
        1 => Just(Settlement::Reject),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![
        4 => final_settlement().prop_map(Word::Settle),
        1 => Just(Word::Requeue),
        1 => prop_oneof![Just(Aside::Dead), Just(Aside::Parked)].prop_map(Word::PutAside),
        1 => Just(Word::Buffer),
        1 => Just(Word::Hold),
    ]
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let answer = (any::<Index>(), 0..4_i64, 1..12_i64, any::<bool>());
    prop_oneof![
        4 => (run(), 1..6_u16).prop_map(|(run, count)| Op::Acquire(run, count)),
        4 => run().prop_map(Op::Lease),
        1 => any::<Index>().prop_map(Op::LeaseAgain),
        8 => (any::<Index>(), 1..8_usize, word())
            .prop_map(|(put, records, word)| Op::Report(put, records, word)),
        1 => (run(), word()).prop_map(|(run, word)| Op::Convert(run, word)),
        3 => (0..1500_u64).prop_map(|margin_ms| Op::Renew { margin_ms }),
        8 => answer.prop_map(|(sent, skip, take, known)| Op::Answer { sent, skip, take, known }),
        1 => run().prop_map(Op::Lose),
        2 => (0..700_u64).prop_map(|ms| Op::Wait { ms }),
        2 => Just(Op::Expire),
        1 => (final_settlement(), any::<bool>()).prop_map(|(how, held)| Op::SettleRest(how, held)),
    ]
}
