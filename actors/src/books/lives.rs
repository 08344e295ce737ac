//! What the books note of records that are traced, and who is traced because
//! of what happens to it.

use std::sync::Arc;

use super::journal::Journal;
use super::late::Late;
use super::passages::{PutMark, Reached};
use super::settling::PutRef;
use super::{Books, entry};
use crate::ledger::Entry;
use crate::life::{Choice, Event, Finished, Life, Step};
use crate::outcome::Rejection;
use crate::pace::Pace;
use crate::ports::source::SettleRange;
use crate::ports::tracer::Tracer;
use crate::record::{AcquiredBatch, RawRecord, RecordId, SinkRecord};
use crate::trace_context::TraceContext;

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

    #[must_use]
    pub const fn is_traced(&self) -> bool {
        self.journal.is_on()
    }

    /// What is over of traced records since it was asked last.
    pub fn take_finished(&mut self) -> Finished {
        self.journal.take_finished()
    }

    /// A batch is converted.
    pub(crate) fn note_converted(&mut self, acquisition: u32, pace: &Pace) {
        self.journal.converted(acquisition, pace, self.now);
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

    /// The same of an open record by where it lies.
    #[must_use]
    pub fn trace_at(&self, record: &RecordId) -> Option<TraceContext> {
        self.journal.at(record).map(|life| life.current())
    }

    pub(super) fn enter_step(&self, entry: Entry<'_>, step: Step) {
        if let Some(life) = self.journal.find(entry) {
            life.enter(step, self.now);
        }
    }

    /// Records of a put are delivered.
    pub(super) fn note_delivered(&mut self, put: &PutRef, places: &[usize]) {
        if !self.journal.is_on() {
            return;
        }
        self.journal.delivered(put, places);
        if self.journal.is_empty() {
            return;
        }
        for place in places {
            if let Some(life) = &put.chunk[*place].life {
                life.note(Event::Delivered, self.now);
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
            self.begin_late(&Late {
                entry,
                delivery_count: record.delivery_count,
                reached: Reached::Put(PutMark::of(put)),
                choice,
            });
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
            self.begin_late(&Late {
                entry,
                delivery_count: raw.delivery_count,
                reached: Reached::Converter,
                choice: Choice::Failed,
            });
        }
        if let Some(life) = self.journal.find(entry) {
            life.note(Event::Rejected(rejection.clone()), self.now);
        }
    }

    /// Unless it is not ours any more.
    fn begin_late(&mut self, late: &Late<'_>) {
        if self.ledger.has(late.entry) {
            self.journal.begin_late(late, self.now);
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

#[cfg(test)]
mod tests;
