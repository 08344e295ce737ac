//! From answers to records: only what is ours, nothing dropped.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use sluice_actors::record::TimestampType;

use crate::kafka::share::fetch;
use crate::kafka::share::records::{self, AcquiredRange, Collected, Limits, disjoint};
use crate::kafka::share::wire::{self, Batch, ShareAcquiredRecords};

const LIMIT: usize = 1 << 20;

fn acquired(first: i64, last: i64) -> AcquiredRange {
    AcquiredRange {
        first,
        last,
        delivery_count: 1,
    }
}

fn collect(log: Option<Bytes>, acquired: Vec<AcquiredRange>, limit: usize) -> Collected {
    let limits = Limits {
        batch: limit,
        room: usize::MAX,
    };
    records::collect(log, disjoint(acquired).0, limits)
}

/// Collects in steps, each of which has only so much room.
fn collect_in_steps(log: Bytes, acquired: Vec<AcquiredRange>, room: usize) -> Vec<Collected> {
    let limits = Limits { batch: LIMIT, room };
    let mut steps = vec![records::collect(Some(log), disjoint(acquired).0, limits)];
    while let Some(rest) = steps.last_mut().and_then(|step| step.rest.take()) {
        steps.push(records::collect(Some(rest.bytes), rest.ranges, limits));
    }
    steps
}

fn zipped(mut batch: Batch) -> Batch {
    batch.attributes.compression = krafka::Compression::Gzip;
    batch
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
    let named = [(0, 4), (3, 6)].map(|(first_offset, last_offset)| ShareAcquiredRecords {
        first_offset,
        last_offset,
        delivery_count: 1,
    });
    let (ranges, doubled) = fetch::ranges(&named);
    assert!(doubled, "and told");
    let log = log(&[batch(&[0, 1, 2, 3, 4, 5, 6])]);
    let limits = Limits {
        batch: LIMIT,
        room: usize::MAX,
    };
    let collected = records::collect(Some(log), ranges, limits);
    assert_eq!(offsets(&collected), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(collected.kept, [(0, 6)]);
    assert!(collected.gaps.is_empty());
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
        room in prop_oneof![Just(0), 0_usize..1000, Just(usize::MAX)],
    ) {
        let there: Vec<i64> = (0_i64..40).filter(|o| present[usize::try_from(*o).unwrap()]).collect();
        let batches: Vec<Batch> = there.chunks(size).map(batch).collect();
        let ranges: Vec<AcquiredRange> = held.iter().map(|(f, more)| acquired(*f, f + more)).collect();
        let ours = |offset: &i64| ranges.iter().any(|r| (r.first..=r.last).contains(offset));
        let batches: Vec<Batch> = batches.into_iter().map(zipped).collect();
        let steps = collect_in_steps(log(&batches), ranges.clone(), room);
        let all = |part: fn(&Collected) -> Vec<i64>| steps.iter().flat_map(part).collect::<Vec<_>>();
        let expected: Vec<i64> = there.iter().copied().filter(ours).collect();
        prop_assert_eq!(&all(offsets), &expected);
        let gaps = all(|step| step.gaps.iter().flat_map(|(f, l)| *f..=*l).collect());
        let missing: Vec<i64> = (0_i64..50).filter(ours).filter(|o| !there.contains(o)).collect();
        prop_assert_eq!(gaps, missing);
        let kept = all(|step| step.kept.iter().flat_map(|(f, l)| *f..=*l).collect());
        prop_assert_eq!(kept, expected);
    }
}

#[test]
fn the_batch_that_goes_beyond_the_room_is_the_last_one() {
    let batches = [0, 20, 40].map(|first| zipped(wide_batch(&Vec::from_iter(first..first + 10))));
    let steps = |room| {
        let steps = collect_in_steps(log(&batches), vec![acquired(0, 45)], room);
        let read = steps
            .iter()
            .map(|step| (step.records.len(), step.gaps.len()));
        read.collect::<Vec<_>>()
    };
    assert_eq!(steps(0), [(10, 0), (10, 1), (6, 1)]);
    assert_eq!(steps(2000), [(20, 1), (6, 1)]);
    assert_eq!(steps(usize::MAX), [(26, 2)]);
}

#[test]
fn what_does_not_grow_needs_no_room() {
    let log = log(&[wide_batch(&[0, 1]), wide_batch(&[2, 3])]);
    let steps = collect_in_steps(log.clone(), vec![acquired(0, 3)], 0);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].packed, log.len());
    assert_eq!(steps[0].unpacked, 4 * WIDTH);
}

#[test]
fn nobody_stops_behind_a_damaged_batch() {
    let mut bytes = BytesMut::from(&log(&[zipped(wide_batch(&[0, 1, 2]))])[..]);
    let damaged = bytes.len() + 70;
    let others = [[3, 4], [5, 6]].map(|offsets| zipped(wide_batch(&offsets)));
    bytes.extend_from_slice(&log(&others));
    bytes[damaged] ^= 1;
    let steps = collect_in_steps(bytes.freeze(), vec![acquired(0, 6)], 0);
    assert_eq!(steps.len(), 2);
    let corrupt = &steps[1].corrupt[0];
    assert_eq!((corrupt.first_offset, corrupt.last_offset), (3, 4));
    assert_eq!(offsets(&steps[1]), [5, 6]);
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

#[test]
fn headers_count_as_grown_and_as_kept_alive() {
    let mut wide = zipped(batch(&[0, 1, 2, 3]));
    for record in &mut wide.records {
        let header = Bytes::from(vec![b'h'; 100 * WIDTH]);
        *record = record
            .clone()
            .with_header(Bytes::from_static(b"trace"), header);
    }
    let headers = 100 * WIDTH + b"trace".len();
    let log = log(&[wide, zipped(batch(&[4]))]);
    let collected = collect(Some(log.clone()), vec![acquired(0, 4)], LIMIT);
    assert_eq!(collected.unpacked, 4 * headers + 5);
    assert_eq!(collected.bytes, collected.unpacked, "what they keep alive");

    let few = collect(Some(log.clone()), vec![acquired(1, 1)], LIMIT);
    assert_eq!(few.bytes, headers + 1, "copied out, with their headers");

    let steps = collect_in_steps(log, vec![acquired(0, 4)], 3 * headers);
    assert_eq!(steps.len(), 2, "and need room");
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
