//! Records that failed in a row, while none was delivered or rejected. A few of
//! them may be to blame themselves; many mean that the sink takes none at all,
//! whatever it answers for each. Pure; the time is passed in.

use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

use super::settling::PutRef;
use super::{Books, Effects, Notice, Policy};
use crate::circuit::Vain;
use crate::outcome::Cause;
use crate::record::{SinkRecord, TopicId};

/// A row that lasts no longer may be chance, with a sink that takes some.
const SHORTEST_OUTAGE: Duration = Duration::from_secs(30);

/// Fewer that fail may be to blame, each of them.
const FEWEST: usize = 4;

/// So many in a row are not the ones to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Many {
    records: usize,
    /// That hang, though it may be over the same records.
    puts: usize,
}

impl Many {
    /// Behind a smaller window there are never more records in hand, and no
    /// more tasks have any.
    fn of(policy: &Policy) -> Self {
        let window = policy.max_in_flight_records.unwrap_or(usize::MAX);
        let twice = 2 * policy.tasks.min(window);
        Self {
            records: twice.max(16).min(window).max(FEWEST),
            puts: twice.max(FEWEST),
        }
    }
}

/// See the module. By where the records come from: one that comes back, from
/// the broker or the parking topic, is the same.
#[derive(Debug)]
pub(super) struct InVain {
    many: Many,
    /// With the acquisition under which each failed first.
    records: AHashMap<(TopicId, i32, i64), u32>,
    /// Puts that took too long.
    hung: usize,
    /// When the first of them failed, or its put began if that hung.
    since: Option<Instant>,
}

impl InVain {
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            many: Many::of(policy),
            records: AHashMap::new(),
            hung: 0,
            since: None,
        }
    }

    fn add(&mut self, record: &SinkRecord) {
        if !self.are_many_records() {
            self.records.entry(id(record)).or_insert(record.acquisition);
        }
    }

    /// One was taken or rejected. Returns whether there were many.
    fn clear(&mut self) -> bool {
        let were_many = self.are_many_records() || self.are_many_puts();
        self.records.clear();
        self.hung = 0;
        self.since = None;
        were_many
    }

    fn are_many_records(&self) -> bool {
        self.records.len() >= self.many.records
    }

    fn are_many_puts(&self) -> bool {
        self.hung >= self.many.puts
    }

    /// Whether it was given back since it failed in this row.
    pub(super) fn came_back(&self, record: &SinkRecord) -> bool {
        let failed_first = self.records.get(&id(record));
        failed_first.is_some_and(|acquisition| *acquisition != record.acquisition)
    }

    fn outage(&self, now: Instant) -> Option<Vain> {
        let lasted = now.saturating_duration_since(self.since?);
        if lasted < SHORTEST_OUTAGE {
            None
        } else if self.are_many_puts() {
            Some(Vain::Puts(self.many.puts))
        } else {
            self.are_many_records()
                .then_some(Vain::Records(self.many.records))
        }
    }
}

fn id(record: &SinkRecord) -> (TopicId, i32, i64) {
    let partition = &record.partition;
    (partition.topic_id, partition.partition, record.offset)
}

impl Books {
    /// Notes records of a put that are to be tried again.
    pub(super) fn note_in_vain(
        &mut self,
        put: &PutRef,
        places: &[usize],
        cause: &Cause,
        effects: &mut Effects,
    ) {
        for place in places {
            self.in_vain.since.get_or_insert(self.now);
            self.in_vain.add(&put.chunk[*place]);
        }
        self.tell_circuit(cause, effects);
    }

    /// The sink took a record or rejected it: it is there.
    pub(super) fn note_answer(&mut self, effects: &mut Effects) {
        if self.in_vain.clear()
            && let Some(lasted) = self.circuit.not_in_vain()
        {
            effects.notices.push(Notice::SinkIsBack { lasted });
        }
    }

    /// Notes a put that took too long.
    pub(super) fn note_hung(&mut self, put: &PutRef, effects: &mut Effects) {
        let began = self.delivered_at.max(Some(put.handed_out));
        self.in_vain.hung += 1;
        self.in_vain.since = self.in_vain.since.or(began);
        self.tell_circuit(&"a put took too long".into(), effects);
    }

    fn tell_circuit(&self, cause: &Cause, effects: &mut Effects) {
        if let Some(vain) = self.in_vain.outage(self.now)
            && let Some(cause) = self.circuit.in_vain(vain, cause)
        {
            effects.notices.push(Notice::SinkUnavailable { cause });
        }
    }

    /// Whether many records failed in a row, and none was delivered since.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.in_vain.are_many_records()
    }

    /// Whether no record is to be given back because it failed: the sink takes
    /// none; unless it took others since that one's last try.
    pub(super) fn is_nobody_to_blame(&self, others_go_on: bool) -> bool {
        self.circuit.is_open() || (self.in_vain.are_many_records() && !others_go_on)
    }

    /// The same of records that a put took too long over.
    pub(super) fn is_no_hung_one_to_blame(&self) -> bool {
        self.circuit.is_open() || self.in_vain.are_many_puts()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{books, deliver, ranges};
    use super::*;
    use crate::books::{Put, PutEnd, Retriable, Tolerance};
    use crate::credit::Credit;
    use crate::outcome::{Outcome, Rejection, Stage};
    use crate::ports::sink::SinkError;
    use crate::ports::source::Settlement;

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

    /// The circuit heard first that the sink takes records, and then of one more
    /// that failed before.
    #[test]
    fn an_outage_does_not_outlast_a_delivery_that_is_entered_late() {
        let mut books = books_with(None);
        let good = deliver(&mut books, 0..1, 1);
        let bad = deliver(&mut books, 1..MANY, 1);
        fail(&mut books, &bad, Duration::ZERO);
        let worse = deliver(&mut books, MANY..2 * MANY, 1);
        fail(&mut books, &worse, 31 * SECOND);
        assert!(books.circuit().is_open());
        let now = Instant::now() + 32 * SECOND;
        let effects = books.put_ended(good.lease, PutEnd::Answered(Ok(())), false, now);
        assert!(!books.circuit().is_open());
        let is_back = |it: &Notice| matches!(it, Notice::SinkIsBack { .. });
        assert!(effects.notices.iter().any(is_back), "{effects:?}");
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
}
