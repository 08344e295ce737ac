//! Steps with parked records: into the parking topic, and back from it.

use std::sync::Arc;

use tokio::time::Instant;

use super::policy::Again;
use super::settling::{PutRef, key};
use super::{Books, Effects, Failing, Letter, Notice, entry};
use crate::chunk::Holds;
use crate::ledger::{Aside, Pin, Step};
use crate::outcome::Cause;
use crate::parking::{Failure, ParkingPolicy};
use crate::ports::parking::ToPark;
use crate::record::SinkRecord;
use crate::work_queue::Work;

impl Books {
    /// Whether parking is what becomes of a record that failed now. Nothing is
    /// parked while the sink takes no records at all.
    pub(super) fn parks(
        &self,
        record: &SinkRecord,
        before: Option<Failing>,
        now: Instant,
    ) -> Option<Again> {
        let policy = self.policy.parking?;
        if !self.circuit.is_closed() || record.original.is_none() {
            return None;
        }
        let timeout = self.policy.retry.timeout;
        if let Some(parked) = &record.parked {
            return Some(match policy.comes_in_time(parked.since, timeout, now) {
                true => Again::Park,
                false => Again::PutAside,
            });
        }
        let failure = Failure {
            since: before.map_or(now, |before| before.since),
            before: before.map(|before| before.last),
            pins: self.holds_up(&policy, record),
        };
        let parks = policy.parks(&failure, self.delivered_at, now)
            && policy.comes_in_time(failure.since, timeout, now);
        parks.then_some(Again::Park)
    }

    /// Whether a record is, or would be next, what keeps its partition back.
    fn holds_up(&self, policy: &ParkingPolicy, record: &SinkRecord) -> bool {
        let pin = self.ledger.pin(&record.partition);
        pin.is_some_and(|pin| is_pinning(policy, &pin, record))
    }

    /// Parks a record of a put.
    pub(super) fn park_put(
        &mut self,
        put: &PutRef,
        place: usize,
        cause: &Cause,
        effects: &mut Effects,
    ) {
        let (record, holds) = (&put.chunk[place], put.chunk.holds());
        self.park(put.lease, record, holds, effects);
        match effects.notices.last_mut() {
            Some(Notice::Parking { records, .. }) => *records += 1,
            _ => effects.notices.push(Notice::Parking {
                records: 1,
                cause: Some(Arc::clone(cause)),
            }),
        }
    }

    /// Parks the failed records that keep a partition back and wait for their
    /// next try, for which the others must not wait.
    pub(super) fn park_pins(&mut self, now: Instant, effects: &mut Effects) {
        let Some(policy) = self.policy.parking else {
            return;
        };
        if !self.circuit.is_closed() || self.queue.waiting() == 0 {
            return;
        }
        let pins = self.pins();
        let (failing, timeout) = (&self.failing, self.policy.retry.timeout);
        let may_park = |record: &SinkRecord| {
            // Without an entry it found the sink unavailable, over and over,
            // while the sink took others.
            let keeps_failing = failing.get(&key(entry(record))).is_none_or(|failing| {
                failing.others_go_on && policy.comes_in_time(failing.since, timeout, now)
            });
            record.parked.is_none() && record.original.is_some() && keeps_failing
        };
        let mut pinning = Vec::new();
        for pin in pins {
            if policy.is_used_up(pin.span) {
                let is_meant =
                    |record: &SinkRecord| is_pinning(&policy, &pin, record) && may_park(record);
                pinning.extend(self.queue.take_waiting(is_meant));
            }
        }
        if pinning.is_empty() {
            return;
        }
        effects.notices.push(Notice::Parking {
            records: pinning.len(),
            cause: None,
        });
        for work in &pinning {
            for record in &work.records {
                self.park(0, record, &work.holds, effects);
            }
        }
    }

