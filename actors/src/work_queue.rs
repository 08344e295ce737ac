//! Converted records that wait for a task, and how they are split over tasks.
//! Pure; the time is passed in.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tokio::time::Instant;

use crate::chunk::{Chunk, Holds};
use crate::record::SinkRecord;

/// Records to put together.
#[derive(Debug)]
pub struct Work {
    pub records: Vec<SinkRecord>,
    /// What the records still owe.
    pub holds: Holds,
    pub history: History,
}

/// What has happened over records that are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// How many tasks died over them.
    pub kills: u32,
    /// How many puts of them took too long.
    pub timeouts: u32,
    /// How often a put of them found the sink unavailable, though it was not
    /// known to be.
    pub refusals: u32,
    /// A flush failed over some of them: they are flushed by themselves.
    pub alone: bool,
}

impl History {
    #[must_use]
    pub const fn and_a_kill(self) -> Self {
        Self {
            kills: self.kills + 1,
            ..self
        }
    }

    #[must_use]
    pub const fn and_a_timeout(self) -> Self {
        Self {
            timeouts: self.timeouts + 1,
            ..self
        }
    }

    #[must_use]
    pub const fn without_timeouts(self) -> Self {
        Self {
            timeouts: 0,
            ..self
        }
    }

    /// The sink has answered for them, in time: what the tasks met before may
    /// have been their own trouble.
    #[must_use]
    pub const fn answered(self) -> Self {
        Self {
            kills: 0,
            timeouts: 0,
            ..self
        }
    }
}

impl Work {
    /// Without a history.
    #[must_use]
    pub fn new(records: Vec<SinkRecord>, holds: Holds) -> Self {
        Self {
            records,
            holds,
            history: History::default(),
        }
    }

    #[must_use]
    pub fn into_chunk(self) -> Chunk {
        Chunk::holding(self.records, self.holds)
    }

    /// Two halves, to find out which record is to blame. Not for a single one.
    #[must_use]
    pub fn halves(mut self) -> [Self; 2] {
        let second = self.split_off(self.records.len() / 2);
        [self, second]
    }

    /// What is beyond so many records.
    fn split_off(&mut self, records: usize) -> Self {
        let rest = self.records.split_off(records.min(self.records.len()));
        self.of(rest)
    }

    /// Records of it, with its history.
    fn of(&self, records: Vec<SinkRecord>) -> Self {
        Self {
            records,
            holds: self.holds.clone(),
            history: self.history,
        }
    }
}

/// Fresh records are split as it suits; records that failed stay together as
/// they are, and some wait for their time.
#[derive(Debug, Default)]
pub struct WorkQueue {
    fresh: VecDeque<Segment>,
    fresh_records: usize,
    again: VecDeque<Work>,
    /// Some of those were taken last.
    was_again: bool,
    later: BinaryHeap<Reverse<Later>>,
    waiting_records: usize,
    sequence: u64,
}

#[derive(Debug)]
struct Segment {
    records: std::vec::IntoIter<SinkRecord>,
    holds: Holds,
}

#[derive(Debug)]
struct Later {
    at: Instant,
    sequence: u64,
    work: Work,
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Later {}

impl PartialOrd for Later {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Later {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl WorkQueue {
    /// Records that a task could take now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.fresh_records
            + self
                .again
                .iter()
                .map(|work| work.records.len())
                .sum::<usize>()
    }

    /// Of these, the records that were never put.
    #[must_use]
    pub const fn fresh(&self) -> usize {
        self.fresh_records
    }

    /// Records that wait for their time.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting_records
    }

    pub fn push(&mut self, records: Vec<SinkRecord>, holds: Holds) {
        if records.is_empty() {
            return;
        }
        self.fresh_records += records.len();
        self.fresh.push_back(Segment {
            records: records.into_iter(),
            holds,
        });
    }

    /// To be put next, as it is.
    pub fn push_again(&mut self, work: Work) {
        if !work.records.is_empty() {
            self.again.push_back(work);
        }
    }

