//! HasHeaderKey: records with a header of that name.

use std::sync::Arc;

use sluice_actors::record::SinkRecord;

use crate::config::definition::{Key, Kind, Preset, Reader, key};
use crate::transforms::chain::Predicate;
use crate::transforms::entry::Entry;

const NAME: &str = "name";

const KEYS: &[Key] = &[key(NAME, Kind::Text, Preset::Required, "The header's key.")];

pub(in crate::transforms) const ENTRIES: &[Entry<dyn Predicate>] = &[Entry {
    class: "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    doc: "Holds for records that have at least one header of that key.",
    keys: KEYS,
    build: |reader| Arc::new(HasHeaderKey::read(reader)),
}];

struct HasHeaderKey {
    name: String,
}

impl HasHeaderKey {
    fn read(reader: &mut Reader<'_>) -> Self {
        let name = reader.optional_text(NAME);
        if name.as_deref() == Some("") {
            reader.fault(NAME, "is empty; give the header's key");
        }
        Self {
            name: name.unwrap_or_default(),
        }
    }
}

impl Predicate for HasHeaderKey {
    fn test(&self, record: &SinkRecord) -> bool {
        record
            .headers
            .iter()
            .any(|header| *header.key == *self.name)
    }
}
