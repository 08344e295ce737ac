//! Schemas by their text: each is read once, not once a record.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::AHashMap;
use parking_lot::RwLock;
use sluice_actors::value::SchemaRef;

use super::error::Result;

/// Holds at most so many schemas; the oldest goes first.
pub(super) struct SchemaCache {
    size: usize,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    schemas: AHashMap<Arc<str>, SchemaRef>,
    by_age: VecDeque<Arc<str>>,
    recent: Option<(Arc<str>, SchemaRef)>,
}

impl SchemaCache {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            known: RwLock::default(),
        }
    }

    /// The schema that the text begins with and its length, if it is the one
    /// that came last: most records have the schema of the one before, and to
    /// compare is many times quicker than to scan. A schema is an object, so
    /// its closing brace cannot be the middle of a longer one.
    pub(super) fn recent(&self, text: &str) -> Option<(SchemaRef, usize)> {
        let known = self.known.read();
        let (recent, schema) = known.recent.as_ref()?;
        text.starts_with(&**recent)
            .then(|| (schema.clone(), recent.len()))
    }

    /// The schema of that text, by `read` if it is new. Equal texts give the
    /// same schema, so that a sink can compare by pointer.
    pub(super) fn get(
        &self,
        text: &str,
        read: impl FnOnce() -> Result<Option<SchemaRef>>,
    ) -> Result<Option<SchemaRef>> {
        if let Some((text, schema)) = self.find(text) {
            // Who cannot have the lock at once leaves the hint as it is.
            if let Some(mut known) = self.known.try_write() {
                known.recent = Some((text, schema.clone()));
            }
            return Ok(Some(schema));
        }
        let Some(schema) = read()? else {
            return Ok(None);
        };
        if self.size == 0 {
            return Ok(Some(schema));
        }
        Ok(Some(self.known.write().keep(text, schema, self.size)))
    }

    fn find(&self, text: &str) -> Option<(Arc<str>, SchemaRef)> {
        let known = self.known.read();
        let (text, schema) = known.schemas.get_key_value(text)?;
        Some((Arc::clone(text), schema.clone()))
    }
}

impl Known {
    /// Another thread may have been first; then its schema is the one.
    fn keep(&mut self, text: &str, schema: SchemaRef, size: usize) -> SchemaRef {
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
        self.recent = Some((Arc::clone(&text), schema.clone()));
        self.schemas.insert(text, schema.clone());
        schema
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sluice_actors::value::{Kind, Schema};

    use super::*;

    fn get(cache: &SchemaCache, text: &str, reads: &Cell<u32>) -> Option<SchemaRef> {
        let read = || {
            reads.set(reads.get() + 1);
            Ok(Some(SchemaRef::from(Schema::of(Kind::Int8))))
        };
        cache.get(text, read).unwrap()
    }

    #[test]
    fn a_text_is_read_once_and_gives_the_same_schema() {
        let (cache, reads) = (SchemaCache::new(2), Cell::new(0));
        let first = get(&cache, "a", &reads).unwrap();
        let second = get(&cache, "a", &reads).unwrap();
        assert!(SchemaRef::ptr_eq(&first, &second));
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
    fn the_schema_that_came_last_is_found_by_the_begin_of_the_text() {
        let (cache, reads) = (SchemaCache::new(2), Cell::new(0));
        assert!(cache.recent("{a}").is_none());
        let first = get(&cache, "{a}", &reads).unwrap();
        let second = get(&cache, "{b}", &reads).unwrap();
        assert!(cache.recent("{a},").is_none());
        let (found, length) = cache.recent("{b},").unwrap();
        assert!(SchemaRef::ptr_eq(&found, &second));
        assert_eq!(length, 3);
        get(&cache, "{a}", &reads);
        assert!(SchemaRef::ptr_eq(&cache.recent("{a},").unwrap().0, &first));
    }

    #[test]
    fn without_room_every_text_is_read() {
        let (cache, reads) = (SchemaCache::new(0), Cell::new(0));
        get(&cache, "a", &reads);
        get(&cache, "a", &reads);
        assert_eq!(reads.get(), 2);
    }
}
