//! What became of flushes, and which record one fails over.

use tokio::time::Instant;

use super::puts::FlushEnd;
use super::settling::PutRef;
use super::{Books, Effects, Notice};
use crate::life::Event;
use crate::outcome::{Cause, Rejection, Stage};
use crate::ports::sink::SinkError;
use crate::work_queue::History;

/// What a flush covered of one put.
type Covered = (PutRef, Vec<usize>);

impl Books {
    /// Takes the end of a flush that covered these puts.
    pub fn flushed(&mut self, leases: &[u32], end: &FlushEnd, now: Instant) -> Effects {
        self.now = now;
        let mut effects = Effects::default();
        let covered = self.covered(leases);
        self.note_flushed(&covered, end);
        match end {
            FlushEnd::Answered(Ok(())) => {
                for (put, places) in &covered {
                    self.deliver(put, places, &mut effects);
                }
            }
            FlushEnd::Answered(Err(error)) => self.flush_failed(&covered, error, &mut effects),
            FlushEnd::Panicked(cause) => self.seek(&covered, cause, true, &mut effects),
            FlushEnd::TimedOut => self.flush_hung(&covered, &mut effects),
        }
        for lease in leases {
            if self.puts.get(*lease).is_some_and(|put| put.ended) {
                self.puts.take(*lease);
            }
        }
        self.let_others_in(&mut effects);
        effects
    }

    fn covered(&mut self, leases: &[u32]) -> Vec<Covered> {
        let mut covered = Vec::with_capacity(leases.len());
        for lease in leases {
            if let Some(put) = self.puts.refer(*lease) {
                let places = self.puts.take_buffered(*lease);
                covered.push((put, places));
            }
        }
        covered.retain(|(_, places)| !places.is_empty());
        covered
    }

    fn note_flushed(&mut self, covered: &[Covered], end: &FlushEnd) {
        let records: usize = covered.iter().map(|(_, places)| places.len()).sum();
        if let Some(event) = Event::of_flush(end, records) {
            for (put, places) in covered {
                self.note_all(put, places, &event);
            }
        }
    }

    fn flush_failed(&mut self, covered: &[Covered], error: &SinkError, effects: &mut Effects) {
        match error {
            SinkError::Retry(cause) => {
                for (put, places) in covered {
                    self.retry(put, places, cause, effects);
                }
            }
            SinkError::Unavailable(_) | SinkError::UnavailableFor(..) => {
                for (put, places) in covered {
                    self.refused(put, places, effects);
                }
            }
            SinkError::RejectedOne(cause) => {
                self.note_answer(effects);
                self.seek(covered, cause, false, effects);
            }
            SinkError::Fatal(_) => self.put_all_again(covered, effects),
        }
    }

    fn put_all_again(&mut self, covered: &[Covered], effects: &mut Effects) {
        for (put, places) in covered {
            let work = self.take_back(put, places, put.history);
            self.put_again(work, effects);
        }
    }

    /// Looks for the record that a flush fails over: what it had of each put is
    /// put again and flushed by itself, then each half of that, until one record
    /// is left. A death may be the task's own, so that this one dies alone
    /// before it is to blame.
    fn seek(&mut self, covered: &[Covered], cause: &Cause, is_death: bool, effects: &mut Effects) {
        // A flush is of one task's puts.
        if is_death && let Some((put, _)) = covered.first() {
            effects.notices.push(Notice::DiedOver {
                task: put.task,
                records: covered.iter().map(|(_, places)| places.len()).sum(),
                cause: cause.clone(),
            });
        }
        if let [(put, places)] = covered
            && let [place] = places[..]
            && (put.history.alone || !is_death)
        {
            let rejection = Rejection::new(Stage::TaskPut, cause.clone());
            return self.reject_put(put, place, &rejection, effects);
        }
        self.put_in_parts(covered, is_death, effects);
    }

    /// Nobody knows how it would have ended. Looks for the record that it hangs
    /// over in the same way; that one then goes the way of one that a put hangs
    /// over.
    fn flush_hung(&mut self, covered: &[Covered], effects: &mut Effects) {
        let Some((first, _)) = covered.first() else {
            return;
        };
        self.note_hung(first, effects);
        match covered {
            _ if self.is_no_hung_one_to_blame() => self.put_all_again(covered, effects),
            [(put, places)] if put.history.alone && places.len() == 1 => {
                self.blame_hung(put, places, effects);
            }
            _ => self.put_in_parts(covered, false, effects),
        }
    }