    /// To be put when its time has come, as it is.
    pub fn push_later(&mut self, at: Instant, work: Work) {
        if work.records.is_empty() {
            return;
        }
        self.waiting_records += work.records.len();
        self.sequence += 1;
        self.later.push(Reverse(Later {
            at,
            sequence: self.sequence,
            work,
        }));
    }

    /// Takes what waits for its time and is chosen, each record by itself.
    pub fn take_waiting(&mut self, choose: impl Fn(&SinkRecord) -> bool) -> Vec<Work> {
        let mut chosen = Vec::new();
        let waiting = self.later.iter().flat_map(|Reverse(it)| &it.work.records);
        if !waiting.into_iter().any(&choose) {
            return chosen;
        }
        for Reverse(mut later) in std::mem::take(&mut self.later) {
            let work = &mut later.work;
            let (taken, kept) = std::mem::take(&mut work.records)
                .into_iter()
                .partition::<Vec<_>, _>(&choose);
            chosen.extend(taken.into_iter().map(|record| work.of(vec![record])));
            work.records = kept;
            if !work.records.is_empty() {
                self.later.push(Reverse(later));
            }
        }
        self.waiting_records -= chosen.len();
        chosen
    }

    /// When the next waiting record's time comes.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse(later)| later.at)
    }

    /// The next work for one of `tasks` tasks: a fair share of what is there,
    /// so that all have something to do, and at most `max` records. What failed
    /// before takes turns with what is fresh: many that fail on, and keep the
    /// tasks busy with that, must not keep others from their first try.
    pub fn take(&mut self, now: Instant, tasks: usize, max: usize) -> Option<Work> {
        self.wake(now);
        let is_turn_of_fresh = std::mem::take(&mut self.was_again) && self.fresh_records > 0;
        if !is_turn_of_fresh && let Some(work) = self.again.pop_front() {
            self.was_again = true;
            return Some(work);
        }
        if self.fresh_records == 0 {
            return None;
        }
        let share = self.fresh_records.div_ceil(tasks.max(1));
        Some(self.take_fresh(share.clamp(1, max.max(1))))
    }

    fn take_fresh(&mut self, share: usize) -> Work {
        let mut records = Vec::with_capacity(share);
        let mut holds = Holds::default();
        while records.len() < share {
            let Some(segment) = self.fresh.front_mut() else {
                break;
            };
            let missing = share - records.len();
            holds.add(&segment.holds);
            records.extend(segment.records.by_ref().take(missing));
            if segment.records.len() == 0 {
                self.fresh.pop_front();
            }
        }
        self.fresh_records -= records.len();
        Work::new(records, holds)
    }

    /// The next work for a probe: a few records, rather those that were never
    /// put, and never the same twice while there are others. The sink may
    /// refuse some records only.
    pub fn take_few(&mut self, now: Instant, records: usize) -> Option<Work> {
        self.wake(now);
        if self.fresh_records > 0 {
            return Some(self.take_fresh(records));
        }
        let mut work = self.again.pop_front()?;
        let rest = work.split_off(records);
        if !rest.records.is_empty() {
            self.again.push_front(rest);
        }
        Some(work)
    }

