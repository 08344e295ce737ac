//! Filter: drops records, those of its predicate as a rule.

use std::sync::Arc;

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::SinkRecord;

use super::entry::Entry;

pub(super) const ENTRIES: &[Entry<dyn Transform>] = &[Entry {
    class: "org.apache.kafka.connect.transforms.Filter",
    doc: "Drops every record, so it wants a predicate. A dropped record counts as delivered.",
    keys: &[],
    build: |_| Arc::new(Filter),
}];

struct Filter;

impl Transform for Filter {
    fn apply(&self, _record: SinkRecord) -> Result<Option<SinkRecord>, ConvertError> {
        Ok(None)
    }
}
