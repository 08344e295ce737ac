//! The members of an object while it is read: in order, each name once, the
//! last value of a name wins.

use ahash::AHashMap;
use bytestring::ByteString;
use sluice_actors::value::Value;

/// Up to here a look at each name is quicker than an index.
pub(super) const FEW: usize = 16;

#[derive(Default)]
pub(super) struct Members {
    entries: Vec<(Value, Value)>,
    /// Where each name stands, once there are more than a few.
    places: AHashMap<ByteString, usize>,
}

impl Members {
    pub(super) fn put(&mut self, name: ByteString, value: Value) {
        if let Some(place) = self.place(&name) {
            self.entries[place].1 = value;
            return;
        }
        if self.entries.len() >= FEW {
            self.places.insert(name.clone(), self.entries.len());
        }
        self.entries.push((Value::String(name), value));
    }

    pub(super) fn into_map(self) -> Value {
        Value::Map(self.entries)
    }

    fn place(&mut self, name: &ByteString) -> Option<usize> {
        let few = &self.entries[..self.entries.len().min(FEW)];
        few.iter()
            .position(|(key, _)| matches!(key, Value::String(key) if key == name))
            .or_else(|| self.places.get(name).copied())
    }
}
