//! Records on their way in: from the source, through the converter.

use std::sync::Arc;

use super::settling::Remains;
use super::{Books, Effects};
use crate::chunk::Holds;
use crate::ledger::Entry;
use crate::outcome::{Rejection, Stage};
use crate::ports::source::Settlement;
use crate::record::{AcquiredBatch, RawRecord, SinkRecord};

impl Books {
    /// Takes up what the source acquired, and returns the acquisition that its
    /// records are known by. Corrupt ranges are rejected on the spot.
    pub fn acquire(&mut self, batch: &AcquiredBatch, effects: &mut Effects) -> u32 {
        let records = batch
            .records
            .iter()
            .map(|record| (record.offset, record.delivery_count));
        let (deadline, now) = (batch.lock_deadline, batch.acquired_at);
        self.now = now;
        self.lock_duration = batch.lock;
        self.note_returns(batch);
        for corrupt in &batch.corrupt {
            let offsets = corrupt.first_offset..=corrupt.last_offset;
            let counted = offsets
                .clone()
                .map(|offset| (offset, corrupt.delivery_count));
            let acquisition = self
                .ledger
                .acquire(&batch.partition, counted, deadline, now);
            let rejection = Rejection::new(Stage::KafkaConsume, corrupt.cause.as_str());
            for offset in offsets {
                let entry = Entry {
                    partition: &batch.partition,
                    offset,
                    acquisition,
                };
                self.reject(0, entry, &rejection, || Remains::none(entry), effects);
            }
        }
        self.ledger
            .acquire(&batch.partition, records, deadline, now)
    }

    /// Queues records that were converted. All of a batch are parked ones, or
    /// none is.
    pub fn converted(&mut self, records: Vec<SinkRecord>, holds: Holds) {
        match records.first() {
            Some(first) if first.parked.is_some() => self.take_parked(records, &holds),
            _ => self.queue.push(records, holds),
        }
    }

    /// Rejects a record that could not be converted; `holds` is what its batch
    /// owes.
    pub fn unconverted(
        &mut self,
        entry: Entry<'_>,
        raw: &RawRecord,
        rejection: &Rejection,
        holds: &Holds,
        effects: &mut Effects,
    ) {
        let parked = raw.parked.as_deref();
        let remains = || Remains {
            origin: parked.map_or_else(|| entry.place(), |parked| parked.origin.clone()),
            original: Some(Arc::new(raw.clone())),
            holds: holds.clone(),
            task: 0,
        };
        self.reject(0, entry, rejection, remains, effects);
    }

    /// Accepts records that a transform dropped.
    pub fn filtered<'a>(
        &mut self,
        entries: impl Iterator<Item = Entry<'a>>,
        effects: &mut Effects,
    ) {
        let mut finished = 0;
        let entries = entries.inspect(|_| finished += 1);
        self.settle(0, entries, Settlement::Accept, effects);
        self.finished += finished;
    }
}
