//! What the log says about records that share a fate: at most a line a second
//! for all of them, however many there are. Pure; the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::books::Notice;

/// From one line to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Sums up notices that would come with every put.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    parking: Sum,
    releasing: Sum,
}

#[derive(Debug, Default)]
struct Sum {
    told_at: Option<Instant>,
    /// What came since.
    waiting: Option<Notice>,
}

impl Digest {
    /// Takes a notice; returns what is to be logged now.
    pub(crate) fn take(&mut self, notice: Notice, now: Instant) -> Option<Notice> {
        let sum = match notice {
            Notice::Parking(_) => &mut self.parking,
            Notice::Releasing(_) => &mut self.releasing,
            _ => return Some(notice),
        };
        sum.add(notice);
        sum.due(now)
    }

    /// What has waited long enough.
    pub(crate) fn due(&mut self, now: Instant) -> impl Iterator<Item = Notice> {
        let sums = [&mut self.parking, &mut self.releasing];
        sums.into_iter().filter_map(move |sum| sum.due(now))
    }

    /// All that waits: nobody will ask later.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = Notice> {
        let sums = [&mut self.parking, &mut self.releasing];
        sums.into_iter().filter_map(|sum| sum.waiting.take())
    }
}

impl Sum {
    fn add(&mut self, notice: Notice) {
        match (&mut self.waiting, notice) {
            (
                Some(Notice::Parking(alike) | Notice::Releasing(alike)),
                Notice::Parking(more) | Notice::Releasing(more),
            ) => alike.records += more.records,
            (waiting, notice) => *waiting = Some(notice),
        }
    }

    fn due(&mut self, now: Instant) -> Option<Notice> {
        let is_due = self.told_at.is_none_or(|at| now >= at + PAUSE);
        let notice = self.waiting.take_if(|_| is_due)?;
        self.told_at = Some(now);
        Some(notice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Alike;
    use crate::record::RecordId;
    use crate::testing::partition;

    fn one(offset: i64) -> Alike {
        Alike {
            records: 1,
            example: RecordId {
                partition: partition("orders", 0),
                offset,
            },
            cause: "busy".into(),
            trace: None,
        }
    }

    fn many(records: usize, first: i64) -> Alike {
        Alike {
            records,
            ..one(first)
        }
    }

    #[test]
    fn thousands_of_records_are_a_line_a_second_with_an_example() {
        let (mut digest, start) = (Digest::default(), Instant::now());
        let mut told = Vec::new();
        for offset in 0..3000 {
            let now = start + Duration::from_millis(offset as u64);
            told.extend(digest.take(Notice::Parking(one(offset)), now));
        }
        let expected = [many(1, 0), many(1000, 1), many(1000, 1001)];
        assert_eq!(told, expected.map(Notice::Parking));
        let later = start + Duration::from_millis(2999);
        assert_eq!(digest.due(later).count(), 0);
        let last: Vec<Notice> = digest.due(start + 3 * PAUSE).collect();
        assert_eq!(last, [Notice::Parking(many(999, 2001))]);
        assert_eq!(digest.due(start + 9 * PAUSE).count(), 0);
    }

    #[test]
    fn those_of_one_fate_keep_no_line_of_another_back() {
        let (mut digest, now) = (Digest::default(), Instant::now());
        let notices = [
            Notice::Parking(one(1)),
            Notice::Releasing(one(2)),
            Notice::LettersAreWritten,
            Notice::LettersAreWritten,
        ];
        for notice in notices {
            assert_eq!(digest.take(notice.clone(), now), Some(notice));
        }
    }

    #[test]
    fn nothing_is_left_untold_at_the_end() {
        let (mut digest, now) = (Digest::default(), Instant::now());
        for offset in 0..3 {
            digest.take(Notice::Releasing(one(offset)), now);
        }
        let rest: Vec<Notice> = digest.rest().collect();
        assert_eq!(rest, [Notice::Releasing(many(2, 1))]);
    }
}
