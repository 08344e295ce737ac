//! The ledger against a model that keeps a map of open records: whatever the
//! order of acquisitions, puts, late results, renewals, answers and losses.

mod ops;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tokio::time::Instant;

use super::{Aside, Entry, Ledger, Step, Totals};
use crate::ports::source::{Answer, AnsweredRange, LostRange, SettleRange, Settlement};
use crate::record::SourcePartition;
use crate::testing::partition;
use ops::{Op, Place, Run, Word, op};

const LOCK: Duration = Duration::from_millis(1000);
/// A delivery count that is worth a warning.
const OFTEN: u16 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Delivering,
    Buffered,
    Held,
    Aside(Aside),
    Settling(Settlement),
    /// By ACCEPT, behind its letter.
    SettlingAside(Aside),
}

/// An open record, as the model has it.
#[derive(Clone, Copy, Debug)]
struct Open {
    acquisition: u32,
    lease: u32,
    delivery_count: u16,
    state: State,
    lock_deadline: Instant,
    renewing: bool,
}

impl Open {
    fn is_settling(&self) -> bool {
        matches!(self.state, State::Settling(_) | State::SettlingAside(_))
    }
}

/// One record as one put knows it.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    place: Place,
    acquisition: u32,
    lease: u32,
}

struct Bench {
    ledger: Ledger,
    partitions: [Arc<SourcePartition>; 2],
    now: Instant,
    leases: u32,
    /// All that was ever handed to puts.
    tickets: Vec<Ticket>,
    /// All that the broker was ever told.
    sent: Vec<SettleRange>,
    /// Deliveries that got their final settlement.
    settled: HashSet<(Place, u32)>,
    model: BTreeMap<Place, Open>,
    totals: Totals,
    accepted_of_puts: u64,
    reach: [i64; 2],
}

impl Bench {
    fn new() -> Self {
        Self {
            ledger: Ledger::default(),
            partitions: [partition("orders", 0), partition("orders", 1)],
            now: Instant::now(),
            leases: 0,
            tickets: Vec::new(),
            sent: Vec::new(),
            settled: HashSet::new(),
            model: BTreeMap::new(),
            totals: Totals::default(),
            accepted_of_puts: 0,
            reach: [0; 2],
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Acquire(run, delivery_count) => self.acquire(&run, delivery_count),
            Op::Lease(run) => {
                let open = run.places().filter_map(|place| {
                    let acquisition = self.model.get(&place)?.acquisition;
                    Some((place, acquisition))
                });
                self.lease(&open.collect::<Vec<_>>());
            }
            Op::LeaseAgain(ticket) => {
                if let Some(ticket) = self.ticket(&ticket) {
                    self.lease(&[(ticket.place, ticket.acquisition)]);
                }
            }
            Op::Report(first, records, word) => {
                if !self.tickets.is_empty() {
                    let first = first.index(self.tickets.len());
                    let lease = self.tickets[first].lease;
                    let of_put = self.tickets[first..].iter().take(records);
                    let of_put = of_put.filter(|ticket| ticket.lease == lease).copied();
                    self.step(lease, &of_put.collect::<Vec<_>>(), word);
                }
            }
            Op::Convert(run, word) => {
                let open = run.places().filter_map(|place| {
                    Some(Ticket {
                        place,
                        acquisition: self.model.get(&place)?.acquisition,
                        lease: 0,
                    })
                });
                self.step(0, &open.collect::<Vec<_>>(), word);
            }
            Op::Renew { margin_ms } => self.renew(Duration::from_millis(margin_ms)),
            Op::Answer {
                sent,
                skip,
                take,
                known,
            } => {
                if !self.sent.is_empty() {
                    let mut range = self.sent[sent.index(self.sent.len())].clone();
                    range.first_offset = (range.first_offset + skip).min(range.last_offset);
                    range.last_offset = (range.first_offset + take - 1).min(range.last_offset);
                    self.answer(range, known);
                }
            }
            Op::Lose(run) => self.lose(&run),
            Op::Wait { ms } => self.now += Duration::from_millis(ms),
            Op::Expire => self.expire(),
            Op::SettleRest(settlement, held_too) => self.settle_rest(settlement, held_too),
        }
    }

