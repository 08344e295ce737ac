//! Steps with letters: take one to write it, and what became of it.

use std::sync::Arc;

use tokio::time::Instant;

use super::settling::key;
use super::{Books, Effects, Letter, Letters, Notice, PutAside};
use crate::ledger::Step;
use crate::outcome::Cause;
use crate::ports::source::Settlement;
use crate::retry::RetryPolicy;

impl Books {
    /// Letters that are not written yet.
    #[must_use]
    pub const fn letters(&self) -> &Letters {
        &self.letters
    }

    /// Whether there may be any.
    #[must_use]
    pub const fn has_letters(&self) -> bool {
        self.writes_dead_letters || self.policy.parking.is_some()
    }

    /// The next letter to write, under a ticket.
    pub fn next_letter(&mut self, now: Instant) -> Option<(u64, Arc<Letter>)> {
        let ledger = &self.ledger;
        self.letters.take(now, |entry| ledger.has(entry))
    }

    /// Takes what became of letters, by their tickets. A record whose letter
    /// is written is accepted, for it is put aside or parked now.
    pub fn letters_ended(&mut self, ended: Vec<(u64, Result<(), Cause>)>, now: Instant) -> Effects {
        self.now = now;
        let mut effects = Effects::default();
        let before = self.letters.trouble();
        for (ticket, result) in ended {
            match result {
                Ok(()) => self.letter_written(ticket, &mut effects),
                Err(cause) => self.letter_failed(ticket, cause, now, &mut effects),
            }
        }
        self.tell_of_letters(before.as_ref(), &mut effects);
        effects
    }

    fn tell_of_letters(&self, before: Option<&Cause>, effects: &mut Effects) {
        match (before, self.letters.trouble()) {
            (None, Some(cause)) => effects.notices.push(Notice::LettersFail { cause }),
            (Some(_), None) => effects.notices.push(Notice::LettersAreWritten),
            _ => {}
        }
    }

    fn letter_written(&mut self, ticket: u64, effects: &mut Effects) {
        let Some(waiting) = self.letters.written(ticket) else {
            return;
        };
        self.failing.remove(&key(waiting.entry()));
        let accept = Step::Settle(Settlement::Accept, self.now);
        if !self.step_one(0, accept, waiting.entry(), effects) {
            return;
        }
        match &*waiting.letter {
            Letter::Dead(letter) => {
                self.errors.skipped += 1;
                effects.put_aside.push(PutAside {
                    record: letter.record.clone(),
                    rejection: letter.rejection.clone(),
                    trace: self.trace_context(waiting.entry()),
                });
            }
            Letter::Parked(_) => self.finished += 1,
        }
    }

    fn letter_failed(&mut self, ticket: u64, cause: Cause, now: Instant, effects: &mut Effects) {
        // Without end: until it is written the record is not put aside.
        let retry = RetryPolicy {
            timeout: None,
            ..self.policy.retry
        };
        let failed = self.letters.failed(ticket, cause, retry, &self.credit, now);
        if let Some(waiting) = failed {
            self.not_parked(&waiting, effects);
        }
    }

    /// Who wrote them is dead; the next one writes them again.
    pub(super) fn take_back_letters(&mut self) {
        self.letters.take_back();
    }

