//! What the records of one acquisition went through together. So the life of a
//! record that is chosen late can be told whole, and those that are not chosen
//! cost nothing each. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::settling::PutRef;
use crate::ledger::{Entry, Ledger};
use crate::life::Step;
use crate::pace::Pace;
use crate::record::{AcquiredBatch, RawRecord, RecordId, SourcePartition};
use crate::trace_context::Parent;

/// A put as it looks to its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PutMark {
    lease: u32,
    task: u32,
    handed_out: Instant,
    buffered_at: Option<Instant>,
}

impl PutMark {
    pub(super) const fn of(put: &PutRef) -> Self {
        Self {
            lease: put.lease,
            task: put.task,
            handed_out: put.handed_out,
            buffered_at: put.buffered_at,
        }
    }

    fn steps(self) -> impl Iterator<Item = (Step, Instant)> {
        let put = Step::Put {
            task: self.task,
            batch: None,
        };
        let flush = self.buffered_at.map(|at| (Step::Flush, at));
        std::iter::once((put, self.handed_out)).chain(flush)
    }
}

/// How far a record came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// It could not be converted.
    Converter,
    /// A transform dropped it.
    Transforms,
    /// Or as far as its batch, if that did not come so far.
    Queue,
    Put(PutMark),
}

/// What a record has from before it came.
#[derive(Debug)]
struct Descent {
    offset: i64,
    /// If it was parked meanwhile.
    origin: Option<RecordId>,
    parent: Option<Parent>,
}

#[derive(Debug)]
struct Passage {
    partition: Arc<SourcePartition>,
    first_offset: i64,
    /// Of those that were open at the last look.
    last_offset: i64,
    acquired_at: Instant,
    /// Up to the queue, and when each began.
    steps: Vec<(Step, Instant)>,
    /// By offset.
    descents: Vec<Descent>,
    /// Puts that delivered some of them.
    puts: Vec<PutMark>,
}

impl Passage {
    fn is_open(&mut self, ledger: &Ledger, acquisition: u32) -> bool {
        // From behind: what came first is settled first, as a rule.
        let mut offsets = (self.first_offset..=self.last_offset).rev();
        let open = offsets.find(|offset| {
            ledger.has(Entry {
                partition: &self.partition,
                offset: *offset,
                acquisition,
            })
        });
        // Those behind it never open again: while it stays open, the next look
        // finds it at once.
        self.last_offset = open.unwrap_or(self.last_offset);
        open.is_some()
    }

    fn descent(&self, offset: i64) -> Option<&Descent> {
        let found = self.descents.binary_search_by_key(&offset, |it| it.offset);
        self.descents.get(found.ok()?)
    }
}

/// What is known of a record that is chosen late.
pub(super) struct Past {
    pub(super) origin: RecordId,
    pub(super) parent: Option<Parent>,
    pub(super) acquired_at: Instant,
    /// What it went through, and when each step began.
    pub(super) steps: Vec<(Step, Instant)>,
}

/// See the module. By acquisition.
#[derive(Debug, Default)]
pub(super) struct Passages(BTreeMap<u32, Passage>);

impl Passages {
    pub(super) fn begin(&mut self, batch: &AcquiredBatch, acquisition: u32) {
        let (Some(first), Some(last)) = (batch.records.first(), batch.records.last()) else {
            return;
        };
        let passage = Passage {
            partition: Arc::clone(&batch.partition),
            first_offset: first.offset,
            last_offset: last.offset,
            acquired_at: batch.acquired_at,
            steps: vec![(Step::Acquire, batch.acquired_at)],
            descents: Vec::new(),
            puts: Vec::new(),
        };
        self.0.insert(acquisition, passage);
    }

    /// Keeps what would be lost with the record: it may be settled before it is
    /// chosen. Told in the order of their offsets.
    pub(super) fn keep(&mut self, acquisition: u32, raw: &RawRecord, parent: Option<Parent>) {
        if parent.is_none() && raw.parked.is_none() {
            return;
        }
        if let Some(passage) = self.0.get_mut(&acquisition) {
            passage.descents.push(Descent {
                offset: raw.offset,
                origin: raw.parked.as_ref().map(|it| it.origin.clone()),
                parent: parent.map(Parent::copied),
            });
        }
    }

