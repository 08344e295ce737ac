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
mod tests;