    /// All records in it, in no order.
    pub fn records(&self) -> impl Iterator<Item = &SinkRecord> {
        let fresh = self
            .fresh
            .iter()
            .flat_map(|segment| segment.records.as_slice());
        let again = self.again.iter().flat_map(|work| &work.records);
        let later = self.later.iter().flat_map(|later| &later.0.work.records);
        fresh.chain(again).chain(later)
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Moves what is due to what could be taken.
    pub fn wake(&mut self, now: Instant) {
        while self.next_due().is_some_and(|at| at <= now) {
            if let Some(Reverse(later)) = self.later.pop() {
                self.waiting_records -= later.work.records.len();
                self.again.push_back(later.work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::records;

    const KILLED: History = History {
        kills: 1,
        timeouts: 0,
        refusals: 2,
        alone: true,
    };

    fn queue_of(len: usize) -> WorkQueue {
        let mut queue = WorkQueue::default();
        queue.push(records(0..len as i64), Holds::default());
        queue
    }

    fn sizes(queue: &mut WorkQueue, tasks: usize, max: usize) -> Vec<usize> {
        let now = Instant::now();
        std::iter::from_fn(|| queue.take(now, tasks, max).map(|work| work.records.len())).collect()
    }

    #[test]
    fn keeps_all_tasks_busy() {
        let mut queue = queue_of(100);
        let first: Vec<usize> = (0..50)
            .map_while(|_| queue.take(Instant::now(), 50, 500))
            .map(|work| work.records.len())
            .collect();
        assert_eq!(first.len(), 50);
        assert!(first.iter().all(|size| *size <= 2));
    }

    #[test]
    fn never_exceeds_the_largest_put() {
        assert_eq!(sizes(&mut queue_of(1200), 1, 500), [500, 500, 200]);
    }

    #[test]
    fn a_chunk_may_span_segments_and_keeps_their_order() {
        let mut queue = queue_of(2);
        queue.push(records(2..5), Holds::default());
        let work = queue.take(Instant::now(), 1, 10).unwrap();
        let offsets: Vec<i64> = work.records.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4]);
        assert_eq!(queue.ready(), 0);
    }

    #[test]
    fn failed_work_stays_as_it_is_and_waits_for_its_time() {
        let mut queue = queue_of(1);
        let now = Instant::now();
        let work = Work {
            records: records(7..10),
            holds: Holds::default(),
            history: KILLED,
        };
        queue.push_later(now + Duration::from_secs(1), work);
        assert_eq!((queue.ready(), queue.waiting()), (1, 3));
        assert_eq!(queue.take(now, 1, 1).unwrap().records[0].offset, 0);
        assert!(queue.take(now, 1, 1).is_none());
        let later = queue.take(now + Duration::from_secs(1), 1, 1).unwrap();
        assert_eq!((later.records.len(), later.history), (3, KILLED));
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn records_that_fail_on_and_fresh_ones_take_turns() {
        let mut queue = queue_of(6);
        let now = Instant::now();
        let fail = |queue: &mut WorkQueue| {
            let bad = Work::new(records(10..12), Holds::default());
            queue.push_again(bad);
        };
        let mut firsts = Vec::new();
        for _ in 0..6 {
            // As fast as they are taken.
            fail(&mut queue);
            let work = queue.take(now, 1, 3).unwrap();
            firsts.push(work.records[0].offset);
        }
        assert_eq!(firsts, [10, 0, 10, 3, 10, 10]);
    }

    #[test]
    fn a_probe_takes_a_few_records_and_leaves_the_others_first_in_line() {
        let mut queue = queue_of(1);
        let now = Instant::now();
        queue.push_again(Work {
            records: records(10..15),
            holds: Holds::default(),
            history: KILLED,
        });
        let offsets = |work: &Work| work.records.iter().map(|it| it.offset).collect::<Vec<_>>();
        assert_eq!(offsets(&queue.take_few(now, 2).unwrap()), [0]);
        let probe = queue.take_few(now, 2).unwrap();
        assert_eq!(offsets(&probe), [10, 11]);
        let rest = queue.take(now, 1, 500).unwrap();
        assert_eq!(offsets(&rest), [12, 13, 14]);
        assert_eq!(rest.history, KILLED);
        assert!(queue.take_few(now, 2).is_none());
    }

    #[test]
    fn halves_hold_every_record_once() {
        let work = Work {
            records: records(0..5),
            holds: Holds::default(),
            history: KILLED,
        };
        let [first, second] = work.halves();
        assert_eq!((first.records.len(), second.records.len()), (2, 3));
        assert_eq!((first.history, second.history), (KILLED, KILLED));
    }
}
