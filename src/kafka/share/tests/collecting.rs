//! From answers to records: only what is ours, nothing dropped.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use sluice_actors::record::TimestampType;

use crate::kafka::share::records::{self, AcquiredRange, Collected, disjoint};
use crate::kafka::share::wire::{self, Batch};

const LIMIT: usize = 1 << 20;

fn acquired(first: i64, last: i64) -> AcquiredRange {
    AcquiredRange {
        first,
        last,
        delivery_count: 1,
    }
}

fn collect(log: Option<Bytes>, acquired: Vec<AcquiredRange>, limit: usize) -> Collected {
    records::collect(log, disjoint(acquired).0, limit)
}

/// A batch with records at these offsets, the first of which is its base.
fn batch(offsets: &[i64]) -> Batch {
    let mut batch = Batch::new();
    batch.base_offset = offsets[0];
    batch.base_timestamp = 1000;
    batch.max_timestamp = 5000;
    for offset in offsets {
        let delta = i32::try_from(offset - offsets[0]).unwrap();
        let value = Bytes::from(offset.to_string());
        let record = wire::Record::new(None, Some(value))
            .with_offset_delta(delta)
            .with_timestamp_delta(i64::from(delta));
        batch.add_record(record);
    }
    batch.last_offset_delta = i32::try_from(offsets[offsets.len() - 1] - offsets[0]).unwrap();
    batch
}

fn log(batches: &[Batch]) -> Bytes {
    let mut log = BytesMut::new();
    for batch in batches {
        log.extend_from_slice(&batch.encode().unwrap());
    }
    log.freeze()
}

fn offsets(collected: &Collected) -> Vec<i64> {
    collected
        .records
        .iter()
        .map(|record| record.offset)
        .collect()
}

#[test]
fn only_records_inside_the_acquired_ranges_are_ours() {
    let log = log(&[batch(&[0, 1, 2, 3, 4]), batch(&[5, 6, 7, 8, 9])]);
    let ranges = vec![
        AcquiredRange {
            first: 1,
            last: 2,
            delivery_count: 3,
        },
        acquired(6, 8),
    ];
    let collected = collect(Some(log), ranges, LIMIT);
    assert_eq!(offsets(&collected), [1, 2, 6, 7, 8]);
    let counts: Vec<u16> = collected.records.iter().map(|r| r.delivery_count).collect();
    assert_eq!(counts, [3, 3, 1, 1, 1]);
    assert_eq!(collected.kept, [(1, 2), (6, 8)]);
    assert!(collected.gaps.is_empty() && collected.corrupt.is_empty());
    assert_eq!(collected.bytes, 5);
}

#[test]
fn payloads_are_slices_of_the_answer() {
    let log = log(&[wide_batch(&[0])]);
    let within = log.as_ptr_range();
    let collected = collect(Some(log), vec![acquired(0, 0)], LIMIT);
    let value = collected.records[0].value.as_ref().unwrap();
    assert!(within.contains(&value.as_ptr()));
}

#[test]
fn acquired_offsets_without_a_record_are_gaps() {
    // Compacted: within a batch, between batches, before and after all.
    let log = log(&[batch(&[2, 4, 5]), batch(&[8, 9])]);
    let collected = collect(Some(log), vec![acquired(0, 6), acquired(7, 12)], LIMIT);
    assert_eq!(offsets(&collected), [2, 4, 5, 8, 9]);
    assert_eq!(collected.gaps, [(0, 1), (3, 3), (6, 7), (10, 12)]);
}

#[test]
fn control_batches_are_gaps() {
    let mut control = batch(&[3]);
    control.attributes.is_control_batch = true;
    let log = log(&[batch(&[0, 1, 2]), control, batch(&[4])]);
    let collected = collect(Some(log), vec![acquired(0, 4)], LIMIT);
    assert_eq!(offsets(&collected), [0, 1, 2, 4]);
    assert_eq!(collected.gaps, [(3, 3)]);
}

#[test]
fn an_answer_without_records_is_all_gaps() {
    let collected = collect(None, vec![acquired(0, 9)], LIMIT);
    assert_eq!(collected.gaps, [(0, 9)]);
    assert!(collected.kept.is_empty());
}

#[test]
fn an_offset_named_twice_is_delivered_once_and_never_a_gap() {
    let log = log(&[batch(&[0, 1, 2, 3, 4, 5, 6])]);
    let collected = collect(Some(log), vec![acquired(0, 4), acquired(3, 6)], LIMIT);
    assert_eq!(offsets(&collected), [0, 1, 2, 3, 4, 5, 6]);
    assert!(collected.gaps.is_empty());
    assert!(disjoint(vec![acquired(0, 4), acquired(3, 6)]).1, "and told");
}

#[test]
fn a_damaged_batch_is_corrupt_and_the_others_are_delivered() {
    let mut bytes = BytesMut::from(&log(&[batch(&[0, 1])])[..]);
    let damaged = bytes.len() + batch(&[2, 3]).encode().unwrap().len() - 1;
    bytes.extend_from_slice(&log(&[batch(&[2, 3]), batch(&[4, 5])]));
    bytes[damaged] ^= 1;
    let collected = collect(Some(bytes.freeze()), vec![acquired(0, 5)], LIMIT);
    assert_eq!(offsets(&collected), [0, 1, 4, 5]);
    assert_eq!(collected.corrupt.len(), 1);
    let corrupt = &collected.corrupt[0];
    assert_eq!((corrupt.first_offset, corrupt.last_offset), (2, 3));
    assert!(corrupt.cause.contains("CRC"), "{}", corrupt.cause);
    assert_eq!(collected.kept, [(0, 5)]);
    assert!(collected.gaps.is_empty());
}