    fn park(&mut self, lease: u32, record: &SinkRecord, holds: &Holds, effects: &mut Effects) {
        let entry = entry(record);
        let since = match (&record.parked, self.failing.remove(&key(entry))) {
            (Some(parked), _) => parked.since,
            (None, Some(failing)) => failing.since,
            (None, None) => self.now,
        };
        let Some(original) = record.original.clone() else {
            return;
        };
        let mut fenced = false;
        let (one, step) = (std::iter::once(entry), Step::PutAside(Aside::Parked));
        self.ledger
            .step(lease, step, one, &mut effects.settle, |_| fenced = true);
        if fenced {
            return;
        }
        self.finished += 1;
        let count = record.parked.as_ref().map_or(0, |parked| parked.count);
        let letter = Letter::Parked(ToPark {
            record: record.id(),
            original,
            count: count + 1,
            since,
        });
        self.write(letter, entry, holds.clone(), effects);
    }

    /// Takes records that come back. One that is not due waits for it under its
    /// lock, unless its next return would archive it.
    pub(super) fn take_parked(&mut self, records: Vec<SinkRecord>, holds: &Holds) {
        let now = self.now;
        let mut due = Vec::new();
        for record in records {
            match self.waits_until(&record, now) {
                Some(at) => {
                    let mut work = Work {
                        records: vec![record],
                        holds: holds.clone(),
                        kills: 0,
                        refusals: 0,
                    };
                    self.copy_out(&mut work);
                    self.queue.push_later(at, work);
                }
                None => due.push(record),
            }
        }
        self.queue.push(due, holds.clone());
    }

    fn waits_until(&self, record: &SinkRecord, now: Instant) -> Option<Instant> {
        let (policy, parked) = (self.policy.parking?, record.parked.as_deref()?);
        let due = policy.due(parked, now);
        let may_wait = !self.hurries && self.policy.gate.may_release(record.delivery_count);
        (due > now && may_wait).then_some(due)
    }

    /// Parked records are put whether they are due or not: the worker is to
    /// stop, and they would only lose an attempt.
    pub fn hurry_parked(&mut self) -> Effects {
        self.hurries = true;
        let mut effects = Effects::default();
        for work in self.queue.take_waiting(|record| record.parked.is_some()) {
            self.put_again(work, &mut effects);
        }
        effects
    }

    /// How records are parked, if they are.
    #[must_use]
    pub const fn parking(&self) -> Option<ParkingPolicy> {
        self.policy.parking
    }

    /// Names the topic that parked records come back from.
    pub fn park_in(&mut self, topic: Arc<str>) {
        self.parking_topic = Some(topic);
    }

    /// Parked records that are not answered for.
    #[must_use]
    pub fn open_parked(&self) -> usize {
        let topic = self.parking_topic.as_ref();
        topic.map_or(0, |topic| self.ledger.open_in(topic))
    }

    /// The first open offset of each partition of the connector's own topics,
    /// the one that has waited longest first. Parked records keep nothing back.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        let mut pins = self.ledger.pins();
        pins.retain(|pin| !self.is_parking_topic(&pin.partition.topic));
        pins
    }

    /// The connector's own topics that records have come from, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<str>> {
        let mut topics = self.ledger.topics();
        topics.retain(|topic| !self.is_parking_topic(topic));
        topics
    }

    fn is_parking_topic(&self, topic: &str) -> bool {
        self.parking_topic.as_deref() == Some(topic)
    }
}

