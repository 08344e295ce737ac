//! Records on their way in: from the source, through the converter.

use std::sync::Arc;

use super::settling::Remains;
use super::{Books, Effects};
use crate::chunk::Holds;
use crate::ledger::{Entry, Step};
use crate::messages::RecordFailed;
use crate::outcome::{Rejection, Stage};
use crate::ports::source::Settlement;
use crate::record::{AcquiredBatch, RawRecord, SinkRecord, Stray};

impl Books {
    /// Takes up what the source acquired, and returns the acquisition that its
    /// records are known by. Corrupt ranges and strays are rejected on the spot.
    pub fn acquire(&mut self, batch: &AcquiredBatch, effects: &mut Effects) -> u32 {
        let records = batch
            .records
            .iter()
            .map(|record| (record.offset, record.delivery_count));
        let (deadline, now) = (batch.lock_deadline, batch.acquired_at);
        self.now = now;
        self.locks.note(&batch.partition, batch.lock);
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
        for stray in &batch.strays {
            self.turn_away(batch, stray, effects);
        }
        self.ledger
            .acquire(&batch.partition, records, deadline, now)
    }

    fn turn_away(&mut self, batch: &AcquiredBatch, stray: &Stray, effects: &mut Effects) {
        let Stray {
            raw,
            cause,
            is_kept,
        } = stray;
        let one = std::iter::once((raw.offset, raw.delivery_count));
        let (deadline, now) = (batch.lock_deadline, batch.acquired_at);
        let entry = Entry {
            partition: &batch.partition,
            offset: raw.offset,
            acquisition: self.ledger.acquire(&batch.partition, one, deadline, now),
        };
        let rejection = Rejection::new(Stage::KafkaConsume, cause.as_str());
        if *is_kept {
            return self.keep(entry, rejection, effects);
        }
        let remains = || Remains {
            original: Some(Arc::new(raw.clone())),
            ..Remains::none(entry)
        };
        self.reject(0, entry, &rejection, remains, effects);
    }

    /// Fails the connector by a record that has just come.
    fn keep(&mut self, entry: Entry<'_>, rejection: Rejection, effects: &mut Effects) {
        let one = std::iter::once(entry);
        self.ledger
            .step(0, Step::Hold, one, &mut effects.settle, |_| {});
        self.finished += 1;
        self.errors.rejected += 1;
        effects.failure = Some(RecordFailed {
            record: entry.place(),
            rejection,
            trace: None,
        });
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
        self.note_unconverted(entry, raw, rejection);
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

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::tests::{batch, books};
    use super::super::{Letter, Tolerance};
    use super::*;
    use crate::testing::raw_record;

    fn come(books: &mut Books, is_kept: bool) -> Effects {
        let mut strays = batch(0..0, 1);
        strays.strays.push(Stray {
            raw: RawRecord {
                value: Some("v".into()),
                ..raw_record(7)
            },
            cause: "is another's".into(),
            is_kept,
        });
        let mut effects = Effects::default();
        books.acquire(&strays, &mut effects);
        effects
    }

    #[test]
    fn a_record_that_another_can_deliver_is_kept_whatever_is_tolerated() {
        for tolerance in [Tolerance::All, Tolerance::None] {
            let mut books = books(None, tolerance);
            let effects = come(&mut books, true);
            let RecordFailed {
                record, rejection, ..
            } = effects.failure.unwrap();
            assert_eq!(record.to_string(), "orders-0@7");
            assert_eq!(&*rejection.cause, "is another's");
            assert!(effects.settle.is_empty() && effects.put_aside.is_empty());
            assert_eq!((books.ledger.open(), books.ledger.held()), (1, 1));
        }
    }

    #[test]
    fn a_stray_has_a_letter_with_its_contents() {
        let mut books = books(None, Tolerance::All);
        books.writes_dead_letters = true;
        let effects = come(&mut books, false);
        assert!(effects.letters && effects.settle.is_empty());
        let (_, letter) = books.next_letter(Instant::now()).unwrap();
        let Letter::Dead(letter) = &*letter else {
            panic!("{letter:?}");
        };
        let original = letter.original.as_deref().unwrap();
        assert_eq!(original.value.as_deref(), Some(&b"v"[..]));
        assert_eq!(letter.record.to_string(), "orders-0@7");
    }
}