#[test]
fn what_follows_unreadable_bytes_is_corrupt_and_never_a_gap() {
    let whole = log(&[batch(&[0, 1]), batch(&[2, 3])]);
    let cut = whole.slice(..whole.len() - 5);
    let collected = collect(Some(cut), vec![acquired(0, 3)], LIMIT);
    assert_eq!(offsets(&collected), [0, 1]);
    assert_eq!(collected.corrupt[0].first_offset, 2);
    assert_eq!(collected.corrupt[0].last_offset, 3);
    assert!(collected.gaps.is_empty());
}

#[test]
fn a_batch_that_grows_too_large_is_corrupt() {
    let mut large = batch(&[0]);
    large.records[0].value = Some(Bytes::from(vec![0; 10_000]));
    large.attributes.compression = krafka::Compression::Gzip;
    let collected = collect(Some(log(&[large])), vec![acquired(0, 0)], 1000);
    assert_eq!(collected.corrupt.len(), 1);
}

#[test]
fn timestamps_are_the_producers_or_the_brokers_or_none() {
    let created = collect(Some(log(&[batch(&[0, 1])])), vec![acquired(0, 1)], LIMIT);
    assert_eq!(created.records[1].timestamp, Some(1001));
    assert_eq!(created.records[1].timestamp_type, TimestampType::CreateTime);

    let mut appended = batch(&[0, 1]);
    appended.attributes.timestamp_type = wire::TimestampType::LogAppendTime;
    let appended = collect(Some(log(&[appended])), vec![acquired(0, 1)], LIMIT);
    assert_eq!(appended.records[0].timestamp, Some(5000));
    assert_eq!(
        appended.records[0].timestamp_type,
        TimestampType::LogAppendTime
    );

    let mut undated = batch(&[0]);
    undated.base_timestamp = -1;
    let undated = collect(Some(log(&[undated])), vec![acquired(0, 0)], LIMIT);
    assert_eq!(undated.records[0].timestamp, None);
}

#[test]
fn ranges_at_the_end_of_the_offset_space_do_no_harm() {
    let ranges = vec![acquired(0, i64::MAX), acquired(5, i64::MAX), acquired(9, 3)];
    let collected = collect(Some(log(&[batch(&[0, 1])])), ranges, LIMIT);
    assert_eq!(offsets(&collected), [0, 1]);
    assert_eq!(collected.gaps, [(2, i64::MAX - 1)]);
}

proptest! {
    #[test]
    fn every_acquired_offset_is_a_record_or_a_gap(
        present in prop::collection::vec(any::<bool>(), 40),
        held in prop::collection::vec((0_i64..40, 0_i64..10), 0..6),
        size in 1_usize..9,
    ) {
        let there: Vec<i64> = (0_i64..40).filter(|o| present[usize::try_from(*o).unwrap()]).collect();
        let batches: Vec<Batch> = there.chunks(size).map(batch).collect();
        let ranges: Vec<AcquiredRange> = held.iter().map(|(f, more)| acquired(*f, f + more)).collect();
        let ours = |offset: &i64| ranges.iter().any(|r| (r.first..=r.last).contains(offset));
        let collected = collect(Some(log(&batches)), ranges.clone(), LIMIT);
        let expected: Vec<i64> = there.iter().copied().filter(ours).collect();
        prop_assert_eq!(&offsets(&collected), &expected);
        let gaps: Vec<i64> = collected.gaps.iter().flat_map(|(f, l)| *f..=*l).collect();
        let missing: Vec<i64> = (0_i64..50).filter(ours).filter(|o| !there.contains(o)).collect();
        prop_assert_eq!(gaps, missing);
        let kept: Vec<i64> = collected.kept.iter().flat_map(|(f, l)| *f..=*l).collect();
        prop_assert_eq!(kept, expected);
    }
}

#[test]
fn a_few_records_of_a_large_answer_are_copied_out_of_it() {
    let offsets: Vec<i64> = (0..100).collect();
    let large = log(&[wide_batch(&offsets)]);
    let few = collect(Some(large.clone()), vec![acquired(7, 8)], LIMIT);
    assert_eq!(few.bytes, 2 * WIDTH, "their own payload only");
    let values = few.records.iter().map(|record| record.value.as_deref());
    assert!(values.eq([&[7; WIDTH][..], &[8; WIDTH][..]].map(Some)));
    assert!(large.is_unique(), "nothing keeps the answer alive");

    let all = collect(Some(large.clone()), vec![acquired(0, 99)], LIMIT);
    assert!(!large.is_unique(), "in bulk nothing is copied");
    assert_eq!(all.bytes, large.len(), "what they keep alive counts");
}

const WIDTH: usize = 200;

/// Its values are their offset, many times.
fn wide_batch(offsets: &[i64]) -> Batch {
    let mut batch = batch(offsets);
    for (record, offset) in batch.records.iter_mut().zip(offsets) {
        record.value = Some(vec![u8::try_from(*offset).unwrap(); WIDTH].into());
    }
    batch
}