/// Whether a record is the first open one of a partition whose span is used
/// up, or close behind it.
fn is_pinning(policy: &ParkingPolicy, pin: &Pin, record: &SinkRecord) -> bool {
    let (of, at) = (&record.partition, &pin.partition);
    (of.topic_id, of.partition) == (at.topic_id, at.partition)
        && policy.is_used_up(pin.span)
        && record.offset < pin.offset + policy.reach()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{batch, ranges};
    use super::super::{Put, PutEnd, Tolerance};
    use super::*;
    use crate::credit::Credit;
    use crate::ports::source::{LostRange, Settlement};
    use crate::record::{Parked, RecordId};
    use crate::testing::{partition, policy, raw_record, record};

    const SECOND: Duration = Duration::from_secs(1);

    fn books() -> Books {
        let mut policy = policy(1, Tolerance::All);
        policy.parking = Some(ParkingPolicy {
            after: 10 * SECOND,
            backoff: 60 * SECOND,
            span: 100,
        });
        Books::new(policy, Credit::new(1000))
    }

    /// Acquires records, and hands them to a task with their originals.
    fn deliver(books: &mut Books, offsets: std::ops::Range<i64>) -> Put {
        let batch = batch(offsets.clone(), 1);
        let acquisition = books.acquire(&batch, &mut Effects::default());
        let records = offsets.map(|offset| {
            let mut record = record(&batch.partition, offset, acquisition);
            record.original = Some(Arc::new(raw_record(offset)));
            record
        });
        books.converted(records.collect(), Holds::default());
        books.dispatch(3, Instant::now()).unwrap()
    }

    fn end(books: &mut Books, put: &Put, at: Instant) -> Effects {
        books.put_ended(put.lease, PutEnd::Answered(Ok(())), false, at)
    }

    /// The sink wants the first record of a put again, and has the others.
    fn fail_first(books: &mut Books, put: &Put, at: Instant) -> Effects {
        put.report.retry(0, "busy");
        end(books, put, at)
    }

    fn next_to_park(books: &mut Books) -> (u64, ToPark) {
        let (ticket, letter) = books.next_letter(Instant::now()).unwrap();
        match &*letter {
            Letter::Parked(record) => (ticket, record.clone()),
            Letter::Dead(letter) => panic!("dead: {letter:?}"),
        }
    }

    /// Records that come back from the parking topic, from its offset 0 on.
    fn come_back(books: &mut Books, due: Instant, delivery_count: u16, count: u32) {
        let place = partition("parked", 0);
        let mut batch = batch(0..1, delivery_count);
        batch.partition = Arc::clone(&place);
        let acquisition = books.acquire(&batch, &mut Effects::default());
        let mut back = record(&partition("orders", 0), 7, acquisition);
        back.delivery_count = delivery_count;
        back.original = Some(Arc::new(raw_record(0)));
        back.parked = Some(Arc::new(Parked {
            origin: back.id(),
            place: RecordId {
                partition: place,
                offset: 0,
            },
            count,
            since: Instant::now(),
            due,
        }));
        books.converted(vec![back], Holds::default());
    }

    #[test]
    fn a_record_that_fails_once_is_tried_again_where_it_is() {
        let mut books = books();
        let put = deliver(&mut books, 0..2);
        let effects = fail_first(&mut books, &put, Instant::now());
        assert!(!effects.letters && books.letters().is_empty());
        assert_eq!(books.queue().waiting(), 1);
    }

    #[test]
    fn what_pins_a_partition_is_parked_from_where_it_waits_and_accepted_behind_that() {
        let mut books = books();
        let now = Instant::now();
        let first = deliver(&mut books, 0..2);
        fail_first(&mut books, &first, now);
        let again = books.dispatch(3, now + SECOND).unwrap();
        fail_first(&mut books, &again, now + SECOND);
        let reaching = deliver(&mut books, 73..74);
        end(&mut books, &reaching, now + SECOND);
        assert!(books.watch_locks(now + SECOND).notices.is_empty());
        assert!(
            books.letters().is_empty(),
            "three quarters are not reached yet"
        );
        let reaching = deliver(&mut books, 74..75);
        end(&mut books, &reaching, now + SECOND);
        let effects = books.watch_locks(now + SECOND);
        assert!(effects.letters && effects.settle.is_empty());
        assert_eq!(books.queue().waiting(), 0);
        let (ticket, parked) = next_to_park(&mut books);
        assert_eq!(parked.record.to_string(), "orders-0@0");
        assert_eq!((parked.count, parked.since), (1, now));
        let effects = books.letters_ended(vec![(ticket, Ok(()))], now + SECOND);
        assert_eq!(ranges(&effects), [(0, 0, Settlement::Accept)]);
        assert!(effects.put_aside.is_empty(), "it is no dead letter");
        assert_eq!(books.letters().totals(), Default::default());
    }

    #[test]
    fn a_record_that_failed_before_the_others_were_taken_gets_another_try() {
        let mut books = books();
        let now = Instant::now();
        let first = deliver(&mut books, 0..1);
        fail_first(&mut books, &first, now);
        let reaching = deliver(&mut books, 90..91);
        end(&mut books, &reaching, now + SECOND);
        books.watch_locks(now + SECOND);
        assert!(books.letters().is_empty());
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
        let put = books.dispatch(3, now + SECOND).unwrap();
        fail_first(&mut books, &put, now + SECOND);
        let (_, parked) = next_to_park(&mut books);
        assert_eq!((parked.count, parked.record.offset), (3, 7));
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
}
