//! Records that keep failing while others succeed are parked: written to a
//! topic of their own, accepted where they were, and tried again from there.
//! The rules: when to park, when a parked one is due, and when to give it up.
//! Pure; the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

use crate::record::Parked;

/// How long the parking topic is looked at: many times what an answer takes.
const LOOK: Duration = Duration::from_secs(2);
/// The same at first, when its source has still to join.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Records to look for at once; the broker may give out some more.
const LOOK_RECORDS: usize = 100;
/// With so many open no more are read, whatever they wait for.
const MOST_RECORDS: usize = 1000;
/// A partition's open records that reach over this part of its span: what is
/// left lets others go on while the record is being parked.
const NEARLY: u64 = 3;
const OF: u64 = 4;
/// For how long a record has been the first open one when it is what its
/// partition waits for. A busy partition's span is used up as well while one
/// record is put a second time.
const PINNED_FOR: Duration = Duration::from_secs(1);

/// How a connector parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkingPolicy {
    /// `share.park.after.ms`.
    pub after: Duration,
    /// `share.park.backoff.ms`: how long a parked record waits. The same for
    /// all, so that the topic lies in the order in which they are due.
    pub backoff: Duration,
    /// How far the open records of one partition may reach.
    pub span: u64,
}

/// A record that has failed once more, for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it failed first.
    pub since: Instant,
    /// Others were delivered since its try before.
    pub others_go_on: bool,
    /// It holds up its partition, or was parked before: however long it fails.
    pub is_urgent: bool,
}

impl ParkingPolicy {
    /// Whether a record is parked that has failed now.
    #[must_use]
    pub fn parks(&self, failure: &Failure, now: Instant) -> bool {
        let is_long = now.saturating_duration_since(failure.since) >= self.after;
        failure.others_go_on && (is_long || failure.is_urgent)
    }

    /// Whether a partition waits for its first open record, which has been
    /// that for so long, or soon will.
    #[must_use]
    pub fn is_pinned(&self, span: u64, lasts: Duration) -> bool {
        span >= self.span * NEARLY / OF && lasts >= PINNED_FOR
    }

    /// How far behind the first open record others are parked with it, which
    /// would be the next to pin the partition.
    #[must_use]
    pub const fn reach(&self) -> i64 {
        (self.span / 2) as i64
    }

    /// Whether a record that is parked now would be tried again before its
    /// time is over.
    #[must_use]
    pub fn comes_in_time(&self, since: Instant, timeout: Option<Duration>, now: Instant) -> bool {
        timeout.is_none_or(|timeout| now + self.backoff <= since + timeout)
    }

    /// When a record was parked, by the clocks of now.
    #[must_use]
    pub fn parked_at(&self, parked: &Parked) -> Option<Instant> {
        parked.due.checked_sub(self.backoff)
    }

    /// When to try a parked record, which the clocks of two workers may have
    /// put too far off.
    #[must_use]
    pub fn due(&self, parked: &Parked, now: Instant) -> Instant {
        parked.due.min(now + self.backoff)
    }
}

/// What has come back from the parking topic so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    pub records: u64,
    /// When all of them are due.
    pub due: Option<Instant>,
}

/// What the reader of the parking topic needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub now: Instant,
    pub returns: Returns,
    /// Parked records that are open here: waiting for their time, with the
    /// sink, or to be parked again.
    pub open: usize,
    /// Whether records are wanted at all.
    pub is_wanted: bool,
    /// Whether the source has joined, and nothing is the matter with it.
    pub is_up: bool,
}

/// When the parking topic is read: a batch at a time, until one has come that is
/// not due, since those behind it are not due either; and after the topic was
/// found empty not before something can be. So no more than a batch is locked
/// before it is due, and never for longer than the back-off.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    backoff: Duration,
    next_look: Instant,
    looking_since: Option<Instant>,
    look: Duration,
    /// Records that had come when it was looked last.
    come: u64,
}

impl Reader {
    #[must_use]
    pub const fn new(backoff: Duration, now: Instant) -> Self {
        Self {
            backoff,
            next_look: now,
            looking_since: None,
            look: FIRST_LOOK,
            come: 0,
        }
    }

