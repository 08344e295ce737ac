//! RecordIsTombstone: records without a value.

use std::sync::Arc;

use sluice_actors::record::SinkRecord;

use crate::transforms::chain::Predicate;
use crate::transforms::entry::Entry;

pub(in crate::transforms) const ENTRIES: &[Entry<dyn Predicate>] = &[Entry {
    class: "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    doc: "Holds for records whose value is null.",
    keys: &[],
    build: |_| Arc::new(RecordIsTombstone),
}];

struct RecordIsTombstone;

impl Predicate for RecordIsTombstone {
    fn test(&self, record: &SinkRecord) -> bool {
        record.value.value.is_null()
    }
}