    fn ticket(&self, index: &Index) -> Option<Ticket> {
        (!self.tickets.is_empty()).then(|| self.tickets[index.index(self.tickets.len())])
    }

    fn acquire(&mut self, run: &Run, delivery_count: u16) {
        let records = run.offsets.clone().map(|offset| (offset, delivery_count));
        let (partition, lock_deadline) = (&self.partitions[run.of], self.now + LOCK);
        let acquisition = self
            .ledger
            .acquire(partition, records, lock_deadline, self.now);
        if !self.model.keys().any(|(of, _)| *of == run.of) {
            self.reach[run.of] = 0;
        }
        self.reach[run.of] = self.reach[run.of].max(run.offsets.end);
        for place in run.places() {
            let open = Open {
                acquisition,
                lease: 0,
                delivery_count,
                state: State::Waiting,
                lock_deadline,
                renewing: false,
            };
            self.totals.acquired += 1;
            self.totals.redelivered += u64::from(delivery_count > 1);
            self.totals.lost += u64::from(self.model.insert(place, open).is_some());
        }
    }

    /// A put gets what waits under the acquisition that it is known by.
    fn lease(&mut self, records: &[(Place, u32)]) {
        self.leases += 1;
        let lease = self.leases;
        let entries = records
            .iter()
            .map(|(place, acquisition)| entry(&self.partitions, *place, *acquisition));
        let mut stale = Vec::new();
        self.ledger
            .lease(lease, entries, |record| stale.push(record));
        for (record, (place, acquisition)) in records.iter().enumerate() {
            let open = self.model.get_mut(place);
            let open = open.filter(|open| open.acquisition == *acquisition);
            let open = open.filter(|open| open.state == State::Waiting);
            assert_eq!(open.is_none(), stale.contains(&record), "{place:?}");
            if let Some(open) = open {
                open.state = State::Delivering;
                open.lease = lease;
                self.tickets.push(Ticket {
                    place: *place,
                    acquisition: *acquisition,
                    lease,
                });
            }
        }
    }

    fn step(&mut self, lease: u32, tickets: &[Ticket], word: Word) {
        let step = match word {
            Word::Settle(settlement) => Step::Settle(settlement, self.now),
            Word::Requeue => Step::Requeue,
            Word::PutAside(aside) => Step::PutAside(aside),
            Word::Buffer => Step::Buffer,
            Word::Hold => Step::Hold,
        };
        let entries = tickets
            .iter()
            .map(|ticket| entry(&self.partitions, ticket.place, ticket.acquisition));
        let (mut settle, mut fenced) = (Vec::new(), Vec::new());
        self.ledger
            .step(lease, step, entries, &mut settle, |record| {
                fenced.push(record);
            });
        let mut expected = BTreeSet::new();
        for (record, ticket) in tickets.iter().enumerate() {
            let taken = self.take(ticket, word);
            assert_eq!(taken, !fenced.contains(&record), "{ticket:?} {word:?}");
            self.totals.fenced += u64::from(!taken);
            if taken && let Word::Settle(_) = word {
                expected.insert(ticket.place);
            }
        }
        let settlement = match word {
            Word::Settle(settlement) => settlement,
            _ => Settlement::Renew,
        };
        self.send(settle, settlement, &expected);
    }

