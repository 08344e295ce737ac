//! What the group's settings allow, and what must wait while they allow less.

use super::settling::key;
use super::{Books, DeliveryKey, Effects, PutAside};
use crate::outcome::Rejection;
use crate::ports::source::Settlement;
use crate::record::RecordId;
use crate::terms::Terms;

/// With so many records held that cannot be rejected, no more are fetched: the
/// next ones may be such, too.
const TOO_MANY: usize = 100;

impl Books {
    #[must_use]
    pub const fn terms(&self) -> Terms {
        self.policy.terms
    }

    /// Takes what holds from now on, also for what is open. Records that could
    /// not be rejected are, once they can be.
    pub fn set_terms(&mut self, terms: Terms) -> Effects {
        self.policy.terms = terms;
        if let Some(parking) = &mut self.policy.parking {
            parking.span = terms.span as u64;
        }
        let mut effects = Effects::default();
        if terms.may_reject && !self.withheld.is_empty() {
            self.reject_withheld(&mut effects);
        }
        effects
    }

    /// Whether no more records are to be fetched.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        let terms = self.policy.terms;
        self.letters.is_clogged() || self.withheld.len() >= TOO_MANY || !terms.may_renew
    }

    /// Keeps what is to be told of a record that is held until it can be
    /// rejected.
    pub(super) fn withhold(&mut self, key: DeliveryKey, record: RecordId, rejection: Rejection) {
        self.withheld.insert(key, (record, rejection));
    }

    fn reject_withheld(&mut self, effects: &mut Effects) {
        let withheld = &mut self.withheld;
        let (journal, put_aside) = (&self.journal, &mut effects.put_aside);
        effects.settle = self.ledger.settle_rest(Settlement::Reject, |record| {
            let told = withheld.remove(&key(record.entry()));
            let is_withheld = told.is_some();
            put_aside.extend(told.map(|(of, rejection)| PutAside {
                record: of,
                rejection,
                trace: journal.find(record.entry()).map(|life| life.current()),
            }));
            is_withheld
        });
        self.errors.skipped += effects.put_aside.len() as u64;
        self.withheld.clear();
    }

    /// A record that was lost meanwhile comes again, and is rejected anew.
    pub(super) fn forget_withheld(&mut self) {
        let ledger = &self.ledger;
        self.withheld
            .retain(|(topic, partition, offset, acquisition), _| {
                ledger.is_open((*topic, *partition), *offset, *acquisition)
            });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::tests::{batch, books, deliver, ranges};
    use super::super::{Notice, Policy, PutEnd, Retriable, Tolerance};
    use super::*;
    use crate::credit::Credit;
    use crate::outcome::{Outcome, Stage};
    use crate::parking::ParkingPolicy;
    use crate::ports::source::LostRange;
    use crate::testing::partition;

    const MANY: i64 = 10;

    fn rejecting(is_allowed: bool) -> Terms {
        Terms {
            may_reject: is_allowed,
            ..Terms::new(5, 2000)
        }
    }

    /// Delivers these, and the sink rejects all of them.
    fn reject(books: &mut Books, offsets: std::ops::Range<i64>) -> Effects {
        let put = deliver(books, offsets.clone(), 1);
        let rejection = Rejection::new(Stage::TaskPut, "too large");
        let places = 0..(offsets.end - offsets.start) as usize;
        let outcomes = places.map(|place| (place, Outcome::Reject(rejection.clone())));
        books.outcomes(put.lease, outcomes.collect(), Instant::now())
    }

    fn retry(books: &mut Books, delivery_count: u16) -> Effects {
        let put = deliver(books, 0..1, delivery_count);
        let outcomes = vec![(0, Outcome::Retry("busy".into()))];
        books.outcomes(put.lease, outcomes, Instant::now())
    }

    #[test]
    fn a_lowered_limit_holds_what_the_old_one_would_have_let_go() {
        let mut policy = books(None, Tolerance::None).policy;
        policy.retriable = Retriable::Release;
        let (open, held) = (1, 0);
        for (limit, released) in [(5, open), (3, open), (2, held), (3, open)] {
            let mut books = Books::new(Policy { ..policy }, Credit::new(1000));
            assert!(books.set_terms(Terms::new(limit, 2000)).settle.is_empty());
            let effects = retry(&mut books, 2);
            assert_eq!(effects.settle.len(), released, "limit {limit}");
            assert_eq!(books.terms().gate.delivery_count_limit(), limit);
        }
    }

    #[test]
    fn a_lowered_limit_is_that_of_records_that_are_open_already() {
        let mut books = books(None, Tolerance::None);
        books.acquire(&batch(0..2, 2), &mut Effects::default());
        assert_eq!(books.attempts_left(), Some(3));
        books.set_terms(Terms::new(2, 2000));
        assert_eq!(books.attempts_left(), Some(0));
        assert_eq!(books.on_last_attempt().len(), 2);
        let effects = books.release_forgotten(Instant::now());
        assert!(effects.settle.is_empty(), "they would be archived");
        assert_eq!(effects.notices, [Notice::WentDown { records: 2 }]);
        books.set_terms(Terms::new(3, 2000));
        let effects = books.release_forgotten(Instant::now());
        assert_eq!(ranges(&effects), [(0, 1, Settlement::Release)]);
    }

    #[test]
    fn on_its_last_attempt_by_the_new_limit_a_tolerated_failure_is_put_aside() {
        let mut books = books(Some(Duration::ZERO), Tolerance::All);
        books.set_terms(Terms::new(2, 2000));
        let effects = retry(&mut books, 2);
        assert_eq!(ranges(&effects), [(0, 0, Settlement::Reject)]);
        assert_eq!(effects.put_aside.len(), 1);
    }

    #[test]
    fn what_would_be_dropped_is_held_and_rejected_when_it_has_its_letter_again() {
        let mut books = books(None, Tolerance::All);
        books.set_terms(rejecting(false));
        let effects = reject(&mut books, 3..6);
        assert!(effects.settle.is_empty() && effects.put_aside.is_empty());
        assert!(effects.failure.is_none(), "the connector goes on");
        assert_eq!(books.ledger().held(), 3);
        assert_eq!((books.errors().rejected, books.errors().skipped), (3, 0));
        let renewed = books.watch_locks(Instant::now() + Duration::from_secs(25));
        assert_eq!(ranges(&renewed), [(3, 5, Settlement::Renew)]);

        let effects = books.set_terms(rejecting(true));
        assert_eq!(ranges(&effects), [(3, 5, Settlement::Reject)]);
        assert_eq!(effects.put_aside.len(), 3);
        assert_eq!((books.ledger().held(), books.errors().skipped), (0, 3));
        assert!(books.set_terms(rejecting(true)).settle.is_empty(), "once");
        let effects = reject(&mut books, 6..7);
        assert_eq!(ranges(&effects), [(6, 6, Settlement::Reject)]);
    }

    #[test]
    fn only_what_was_withheld_is_rejected_later() {
        let mut books = books(None, Tolerance::All);
        books.acquire(&batch(0..1, 1), &mut Effects::default());
        books.set_terms(rejecting(false));
        reject(&mut books, 3..5);
        let lost = LostRange {
            partition: partition("orders", 0),
            first_offset: 3,
            last_offset: 3,
            cause: "gone".into(),
        };
        books.lost(&[lost], Instant::now());
        books.watch_locks(Instant::now());
        assert_eq!(books.withheld.len(), 1, "the other one comes again");
        let effects = books.set_terms(rejecting(true));
        assert_eq!(ranges(&effects), [(4, 4, Settlement::Reject)]);
        assert_eq!(effects.put_aside.len(), 1);
    }

    #[test]
    fn a_stop_gives_back_what_could_not_be_rejected() {
        let mut books = books(None, Tolerance::All);
        books.set_terms(rejecting(false));
        reject(&mut books, 3..5);
        let (effects, lost) = books.release_rest(Instant::now());
        assert_eq!(ranges(&effects), [(3, 4, Settlement::Release)]);
        assert!(lost.is_empty(), "{lost:?}");
        assert!(books.set_terms(rejecting(true)).settle.is_empty());
    }

    #[test]
    fn no_more_is_fetched_while_too_many_are_withheld_or_no_lock_can_be_renewed() {
        let mut books = books(None, Tolerance::All);
        assert!(!books.is_clogged());
        books.set_terms(Terms {
            may_renew: false,
            ..Terms::new(5, 2000)
        });
        assert!(books.is_clogged());
        books.set_terms(rejecting(false));
        let most = TOO_MANY as i64;
        for first in (0..most).step_by(MANY as usize) {
            assert!(!books.is_clogged(), "{first}");
            reject(&mut books, first..first + MANY);
        }
        assert!(books.is_clogged());
        books.set_terms(rejecting(true));
        assert!(!books.is_clogged());
    }

    #[test]
    fn no_lock_is_to_be_renewed_while_none_can_be() {
        for may_renew in [true, false] {
            let mut books = books(None, Tolerance::All);
            deliver(&mut books, 0..1, 1);
            books.set_terms(Terms {
                may_renew,
                ..Terms::new(5, 2000)
            });
            let soon = Instant::now() + Duration::from_millis(29_900);
            let renewals = books.watch_locks(soon).settle.len();
            assert_eq!(renewals, usize::from(may_renew));
        }
    }

    #[test]
    fn what_pins_a_partition_is_parked_by_the_new_span() {
        let mut policy = books(None, Tolerance::None).policy;
        policy.parking = Some(ParkingPolicy {
            after: Duration::ZERO,
            backoff: Duration::ZERO,
            span: 2000,
        });
        let mut books = Books::new(policy, Credit::new(1000));
        books.set_terms(Terms::new(5, 300));
        assert_eq!(books.parking().map(|it| it.span), Some(300));
        assert_eq!(books.terms().span, 300);
    }

    #[test]
    fn the_end_of_a_put_that_was_cut_short_withholds_as_well() {
        let mut books = books(None, Tolerance::All);
        books.set_terms(rejecting(false));
        let put = deliver(&mut books, 0..1, 1);
        put.report.reject(0, "too bad");
        let end = PutEnd::Answered(Ok(()));
        let effects = books.put_ended(put.lease, end, false, Instant::now());
        assert!(effects.settle.is_empty());
        assert_eq!(books.ledger().held(), 1);
    }
}