    /// How many parked records may be fetched now.
    pub fn window(&mut self, seen: &Seen) -> usize {
        let have_come = self.come < seen.returns.records;
        self.come = seen.returns.records;
        let all_due = seen.returns.due.is_none_or(|due| due <= seen.now);
        if !seen.is_wanted || !all_due || seen.open >= MOST_RECORDS {
            self.looking_since = None;
            self.next_look = seen.now;
            return 0;
        }
        if have_come {
            // Behind them there may be more.
            self.looking_since = Some(seen.now);
        }
        match self.looking_since {
            // Perhaps the topic was not asked yet.
            Some(_) if !seen.is_up => self.looking_since = Some(seen.now),
            Some(since) if seen.now >= since + self.look => {
                // What is written from `since` on is not due before this.
                self.looking_since = None;
                self.next_look = since + self.backoff;
                self.look = LOOK;
            }
            None if seen.now >= self.next_look => self.looking_since = Some(seen.now),
            _ => {}
        }
        match self.looking_since {
            Some(_) => seen.open + LOOK_RECORDS,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::RecordId;
    use crate::testing::partition;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> ParkingPolicy {
        ParkingPolicy {
            after: 10 * SECOND,
            backoff: 60 * SECOND,
            span: 2000,
        }
    }

    /// Nothing has come back yet.
    fn seen(now: Instant) -> Seen {
        Seen {
            now,
            returns: Returns::default(),
            open: 0,
            is_wanted: true,
            is_up: true,
        }
    }

    #[test]
    fn a_record_is_parked_when_it_fails_for_long_while_others_succeed() {
        let since = Instant::now();
        let parks = |others_go_on, is_urgent, after: u32| {
            let failure = Failure {
                since,
                others_go_on,
                is_urgent,
            };
            policy().parks(&failure, since + after * SECOND)
        };
        assert!(parks(true, false, 10));
        assert!(!parks(true, false, 9), "not long enough");
        assert!(parks(true, true, 0), "if nothing can wait for it");
        assert!(!parks(false, false, 60) && !parks(false, true, 60));
    }

    #[test]
    fn a_partition_is_pinned_before_its_span_is_used_up_but_not_in_a_moment() {
        let is_pinned = |span, lasts| policy().is_pinned(span, lasts);
        assert!(is_pinned(1500, SECOND) && is_pinned(2100, SECOND));
        assert!(!is_pinned(1499, 60 * SECOND));
        assert!(!is_pinned(2000, Duration::from_millis(999)));
    }

    #[test]
    fn a_record_is_not_parked_for_a_try_that_would_come_too_late() {
        let since = Instant::now();
        let comes = |timeout| policy().comes_in_time(since, timeout, since + SECOND);
        assert!(comes(None) && comes(Some(61 * SECOND)));
        assert!(!comes(Some(60 * SECOND)));
    }

    #[test]
    fn no_record_waits_longer_than_the_back_off_whatever_it_says() {
        let now = Instant::now();
        let id = RecordId {
            partition: partition("orders", 0),
            offset: 7,
        };
        let due = |due| {
            let parked = Arc::new(Parked {
                origin: id.clone(),
                place: id.clone(),
                count: 1,
                since: now,
                due,
            });
            policy().due(&parked, now)
        };
        assert_eq!(due(now + SECOND), now + SECOND);
        assert_eq!(due(now + 3600 * SECOND), now + 60 * SECOND);
    }

    #[test]
    fn the_topic_is_read_until_a_record_comes_that_is_not_due() {
        let now = Instant::now();
        let mut reader = Reader::new(60 * SECOND, now);
        let mut at = |after: u32, records, due: u32| {
            let due = Some(now + due * SECOND);
            let returns = Returns { records, due };
            reader.window(&Seen {
                returns,
                open: records as usize,
                ..seen(now + after * SECOND)
            })
        };
        assert_eq!(at(0, 0, 0), LOOK_RECORDS);
        assert_eq!(at(1, 5, 50), 0, "those behind it are not due either");
        assert_eq!(at(49, 5, 50), 0);
        assert_eq!(at(50, 5, 50), 5 + LOOK_RECORDS, "are there more?");
        assert_eq!(at(59, 9, 51), 9 + LOOK_RECORDS, "some came");
        assert_eq!(at(68, 9, 51), 9 + LOOK_RECORDS, "behind them, too?");
        assert_eq!(at(69, 9, 51), 0);
    }

    #[test]
    fn records_that_are_tried_on_shut_nobody_out_unless_they_are_very_many() {
        let now = Instant::now();
        let mut reader = Reader::new(60 * SECOND, now);
        let mut with = |open| reader.window(&Seen { open, ..seen(now) });
        assert_eq!(with(100), 100 + LOOK_RECORDS);
        assert_eq!(with(999), 999 + LOOK_RECORDS);
        assert_eq!(with(1000), 0);
        assert_eq!(with(998), 998 + LOOK_RECORDS);
    }

    #[test]
    fn an_empty_topic_is_looked_at_when_something_can_be_due_again() {
        let now = Instant::now();
        let mut reader = Reader::new(60 * SECOND, now);
        let mut at = |after: u32, is_wanted| {
            reader.window(&Seen {
                is_wanted,
                ..seen(now + after * SECOND)
            })
        };
        assert_eq!(at(0, true), LOOK_RECORDS);
        assert_eq!(at(9, true), LOOK_RECORDS, "it may have to join");
        assert_eq!(at(10, true), 0);
        assert_eq!(at(59, true), 0);
        assert_eq!(at(60, true), LOOK_RECORDS);
        assert_eq!(at(61, true), LOOK_RECORDS, "the answer may take a while");
        assert_eq!(at(62, true), 0);
        assert_eq!(at(120, true), LOOK_RECORDS);
        assert_eq!(at(121, false), 0);
        assert_eq!(at(122, true), LOOK_RECORDS, "the last look was cut short");
    }

    #[test]
    fn a_look_lasts_until_the_source_can_have_looked() {
        let now = Instant::now();
        let mut reader = Reader::new(60 * SECOND, now);
        let mut at = |after: u32, is_up| {
            reader.window(&Seen {
                is_up,
                ..seen(now + after * SECOND)
            })
        };
        assert_eq!(at(0, false), LOOK_RECORDS);
        assert_eq!(at(30, false), LOOK_RECORDS);
        assert_eq!(at(39, true), LOOK_RECORDS);
        assert_eq!(at(40, true), 0);
        assert_eq!(at(89, true), 0);
        assert_eq!(at(90, true), LOOK_RECORDS, "from the end of the trouble on");
    }

    #[test]
    fn with_a_short_back_off_the_topic_is_always_read() {
        let now = Instant::now();
        let mut reader = Reader::new(SECOND, now);
        let looks = (0..100).map(|step| reader.window(&seen(now + step * SECOND / 10)));
        let closed = looks.filter(|window| *window == 0).count();
        assert!(closed <= 5, "only between two looks: {closed} of 100");
    }
}