    /// What is told of a delivery counts while it is nobody else's, and not
    /// settled, and not held.
    fn take(&mut self, ticket: &Ticket, word: Word) -> bool {
        let open = self.model.get_mut(&ticket.place);
        let Some(open) = open.filter(|open| open.acquisition == ticket.acquisition) else {
            return false;
        };
        if open.lease != ticket.lease || open.is_settling() || open.state == State::Held {
            return false;
        }
        open.state = match (word, open.state) {
            (Word::Settle(Settlement::Accept), State::Aside(aside)) => State::SettlingAside(aside),
            (Word::Settle(settlement), _) => State::Settling(settlement),
            (Word::Buffer, _) => State::Buffered,
            (Word::Hold, _) => State::Held,
            (Word::Requeue, _) => {
                open.lease = 0;
                State::Waiting
            }
            (Word::PutAside(aside), _) => {
                open.lease = 0;
                State::Aside(aside)
            }
        };
        true
    }

    /// Checks what the broker is to be told: these, once each.
    fn send(
        &mut self,
        ranges: Vec<SettleRange>,
        settlement: Settlement,
        expected: &BTreeSet<Place>,
    ) {
        let mut told = Vec::new();
        for range in &ranges {
            assert_eq!(range.settlement, settlement);
            told.extend(self.places(range));
        }
        told.sort_unstable();
        assert!(told.iter().eq(expected), "{told:?} for {expected:?}");
        for place in told.iter().filter(|_| settlement.is_final()) {
            let acquisition = self.model[place].acquisition;
            let first = self.settled.insert((*place, acquisition));
            assert!(first, "a second final settlement of {place:?}");
        }
        self.sent.extend(ranges);
    }

    fn places(&self, range: &SettleRange) -> Vec<Place> {
        let of = usize::from(range.partition.partition == self.partitions[1].partition);
        let offsets = range.first_offset..=range.last_offset;
        offsets.map(|offset| (of, offset)).collect()
    }

    fn renew(&mut self, margin: Duration) {
        let until = self.now + margin;
        let mut expected = BTreeSet::new();
        for (place, open) in &mut self.model {
            if !open.is_settling() && !open.renewing && open.lock_deadline <= until {
                open.renewing = true;
                expected.insert(*place);
            }
        }
        let ranges = self.ledger.renewals(self.now, |_| margin);
        self.send(ranges, Settlement::Renew, &expected);
    }

    fn answer(&mut self, range: SettleRange, known: bool) {
        let lock_deadline = self.now + LOCK;
        let answer = match (known, range.settlement) {
            (false, _) => Answer::Unknown { cause: "?".into() },
            (true, Settlement::Renew) => Answer::Renewed { lock_deadline },
            (true, _) => Answer::Confirmed,
        };
        for place in self.places(&range) {
            self.take_answer(place, range.settlement, known, lock_deadline);
        }
        self.ledger
            .answered(&AnsweredRange { range, answer }, self.now);
    }

    fn take_answer(
        &mut self,
        place: Place,
        settlement: Settlement,
        known: bool,
        lock_deadline: Instant,
    ) {
        let Some(open) = self.model.get_mut(&place) else {
            return;
        };
        let (totals, lease) = (&mut self.totals, open.lease);
        if settlement == Settlement::Renew {
            if open.is_settling() || !open.renewing {
                return;
            }
            if known {
                open.renewing = false;
                open.lock_deadline = lock_deadline;
                totals.renewed += 1;
                return;
            }
            totals.lost += 1;
        } else if let (State::SettlingAside(aside), Settlement::Accept) = (open.state, settlement) {
            match (known, aside) {
                (false, _) => totals.unknown += 1,
                (true, Aside::Dead) => totals.rejected += 1,
                (true, Aside::Parked) => totals.parked += 1,
            }
        } else if open.state != State::Settling(settlement) {
            return;
        } else {
            match (known, settlement) {
                (false, _) => totals.unknown += 1,
                (_, Settlement::Release) => totals.released += 1,
                (_, Settlement::Reject) => totals.rejected += 1,
                _ => {
                    totals.accepted += 1;
                    self.accepted_of_puts += u64::from(lease != 0);
                }
            }
        }
        self.model.remove(&place);
    }

