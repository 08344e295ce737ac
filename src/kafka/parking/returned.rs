//! Batches of the parking topic as batches of parked records.

use sluice_actors::record::{AcquiredBatch, Stray};

use super::headers::{self, Clock};

/// The same, with the records as they were where they came from. What the
/// connector of this group has not parked is a stray.
#[must_use]
pub fn returned(batches: Vec<AcquiredBatch>, group: &str) -> Vec<AcquiredBatch> {
    let clock = Clock::now();
    let batches = batches.into_iter();
    batches.map(|it| parked(it, group, clock)).collect()
}

fn parked(mut batch: AcquiredBatch, group: &str, clock: Clock) -> AcquiredBatch {
    let place = &batch.partition;
    for mut raw in std::mem::take(&mut batch.records) {
        match headers::read(&mut raw, place, group, clock) {
            Ok(()) => batch.records.push(raw),
            Err(lack) => batch.strays.push(Stray {
                raw,
                is_kept: lack.is_anothers,
                cause: match lack.is_anothers {
                    true => lack.text,
                    false => format!("is no parked record: {}", lack.text),
                },
            }),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_actors::credit::Credit;
    use sluice_actors::record::RawRecord;
    use sluice_actors::testing::{partition, raw_record};
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn what_is_no_parked_record_is_a_stray_with_its_contents() {
        let now = Instant::now();
        let batch = AcquiredBatch {
            partition: partition("share-orders-parked", 0),
            records: vec![RawRecord {
                value: Some("v".into()),
                ..raw_record(7)
            }],
            corrupt: Vec::new(),
            strays: Vec::new(),
            lock_deadline: now,
            lock: Duration::ZERO,
            acquired_at: now,
            held: Credit::new(0).hold(0),
        };
        let batches = returned(vec![batch], "share-orders");
        assert!(batches[0].records.is_empty());
        let stray = &batches[0].strays[0];
        assert_eq!(stray.raw.offset, 7);
        assert_eq!(stray.raw.value.as_deref(), Some(&b"v"[..]));
        assert!(stray.cause.starts_with("is no parked record: "));
        assert!(!stray.is_kept);
    }
}
