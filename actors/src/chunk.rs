//! The records of one put, and the bytes that they hold.

use std::ops::Deref;
use std::sync::Arc;

use crate::credit::BytesHeld;
use crate::record::SinkRecord;

/// Records that go to a sink together. Cheap to clone; never empty in a put.
/// The bytes of its records are given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Chunk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Vec<SinkRecord>,
    holds: Holds,
}

impl Chunk {
    #[must_use]
    pub fn new(records: Vec<SinkRecord>) -> Self {
        Self::holding(records, Holds::default())
    }

    pub(crate) fn holding(records: Vec<SinkRecord>, holds: Holds) -> Self {
        Self {
            inner: Arc::new(Inner { records, holds }),
        }
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.inner.holds
    }
}

impl Deref for Chunk {
    type Target = [SinkRecord];

    fn deref(&self) -> &[SinkRecord] {
        &self.inner.records
    }
}

/// Shares in the bytes of the responses that records came in.
#[derive(Clone, Debug, Default)]
pub struct Holds(Vec<Arc<BytesHeld>>);

impl Holds {
    #[must_use]
    pub fn of(held: BytesHeld) -> Self {
        Self(vec![Arc::new(held)])
    }

    /// Shares in another's bytes too.
    pub fn add(&mut self, other: &Self) {
        for held in &other.0 {
            if !self.0.last().is_some_and(|last| Arc::ptr_eq(last, held)) {
                self.0.push(Arc::clone(held));
            }
        }
    }
}