    /// A record that was lost meanwhile comes again, here or elsewhere, and is
    /// put aside there.
    pub(super) fn forget_letters(&mut self, effects: &mut Effects) {
        let before = self.letters.trouble();
        let (ledger, failing) = (&self.ledger, &self.failing);
        if !self.letters.is_empty() {
            self.letters.retain(|entry| ledger.has(entry));
        }
        self.letters.retain_unparked(|key| {
            let (topic, partition, offset, acquisition) = *key;
            failing.contains_key(key) && ledger.is_open((topic, partition), offset, acquisition)
        });
        self.tell_of_letters(before.as_ref(), effects);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::super::tests::{batch, ranges};
    use super::super::{Put, PutEnd, Tolerance};
    use super::*;
    use crate::chunk::Holds;
    use crate::credit::Credit;
    use crate::ledger::Entry;
    use crate::outcome::{Rejection, Stage};
    use crate::ports::dead_letter::DeadLetter;
    use crate::ports::source::{Answer, AnsweredRange, LostRange, SettleRange};
    use crate::record::{CorruptRange, RawRecord};
    use crate::testing::{partition, policy, raw_record, record};

    fn books() -> Books {
        Books::with_dead_letters(policy(1, Tolerance::All), Credit::new(1000))
    }

    /// Acquires records, and hands them to task 3 with their originals.
    fn deliver(books: &mut Books, offsets: std::ops::Range<i64>, delivery_count: u16) -> Put {
        let batch = batch(offsets.clone(), delivery_count);
        let acquisition = books.acquire(&batch, &mut Effects::default());
        let records = offsets.map(|offset| {
            let mut record = record(&batch.partition, offset, acquisition);
            record.delivery_count = delivery_count;
            record.original = Some(Arc::new(raw_record(offset)));
            record
        });
        books.converted(records.collect(), Holds::default());
        books.dispatch(3, Instant::now()).unwrap()
    }

    /// The sink rejects all of them.
    fn reject(books: &mut Books, offsets: std::ops::Range<i64>, delivery_count: u16) -> Effects {
        let put = deliver(books, offsets, delivery_count);
        for place in 0..put.chunk.len() {
            put.report.reject(place, "too bad");
        }
        let end = PutEnd::Answered(Ok(()));
        books.put_ended(put.lease, end, false, Instant::now())
    }

    fn next(books: &mut Books) -> (u64, DeadLetter) {
        next_by(books, Instant::now())
    }

    fn next_by(books: &mut Books, now: Instant) -> (u64, DeadLetter) {
        let (ticket, letter) = books.next_letter(now).unwrap();
        match &*letter {
            Letter::Dead(letter) => (ticket, letter.clone()),
            Letter::Parked(record) => panic!("parked: {record:?}"),
        }
    }

    fn written(books: &mut Books, ticket: u64) -> Effects {
        books.letters_ended(vec![(ticket, Ok(()))], Instant::now())
    }

    fn fail(books: &mut Books, ticket: u64, cause: &str) -> Effects {
        books.letters_ended(vec![(ticket, Err(cause.into()))], Instant::now())
    }

    fn waiting(books: &Books) -> usize {
        books.letters().len()
    }

    fn confirm(books: &mut Books, settled: &[SettleRange]) {
        let answered = settled.iter().map(|range| AnsweredRange {
            range: range.clone(),
            answer: Answer::Confirmed,
        });
        books.answered(&answered.collect::<Vec<_>>(), Instant::now());
    }

    #[test]
    fn a_rejected_record_is_accepted_behind_its_letter_and_counts_as_rejected() {
        let mut books = books();
        let effects = reject(&mut books, 7..8, 1);
        assert!(effects.settle.is_empty() && effects.letters && effects.put_aside.is_empty());
        let (ticket, letter) = next(&mut books);
        assert_eq!(letter.record.to_string(), "orders-0@7");
        assert_eq!(letter.rejection, Rejection::new(Stage::TaskPut, "too bad"));
        assert_eq!((letter.task, letter.original.is_some()), (3, true));
        assert!(books.next_letter(Instant::now()).is_none(), "only once");

        let effects = written(&mut books, ticket);
        assert_eq!(ranges(&effects), [(7, 7, Settlement::Accept)]);
        assert_eq!(effects.put_aside.len(), 1);
        confirm(&mut books, &effects.settle);
        let totals = books.ledger().totals();
        assert_eq!((totals.accepted, totals.rejected), (0, 1));
        assert_eq!(books.ledger().times().accept, Default::default());
        assert_eq!((books.errors().rejected, books.errors().skipped), (1, 1));
        assert_eq!((books.delivered(), books.ledger().open()), (0, 0));
    }

    #[test]
    fn a_record_keeps_its_lock_while_its_letter_waits() {
        let mut books = books();
        reject(&mut books, 7..8, 1);
        next(&mut books);
        let near_its_end = Instant::now() + Duration::from_secs(25);
        let effects = books.watch_locks(near_its_end);
        assert_eq!(ranges(&effects), [(7, 7, Settlement::Renew)]);
        assert_eq!(waiting(&books), 1);
    }

    #[test]
    fn a_letter_that_fails_is_tried_again_later_and_its_record_waits() {
        let mut books = books();
        reject(&mut books, 7..8, 1);
        let (ticket, _) = next(&mut books);
        let effects = fail(&mut books, ticket, "dlq is away");
        assert!(effects.settle.is_empty());
        let cause: Cause = "dlq is away".into();
        let told = Notice::LettersFail {
            cause: cause.clone(),
        };
        assert_eq!(effects.notices, [told]);
        assert_eq!(books.errors().skipped, 0);
        let letters = books.letters();
        assert_eq!(letters.trouble(), Some(cause));
        let due = letters.next_due().unwrap();
        assert!(books.next_letter(Instant::now()).is_none(), "not yet");

        let (ticket, _) = next_by(&mut books, due);
        let again = fail(&mut books, ticket, "dlq is away");
        assert!(again.notices.is_empty(), "told once");
        let due = books.letters().next_due().unwrap();
        let (ticket, _) = next_by(&mut books, due);
        let effects = written(&mut books, ticket);
        assert_eq!(effects.notices, [Notice::LettersAreWritten]);
        assert_eq!(ranges(&effects), [(7, 7, Settlement::Accept)]);
        let letters = books.letters();
        assert_eq!(letters.trouble(), None);
        assert_eq!(
            (letters.totals().requests, letters.totals().failures),
            (3, 2)
        );
    }

    #[test]
    fn a_letter_whose_record_is_lost_meanwhile_changes_nothing() {
        let mut books = books();
        reject(&mut books, 6..8, 1);
        let (under_way, _) = next(&mut books);
        let lost = LostRange {
            partition: partition("orders", 0),
            first_offset: 6,
            last_offset: 7,
            cause: "connection lost".into(),
        };
        books.lost(&[lost], Instant::now());
        assert!(books.next_letter(Instant::now()).is_none(), "not ours");
        let effects = written(&mut books, under_way);
        assert!(effects.settle.is_empty() && effects.put_aside.is_empty());
        assert_eq!(books.errors().skipped, 0);
    }

    #[test]
    fn a_record_that_comes_again_gets_its_letter_again() {
        let mut books = books();
        reject(&mut books, 7..8, 1);
        let (old, _) = next(&mut books);
        reject(&mut books, 7..8, 2);
        let (new, _) = next(&mut books);
        assert!(written(&mut books, old).settle.is_empty(), "fenced");
        let effects = written(&mut books, new);
        assert_eq!(ranges(&effects), [(7, 7, Settlement::Accept)]);
    }

    #[test]
    fn what_a_dead_generation_was_writing_is_written_by_the_next() {
        let mut books = books();
        reject(&mut books, 6..8, 1);
        let (dead, _) = next(&mut books);
        let effects = books.release_forgotten(Instant::now());
        assert!(effects.settle.is_empty(), "none is forgotten");
        let again = [next(&mut books), next(&mut books)];
        let mut offsets = again.each_ref().map(|(_, letter)| letter.record.offset);
        offsets.sort_unstable();
        assert_eq!(offsets, [6, 7]);
        assert!(written(&mut books, dead).settle.is_empty(), "a late word");
    }

    #[test]
    fn a_record_that_must_not_go_back_gets_a_letter_when_its_time_is_over() {
        let mut books = books();
        books.policy.retry.timeout = Some(Duration::ZERO);
        let put = deliver(&mut books, 7..8, 5);
        put.report.retry(0, "busy");
        let effects = books.reported(put.lease, Instant::now());
        assert!(effects.settle.is_empty() && effects.letters);
        let (ticket, letter) = next(&mut books);
        assert!(letter.rejection.cause.ends_with("left to retry: busy"));
        assert!(letter.original.is_some());
        let effects = written(&mut books, ticket);
        assert_eq!(ranges(&effects), [(7, 7, Settlement::Accept)]);
    }

    #[test]
    fn at_the_end_records_without_letters_are_given_back_through_the_gate() {
        let mut books = books();
        reject(&mut books, 6..7, 1);
        let (ticket, _) = next(&mut books);
        reject(&mut books, 7..8, 5);
        let (effects, shut_out) = books.release_rest(Instant::now());
        assert_eq!(ranges(&effects), [(6, 6, Settlement::Release)]);
        assert_eq!(shut_out.len(), 1, "the last attempt");
        assert!(written(&mut books, ticket).settle.is_empty(), "too late");
        assert_eq!(waiting(&books), 0);
    }

    #[test]
    fn many_letters_that_wait_for_failing_ones_stop_fetching() {
        let mut books = books();
        let is_clogged = |books: &Books| books.letters().is_clogged();
        reject(&mut books, 0..100, 1);
        assert!(!is_clogged(&books), "none fails");
        let (ticket, _) = next(&mut books);
        fail(&mut books, ticket, "dlq is away");
        assert!(is_clogged(&books));
        let (ticket, _) = next(&mut books);
        written(&mut books, ticket);
        assert!(!is_clogged(&books), "fewer wait");
    }

    #[test]
    fn a_corrupt_record_has_a_letter_without_its_bytes() {
        let mut books = books();
        let mut corrupt = batch(0..0, 1);
        corrupt.corrupt.push(CorruptRange {
            first_offset: 1,
            last_offset: 3,
            delivery_count: 1,
            cause: "bad checksum".into(),
        });
        let mut effects = Effects::default();
        books.acquire(&corrupt, &mut effects);
        assert!(effects.settle.is_empty() && effects.letters);
        let (_, letter) = next(&mut books);
        assert_eq!(letter.rejection.stage, Stage::KafkaConsume);
        assert!(letter.original.is_none());
        assert_eq!(waiting(&books), 3);
    }

    /// A record whose parts are slices of a response, as it fails to convert.
    fn unconverted(books: &mut Books, offset: i64, response: &Bytes, holds: &Holds) {
        let batch = batch(offset..offset + 1, 1);
        let acquisition = books.acquire(&batch, &mut Effects::default());
        let raw = RawRecord {
            value: Some(response.slice(0..5)),
            headers: vec![crate::record::RawHeader {
                key: response.slice(5..6),
                value: Some(response.slice(6..8)),
            }],
            ..raw_record(offset)
        };
        let entry = Entry {
            partition: &batch.partition,
            offset,
            acquisition,
        };
        let rejection = Rejection::new(Stage::ValueConverter, "no JSON");
        books.unconverted(entry, &raw, &rejection, holds, &mut Effects::default());
    }

    #[test]
    fn letters_hold_their_response_until_they_wait_for_long() {
        let mut books = books();
        let credit = Arc::clone(&books.credit);
        let response = Bytes::from(vec![7_u8; 900]);
        let holds = Holds::of(credit.hold(900));
        for offset in 0..2 {
            unconverted(&mut books, offset, &response, &holds);
        }
        drop(holds);
        let (ticket, letter) = next(&mut books);
        drop(letter);
        assert_eq!(credit.held_bytes(), 900);
        assert!(!response.is_unique());
        fail(&mut books, ticket, "dlq is away");
        assert_eq!(credit.held_bytes(), 16, "both are copied");
        assert!(response.is_unique());
        let late = Holds::of(credit.hold(900));
        unconverted(&mut books, 2, &response, &late);
        drop(late);
        assert_eq!(credit.held_bytes(), 24, "copied at once");
        assert!(response.is_unique());
    }
}
