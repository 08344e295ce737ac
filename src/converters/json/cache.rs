//! Schemas by their text: each is read once, not once a record.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::AHashMap;
use parking_lot::RwLock;
use sluice_actors::value::Schema;

use super::error::Result;

/// Holds at most so many schemas; the oldest goes first.
pub(super) struct SchemaCache {
    size: usize,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    schemas: AHashMap<Arc<str>, Option<Arc<Schema>>>,
    by_age: VecDeque<Arc<str>>,
}

impl SchemaCache {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            known: RwLock::default(),
        }
    }

    /// The schema of that text, by `read` if it is new. Equal texts give the
    /// same schema, so that a sink can compare by pointer.
    pub(super) fn get(
        &self,
        text: &str,
        read: impl FnOnce() -> Result<Option<Arc<Schema>>>,
    ) -> Result<Option<Arc<Schema>>> {
        if let Some(schema) = self.known.read().schemas.get(text) {
            return Ok(schema.clone());
        }
        let schema = read()?;
        if self.size == 0 {
            return Ok(schema);
        }
        Ok(self.known.write().keep(text, schema, self.size))
    }
}

impl Known {
    /// Another thread may have been first; then its schema is the one.
    fn keep(
        &mut self,
        text: &str,
        schema: Option<Arc<Schema>>,
        size: usize,
    ) -> Option<Arc<Schema>> {
        if let Some(known) = self.schemas.get(text) {
            return known.clone();
        }
        if self.by_age.len() == size
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.schemas.remove(&oldest);
        }
        // A copy: the text is a slice of a payload that must not be pinned.
        let text: Arc<str> = Arc::from(text);
        self.by_age.push_back(Arc::clone(&text));
        self.schemas.insert(text, schema.clone());
        schema
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sluice_actors::value::Kind;

    use super::*;

    fn get(cache: &SchemaCache, text: &str, reads: &Cell<u32>) -> Option<Arc<Schema>> {
        let read = || {
            reads.set(reads.get() + 1);
            Ok(Some(Arc::new(Schema::of(Kind::Int8))))
        };
        cache.get(text, read).unwrap()
    }

    #[test]
    fn a_text_is_read_once_and_gives_the_same_schema() {
        let (cache, reads) = (SchemaCache::new(2), Cell::new(0));
        let first = get(&cache, "a", &reads).unwrap();
        let second = get(&cache, "a", &reads).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(reads.get(), 1);
    }

    #[test]
    fn the_oldest_schema_makes_room() {
        let (cache, reads) = (SchemaCache::new(2), Cell::new(0));
        for text in ["a", "b", "c", "b", "c"] {
            get(&cache, text, &reads);
        }
        assert_eq!(reads.get(), 3);
        get(&cache, "a", &reads);
        assert_eq!(reads.get(), 4);
        assert_eq!(cache.known.read().schemas.len(), 2);
    }

    #[test]
    fn without_room_every_text_is_read() {
        let (cache, reads) = (SchemaCache::new(0), Cell::new(0));
        get(&cache, "a", &reads);
        get(&cache, "a", &reads);
        assert_eq!(reads.get(), 2);
    }
}
