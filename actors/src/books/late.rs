//! Records that are chosen after their delivery has begun: they failed, or took
//! long.

use tokio::time::Instant;

use super::journal::{Journal, Tracing, trace_id};
use super::passages::Reached;
use crate::ledger::{Entry, Ledger, Settling};
use crate::life::{Birth, Choice, Event, Life, Step};
use crate::ports::source::{AnsweredRange, SettleRange, Settlement};
use crate::sampling::TraceIds;

/// A record that is chosen after its delivery has begun.
pub(super) struct Late<'a> {
    pub(super) entry: Entry<'a>,
    pub(super) delivery_count: u16,
    pub(super) reached: Reached,
    pub(super) choice: Choice,
}

impl Journal {
    /// Begins the life of a record that is chosen late, with what it has been
    /// through.
    pub(super) fn begin_late(&mut self, late: &Late<'_>, now: Instant) {
        let Some(Tracing { tracer, .. }) = &self.tracing else {
            return;
        };
        let Some(past) = self.passages.past(late.entry, late.reached) else {
            return;
        };
        if !tracer.admits(late.choice, now) {
            return tracer.left_out(1);
        }
        let ids = TraceIds::of(&past.origin.partition);
        let life = Life::begin(Birth {
            trace_id: trace_id(ids, past.origin.offset, past.parent.as_ref()),
            place: late.entry.place(),
            acquisition: late.entry.acquisition,
            origin: past.origin,
            delivery_count: late.delivery_count,
            choice: late.choice,
            parent: past.parent,
            acquired_at: past.acquired_at,
        });
        for (step, began) in past.steps {
            life.enter(step, began);
        }
        self.open(life, now);
    }

    /// Begins the lives of records that took long, now that the broker has
    /// answered and the ledger does not know it yet.
    pub(super) fn judge(&mut self, answered: &AnsweredRange, ledger: &Ledger, now: Instant) {
        let slow = self.tracing.as_ref().and_then(|it| it.sampling.slow);
        let (Some(slow), range) = (slow, &answered.range) else {
            return;
        };
        if !range.settlement.is_final() || !self.passages.some_took_longer(slow, ledger, now) {
            return;
        }
        for it in ledger.settling(range) {
            if self.passages.took_longer(it.acquisition, slow, now) {
                self.begin_slow(&it, range, now);
            }
        }
    }

    fn begin_slow(&mut self, record: &Settling, range: &SettleRange, now: Instant) {
        let entry = Entry {
            partition: &range.partition,
            offset: record.offset,
            acquisition: record.acquisition,
        };
        if self.find(entry).is_some() {
            return;
        }
        let put = self.passages.put(record.acquisition, record.lease);
        let late = Late {
            entry,
            delivery_count: record.delivery_count,
            reached: match (put, range.settlement) {
                (Some(put), _) => Reached::Put(put),
                (None, Settlement::Accept) => Reached::Transforms,
                (None, _) => Reached::Queue,
            },
            choice: Choice::Slow,
        };
        self.begin_late(&late, now);
        if let Some(life) = self.find(entry) {
            // What is given back at the end has no time of its own.
            let settled_at = record.settled_at.min(now);
            if put.is_some() {
                life.note(Event::Delivered, settled_at);
            }
            life.enter(Step::Settle(range.settlement), settled_at);
        }
    }
}