    fn put_in_parts(&mut self, covered: &[Covered], is_death: bool, effects: &mut Effects) {
        for (put, places) in covered {
            let history = History {
                alone: true,
                kills: put.history.kills + u32::from(is_death),
                ..put.history
            };
            let work = self.take_back(put, places, history);
            if covered.len() > 1 || places.len() == 1 {
                self.put_again(work, effects);
                continue;
            }
            for half in work.halves() {
                self.put_again(half, effects);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{books, deliver, ranges};
    use super::*;
    use crate::books::{Put, PutEnd, Tolerance};
    use crate::ports::source::Settlement;

    /// A record that no flush survives, or that each rejects.
    const BAD: i64 = 5;

    fn buffer(books: &mut Books, put: &Put) {
        books.put_ended(put.lease, PutEnd::Answered(Ok(())), true, Instant::now());
    }

    fn offsets(put: &Put) -> Vec<i64> {
        put.chunk.iter().map(|record| record.offset).collect()
    }

    /// Flushes what is put, each put by itself, until nothing is left. Returns
    /// what was settled, and how many flushes it took.
    fn until_settled(books: &mut Books, end: &FlushEnd) -> (Vec<(i64, i64, Settlement)>, usize) {
        let (now, mut settled, mut flushes) = (Instant::now(), Vec::new(), 0);
        while let Some(put) = books.dispatch(0, now) {
            assert!(put.alone, "{:?}", offsets(&put));
            buffer(books, &put);
            let end = match offsets(&put).contains(&BAD) {
                true => end.clone(),
                false => FlushEnd::Answered(Ok(())),
            };
            settled.extend(ranges(&books.flushed(&[put.lease], &end, now)));
            flushes += 1;
        }
        settled.sort_unstable_by_key(|range| range.0);
        (settled, flushes)
    }

    fn bad_ends() -> [FlushEnd; 2] {
        let rejected = SinkError::RejectedOne("one of these".into());
        [
            FlushEnd::Answered(Err(rejected)),
            FlushEnd::Panicked("boom".into()),
        ]
    }

    #[test]
    fn the_record_that_a_flush_fails_over_is_found_and_its_neighbours_are_accepted() {
        for end in bad_ends() {
            let mut books = books(None, Tolerance::All);
            let puts = [deliver(&mut books, 0..4, 1), deliver(&mut books, 4..10, 1)];
            puts.iter().for_each(|put| buffer(&mut books, put));
            let leases = puts.map(|put| put.lease);
            let effects = books.flushed(&leases, &end, Instant::now());
            assert!(effects.settle.is_empty() && effects.work, "{effects:?}");
            let (settled, flushes) = until_settled(&mut books, &end);
            let rejected: Vec<_> = settled
                .iter()
                .filter(|range| range.2 == Settlement::Reject)
                .collect();
            assert_eq!(rejected, [&(BAD, BAD, Settlement::Reject)], "{end:?}");
            let accepted: i64 = settled
                .iter()
                .filter(|range| range.2 == Settlement::Accept)
                .map(|range| range.1 - range.0 + 1)
                .sum();
            assert_eq!(accepted, 9, "{end:?}: {settled:?}");
            assert!(flushes <= 8, "{flushes}");
        }
    }

    #[test]
    fn a_record_that_was_flushed_alone_is_to_blame_at_once_but_not_for_one_death() {
        let [rejected, died] = bad_ends();
        for (end, deaths) in [(rejected, 0), (died, 1)] {
            let mut books = books(None, Tolerance::All);
            let put = deliver(&mut books, BAD..BAD + 1, 1);
            buffer(&mut books, &put);
            let first = books.flushed(&[put.lease], &end, Instant::now());
            assert_eq!(first.notices.len(), deaths);
            let (settled, _) = until_settled(&mut books, &end);
            let settled = [ranges(&first), settled].concat();
            assert_eq!(settled, [(BAD, BAD, Settlement::Reject)]);
        }
    }

    #[test]
    fn the_record_that_a_flush_hangs_over_is_given_back_and_its_neighbours_are_accepted() {
        let mut books = books(None, Tolerance::All);
        let puts = [deliver(&mut books, 0..4, 1), deliver(&mut books, 4..10, 1)];
        puts.iter().for_each(|put| buffer(&mut books, put));
        let leases = puts.map(|put| put.lease);
        let effects = books.flushed(&leases, &FlushEnd::TimedOut, Instant::now());
        assert!(effects.settle.is_empty() && effects.work, "{effects:?}");
        let (settled, flushes) = until_settled(&mut books, &FlushEnd::TimedOut);
        let (bad, good): (Vec<_>, Vec<_>) = settled
            .into_iter()
            .partition(|range| range.2 == Settlement::Release);
        assert_eq!(bad, [(BAD, BAD, Settlement::Release)]);
        let accepted: i64 = good.iter().map(|range| range.1 - range.0 + 1).sum();
        assert_eq!(accepted, 9, "{good:?}");
        assert!(flushes <= 9, "{flushes}");
    }

    #[test]
    fn flushes_that_hang_are_an_outage_as_puts_are() {
        let mut books = books(None, Tolerance::All);
        let mut put = deliver(&mut books, 0..3, 1);
        let minute = std::time::Duration::from_secs(60);
        for times in 1..=4 {
            let now = Instant::now() + 60 * times * minute;
            books.put_ended(put.lease, PutEnd::Answered(Ok(())), true, now);
            let effects = books.flushed(&[put.lease], &FlushEnd::TimedOut, now);
            assert!(effects.settle.is_empty(), "{effects:?}");
            assert_eq!(books.circuit().is_open(), times == 4);
            put = books.dispatch(0, now + minute * 10).unwrap();
        }
    }
}