    pub(super) fn converted(&mut self, acquisition: u32, pace: &Pace, now: Instant) {
        if let Some(passage) = self.0.get_mut(&acquisition) {
            passage.steps.truncate(1);
            passage.steps.extend(pace.steps(now));
            passage.steps.push((Step::Queue, now));
        }
    }

    /// Records of a put are delivered.
    pub(super) fn delivered(&mut self, put: &PutRef, places: &[usize]) {
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return;
        };
        let acquisition = |place: &usize| put.chunk[*place].acquisition;
        let mark = PutMark::of(put);
        if acquisition(first) == acquisition(last) {
            return self.mark(acquisition(first), mark);
        }
        let mut before = 0;
        for this in places.iter().map(acquisition) {
            if this != before {
                self.mark(this, mark);
                before = this;
            }
        }
    }

    fn mark(&mut self, acquisition: u32, mark: PutMark) {
        if let Some(passage) = self.0.get_mut(&acquisition)
            && passage.puts.last() != Some(&mark)
        {
            passage.puts.push(mark);
        }
    }

    /// The put that delivered a record, by its lease.
    pub(super) fn put(&self, acquisition: u32, lease: u32) -> Option<PutMark> {
        let puts = self.0.get(&acquisition)?.puts.iter().rev();
        puts.copied().find(|it| it.lease == lease)
    }

    pub(super) fn past(&self, entry: Entry<'_>, reached: Reached) -> Option<Past> {
        let passage = self.0.get(&entry.acquisition)?;
        let descent = passage.descent(entry.offset);
        let origin = descent.and_then(|it| it.origin.clone());
        let together = passage.steps.iter().filter(|(step, _)| match reached {
            Reached::Converter => matches!(step, Step::Acquire | Step::Convert),
            Reached::Transforms => *step != Step::Queue,
            Reached::Queue | Reached::Put(_) => true,
        });
        let put = match reached {
            Reached::Put(put) => Some(put),
            _ => None,
        };
        let own = put.into_iter().flat_map(PutMark::steps);
        Some(Past {
            origin: origin.unwrap_or_else(|| entry.place()),
            parent: descent.and_then(|it| it.parent.clone()),
            acquired_at: passage.acquired_at,
            steps: together.cloned().chain(own).collect(),
        })
    }

    /// Whether records of an acquisition took longer than this.
    pub(super) fn took_longer(&self, acquisition: u32, than: Duration, now: Instant) -> bool {
        let passage = self.0.get(&acquisition);
        passage.is_some_and(|it| it.acquired_at + than < now)
    }

    /// Whether any open record did. Those of which none is open any more are
    /// forgotten on the way.
    pub(super) fn some_took_longer(
        &mut self,
        than: Duration,
        ledger: &Ledger,
        now: Instant,
    ) -> bool {
        while let Some(mut oldest) = self.0.first_entry() {
            let acquisition = *oldest.key();
            if oldest.get().acquired_at + than >= now {
                return false;
            }
            if oldest.get_mut().is_open(ledger, acquisition) {
                return true;
            }
            oldest.remove();
        }
        false
    }

    /// Forgets those whose records are all settled, before they are too many.
    pub(super) fn tidy(&mut self, ledger: &Ledger) {
        if self.0.len() > ledger.open() {
            self.0
                .retain(|acquisition, it| it.is_open(ledger, *acquisition));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::tests::batch;

    const SLOW: Duration = Duration::from_secs(1);

    /// Else each settlement would look at all of them again while one record
    /// stays open.
    #[test]
    fn what_is_settled_behind_an_open_record_is_looked_at_once() {
        let (mut passages, mut ledger) = (Passages::default(), Ledger::default());
        let batch = batch(0..1000, 1);
        let (until, now) = (batch.lock_deadline, batch.acquired_at);
        let open = [(0, 1)].into_iter();
        let acquisition = ledger.acquire(&batch.partition, open, until, now);
        passages.begin(&batch, acquisition);
        let later = now + 2 * SLOW;
        assert!(passages.some_took_longer(SLOW, &ledger, later));
        assert_eq!(passages.0[&acquisition].last_offset, 0);
        assert!(passages.some_took_longer(SLOW, &ledger, later));
        let settled = Ledger::default();
        assert!(!passages.some_took_longer(SLOW, &settled, later));
        assert_eq!(passages.len(), 0);
    }
}
