//! Acquired records that wait for their conversion. A part of the books: it
//! outlives the converter, so that no hang and no death of it costs a record
//! an attempt. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::chunk::Holds;
use crate::credit::BytesHeld;
use crate::ledger::Entry;
use crate::life::Life;
use crate::outcome::Rejection;
use crate::record::{RawRecord, RecordId, SourcePartition};

/// Records of one acquisition, as the source handed them over.
#[derive(Debug)]
pub struct RawBatch {
    pub partition: Arc<SourcePartition>,
    pub acquisition: u32,
    pub records: Vec<RawRecord>,
    /// Of those that are traced, with their places.
    pub lives: Vec<(usize, Arc<Life>)>,
}

/// A batch to convert. It stays in the intake until it is finished.
#[derive(Clone, Debug)]
pub struct ToConvert {
    pub batch: Arc<RawBatch>,
    rejected: Vec<(usize, Rejection)>,
}

impl ToConvert {
    /// Why the record at a place must not be converted.
    #[must_use]
    pub fn rejection(&self, place: usize) -> Option<&Rejection> {
        let rejected = self.rejected.iter().find(|(at, _)| *at == place);
        rejected.map(|(_, rejection)| rejection)
    }
}

#[derive(Debug)]
struct Waiting {
    to_convert: ToConvert,
    /// Kept here, not with the batch: who hangs over it owes no credit.
    holds: Holds,
    /// The record that a converter hung or died over.
    suspect: Option<usize>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Intake {
    waiting: VecDeque<Waiting>,
}

impl Intake {
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn push(&mut self, batch: RawBatch, held: BytesHeld) {
        if batch.records.is_empty() {
            return;
        }
        self.waiting.push_back(Waiting {
            to_convert: ToConvert {
                batch: Arc::new(batch),
                rejected: Vec::new(),
            },
            holds: Holds::of(held),
            suspect: None,
        });
    }

    /// The batch to convert next.
    #[must_use]
    pub fn first(&self) -> Option<ToConvert> {
        self.waiting
            .front()
            .map(|waiting| waiting.to_convert.clone())
    }

    /// The first batch is converted; returns what its records owe. `None` for
    /// a late word about another one.
    pub fn finish(&mut self, acquisition: u32) -> Option<Holds> {
        let waiting = self
            .waiting
            .pop_front_if(|waiting| waiting.to_convert.batch.acquisition == acquisition)?;
        Some(waiting.holds)
    }

    /// A converter hung or died over a record of the first batch. It gets
    /// another try, since its thread may have been to blame; the second time
    /// it is to be rejected. Returns which record that is.
    pub fn blame(&mut self, place: usize, rejection: Rejection) -> Option<RecordId> {
        let waiting = self.waiting.front_mut()?;
        let batch = &waiting.to_convert.batch;
        let record = RecordId {
            partition: Arc::clone(&batch.partition),
            offset: batch.records.get(place)?.offset,
        };
        if waiting.suspect.replace(place) == Some(place) {
            waiting.to_convert.rejected.push((place, rejection));
        }
        Some(record)
    }

    /// All records in it.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.waiting.iter().flat_map(|waiting| {
            let batch = &waiting.to_convert.batch;
            batch.records.iter().map(|record| Entry {
                partition: &batch.partition,
                offset: record.offset,
                acquisition: batch.acquisition,
            })
        })
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Credit;
    use crate::outcome::Stage;
    use crate::testing::{partition, raw_record};

    fn batch(acquisition: u32, offsets: std::ops::Range<i64>) -> RawBatch {
        RawBatch {
            partition: partition("orders", 0),
            acquisition,
            records: offsets.map(raw_record).collect(),
            lives: Vec::new(),
        }
    }

    fn hung() -> Rejection {
        Rejection::new(Stage::ValueConverter, "hung")
    }

    #[test]
    fn a_batch_stays_until_it_is_finished_and_then_owes_its_bytes() {
        let credit = Credit::new(100);
        let mut intake = Intake::default();
        intake.push(batch(1, 0..2), credit.hold(40));
        intake.push(batch(2, 2..3), credit.hold(2));
        assert_eq!(intake.first().unwrap().batch.acquisition, 1);
        assert_eq!(intake.first().unwrap().batch.acquisition, 1);
        assert!(intake.finish(7).is_none(), "a late word");
        let holds = intake.finish(1);
        assert_eq!((intake.len(), credit.held_bytes()), (1, 42));
        drop(holds);
        assert_eq!(credit.held_bytes(), 2);
        let offsets: Vec<i64> = intake.entries().map(|entry| entry.offset).collect();
        assert_eq!(offsets, [2]);
    }

    #[test]
    fn the_bytes_come_back_though_someone_hangs_over_the_batch() {
        let credit = Credit::new(100);
        let mut intake = Intake::default();
        intake.push(batch(1, 0..1), credit.hold(40));
        let in_hand = intake.first();
        drop(intake.finish(1));
        assert_eq!(credit.held_bytes(), 0);
        drop(in_hand);
    }

    #[test]
    fn a_record_is_rejected_when_it_is_blamed_twice() {
        let mut intake = Intake::default();
        intake.push(batch(1, 10..15), Credit::new(1).hold(0));
        let record = intake.blame(3, hung()).unwrap();
        assert_eq!(record.to_string(), "orders-0@13");
        assert_eq!(intake.first().unwrap().rejection(3), None, "another try");
        intake.blame(4, hung());
        intake.blame(3, hung());
        assert_eq!(intake.first().unwrap().rejection(3), None, "not in a row");
        intake.blame(3, hung());
        let to_convert = intake.first().unwrap();
        assert_eq!(to_convert.rejection(3), Some(&hung()));
        assert_eq!(to_convert.rejection(4), None);
        assert_eq!(intake.blame(9, hung()), None, "no such record");
    }

    #[test]
    fn a_batch_without_records_does_not_wait() {
        let mut intake = Intake::default();
        intake.push(batch(1, 0..0), Credit::new(1).hold(0));
        assert!(intake.is_empty());
    }
}