    fn lose(&mut self, run: &Run) {
        let lost = LostRange {
            partition: Arc::clone(&self.partitions[run.of]),
            first_offset: run.offsets.start,
            last_offset: run.offsets.end - 1,
            cause: "?".into(),
        };
        self.ledger.lost(&lost, self.now);
        let lost: HashSet<Place> = run.places().collect();
        self.drop_unsettled(|place, _| lost.contains(&place));
    }

    fn expire(&mut self) {
        let now = self.now;
        let expired = self.drop_unsettled(|_, open| open.lock_deadline <= now);
        assert_eq!(self.ledger.expire(now), expired);
    }

    fn drop_unsettled(&mut self, gone: impl Fn(Place, &Open) -> bool) -> usize {
        let before = self.model.len();
        self.model
            .retain(|place, open| open.is_settling() || !gone(*place, open));
        let dropped = before - self.model.len();
        self.totals.lost += dropped as u64;
        dropped
    }

    fn settle_rest(&mut self, settlement: Settlement, held_too: bool) {
        let mut expected = BTreeSet::new();
        for (place, open) in &mut self.model {
            let is_held = open.state == State::Held;
            if !open.is_settling() && (held_too || !is_held) {
                open.state = State::Settling(settlement);
                expected.insert(*place);
            }
        }
        let may = |record: super::Unsettled<'_>| held_too || !record.held;
        let ranges = self.ledger.settle_rest(settlement, may);
        self.send(ranges, settlement, &expected);
    }

    /// What can be asked of the ledger is what the model says.
    fn check(&self) {
        let (ledger, model) = (&self.ledger, &self.model);
        let open = model.values();
        let held = open.clone().filter(|open| open.state == State::Held);
        assert_eq!(ledger.open(), model.len());
        assert_eq!(ledger.held(), held.count());
        assert_eq!(ledger.totals(), self.totals);
        let unsettled = open.filter(|open| !open.is_settling());
        let counts = unsettled.map(|open| open.delivery_count);
        assert_eq!(ledger.highest_delivery_count(), counts.clone().max());
        assert_eq!(ledger.unsettled().count(), counts.clone().count());
        let near = ledger.came_often(OFTEN).map_or(0, |near| near.records);
        assert_eq!(near, counts.filter(|count| *count >= OFTEN).count());
        let times = ledger.times();
        assert_eq!(times.accept.count, self.totals.accepted);
        assert_eq!(times.settlement.count(), self.accepted_of_puts);
        self.check_pins();
        for ticket in &self.tickets {
            let (of, offset) = ticket.place;
            let partition = &self.partitions[of];
            let key = (partition.topic_id, partition.partition);
            let open = model.get(&ticket.place);
            let open = open.is_some_and(|open| open.acquisition == ticket.acquisition);
            assert_eq!(ledger.is_open(key, offset, ticket.acquisition), open);
        }
    }

    fn check_pins(&self) {
        let mut pins: Vec<(i32, i64, u64, bool)> = self
            .ledger
            .pins()
            .iter()
            .map(|pin| {
                (
                    pin.partition.partition,
                    pin.offset,
                    pin.span,
                    pin.is_buffered,
                )
            })
            .collect();
        pins.sort_unstable();
        let first = |of: usize| {
            let mut open = self.model.iter().filter(|(place, _)| place.0 == of);
            let ((_, offset), open) = open.next()?;
            let span = (self.reach[of] - offset) as u64;
            Some((of as i32, *offset, span, open.state == State::Buffered))
        };
        let expected: Vec<(i32, i64, u64, bool)> = (0..2).filter_map(first).collect();
        assert_eq!(pins, expected);
    }
}

fn entry(partitions: &[Arc<SourcePartition>; 2], place: Place, acquisition: u32) -> Entry<'_> {
    Entry {
        partition: &partitions[place.0],
        offset: place.1,
        acquisition,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn keeps_the_books_of_a_simple_model(ops in prop::collection::vec(op(), 1..150)) {
        let mut bench = Bench::new();
        for op in ops {
            bench.apply(op);
            bench.check();
        }
    }
}
