//! What the books note of records that are traced, and who is traced because
//! of what happens to it.

use std::sync::Arc;

use bytes::Bytes;

use super::journal::{Journal, Late};
use super::settling::PutRef;
use super::{Books, entry};
use crate::ledger::Entry;
use crate::life::{Choice, Event, Life, Step};
use crate::outcome::Rejection;
use crate::ports::source::SettleRange;
use crate::ports::tracer::Tracer;
use crate::record::{AcquiredBatch, RawRecord, SinkRecord};
use crate::trace_context::{Parent, TRACEPARENT, TRACESTATE, TraceContext};
use crate::value::Value;

impl Books {
    /// Traces records from now on.
    pub fn trace_by(&mut self, tracer: Arc<dyn Tracer>) {
        self.journal = Journal::of(tracer);
    }

    /// Begins the lives of acquired records that are chosen; with their places
    /// in the batch.
    pub fn begin_lives(
        &mut self,
        batch: &AcquiredBatch,
        acquisition: u32,
    ) -> Vec<(usize, Arc<Life>)> {
        self.journal.begin(batch, acquisition)
    }

    /// The broker is being told.
    pub fn settling(&self, ranges: &[SettleRange]) {
        self.journal.settling(ranges, self.now);
    }

    /// How many open records are traced.
    #[must_use]
    pub fn traced(&self) -> usize {
        self.journal.len()
    }

    /// Where in a trace a record is now.
    pub(super) fn trace_context(&self, entry: Entry<'_>) -> Option<TraceContext> {
        self.journal.find(entry).map(|life| life.current())
    }

    pub(super) fn enter_step(&self, entry: Entry<'_>, step: Step) {
        if let Some(life) = self.journal.find(entry) {
            life.enter(step, self.now);
        }
    }

    /// Records of a put are delivered. Those that took long are traced from now
    /// on.
    pub(super) fn note_delivered(&mut self, put: &PutRef, places: &[usize]) {
        if !self.journal.is_on() {
            return;
        }
        let (slow, mut last) = (self.journal.slow(), (0, false));
        for place in places {
            let record = &put.chunk[*place];
            if let Some(life) = &record.life {
                life.note(Event::Delivered, self.now);
                continue;
            }
            let Some(slow) = slow else {
                continue;
            };
            // All records of one acquisition came at one time.
            if record.acquisition != last.0 {
                let acquired_at = self.ledger.acquired_at(entry(record));
                let is_slow = acquired_at.is_some_and(|at| self.now > at + slow);
                last = (record.acquisition, is_slow);
            }
            if last.1 {
                self.note(put, *place, Event::Delivered, Some(Choice::Slow));
            }
        }
    }

    /// Something happens to records of a put. If it is a failure, they are
    /// traced from now on.
    pub(super) fn note_all(&mut self, put: &PutRef, places: &[usize], event: &Event) {
        if !self.journal.is_on() {
            return;
        }
        let choice = event.is_failure().then_some(Choice::Failed);
        for place in places {
            self.note(put, *place, event.clone(), choice);
        }
    }

    fn note(&mut self, put: &PutRef, place: usize, event: Event, choice: Option<Choice>) {
        let record = &put.chunk[place];
        let entry = entry(record);
        if let (Some(choice), None) = (choice, self.journal.find(entry)) {
            let step = Step::Put {
                task: put.task,
                batch: None,
            };
            let late = Late {
                entry,
                origin: record.id(),
                delivery_count: record.delivery_count,
                parent: parent_of(record),
                first: (step, put.handed_out),
            };
            self.begin_late(late, choice);
        }
        if let Some(life) = self.journal.find(entry) {
            life.note(event, self.now);
        }
    }

    /// A record could not be converted.
    pub(super) fn note_unconverted(
        &mut self,
        entry: Entry<'_>,
        raw: &RawRecord,
        rejection: &Rejection,
    ) {
        if !self.journal.is_on() {
            return;
        }
        if self.journal.find(entry).is_none() {
            let parked = raw.parked.as_ref();
            let late = Late {
                entry,
                origin: parked.map_or_else(|| entry.place(), |parked| parked.origin.clone()),
                delivery_count: raw.delivery_count,
                parent: Parent::of(&raw.headers),
                first: (Step::Convert, self.now),
            };
            self.begin_late(late, Choice::Failed);
        }
        if let Some(life) = self.journal.find(entry) {
            life.note(Event::Rejected(rejection.clone()), self.now);
        }
    }

    /// Unless it is not ours any more.
    fn begin_late(&mut self, late: Late<'_>, choice: Choice) {
        if let Some(acquired_at) = self.ledger.acquired_at(late.entry) {
            self.journal.begin_late(late, choice, acquired_at, self.now);
        }
    }

    /// Records that go back to the queue.
    pub(super) fn note_queued(&self, records: &mut [SinkRecord]) {
        if self.journal.is_empty() {
            return;
        }
        for record in records {
            if record.life.is_none() {
                record.life = self.journal.find(entry(record)).cloned();
            }
            if let Some(life) = &record.life {
                life.enter(Step::Queue, self.now);
            }
        }
    }

    /// A put of several records, some of them traced, is over.
    pub(super) fn note_put_ended(&mut self, put: &PutRef) {
        let traced = self.puts.get(put.lease).and_then(|it| it.traced.take());
        if let Some(traced) = traced {
            let records = put.chunk.len();
            self.journal.put_ended(traced, put.task, records, self.now);
        }
    }
}

/// The producer's context, as far as the record still has it: from its headers
/// as they lay in the log, or as they were converted.
fn parent_of(record: &SinkRecord) -> Option<Parent> {
    if let Some(original) = &record.original {
        return Parent::of(&original.headers);
    }
    let header = |name: &str| {
        let header = record.headers.iter().find(|it| &*it.key == name)?;
        match &header.value.value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::String(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            _ => None,
        }
    };
    Parent::read(&header(TRACEPARENT)?, header(TRACESTATE))
}

#[cfg(test)]
mod tests;
