//! Batches of the parking topic as batches of parked records.

use sluice_actors::record::{AcquiredBatch, CorruptRange};

use super::headers::{self, Clock};

/// The same, with the records as they were where they came from. What is no
/// parked record counts as corrupt.
#[must_use]
pub fn returned(batches: Vec<AcquiredBatch>) -> Vec<AcquiredBatch> {
    let clock = Clock::now();
    batches.into_iter().map(|it| parked(it, clock)).collect()
}

fn parked(mut batch: AcquiredBatch, clock: Clock) -> AcquiredBatch {
    let place = &batch.partition;
    for raw in std::mem::take(&mut batch.records) {
        let (offset, delivery_count) = (raw.offset, raw.delivery_count);
        match headers::read(raw, place, clock) {
            Ok(raw) => batch.records.push(raw),
            Err(lack) => batch.corrupt.push(CorruptRange {
                first_offset: offset,
                last_offset: offset,
                delivery_count,
                cause: format!("is no parked record: {lack}"),
            }),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_actors::credit::Credit;
    use sluice_actors::testing::{partition, raw_record};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn what_is_no_parked_record_is_rejected_by_itself() {
        let now = Instant::now();
        let batch = AcquiredBatch {
            partition: partition("share-orders-parked", 0),
            records: vec![raw_record(7)],
            corrupt: Vec::new(),
            lock_deadline: now,
            lock: Duration::ZERO,
            acquired_at: now,
            held: Credit::new(0).hold(0),
        };
        let batches = returned(vec![batch]);
        assert!(batches[0].records.is_empty());
        let corrupt = &batches[0].corrupt[0];
        assert_eq!((corrupt.first_offset, corrupt.last_offset), (7, 7));
        assert!(corrupt.cause.starts_with("is no parked record: "));
    }
}
