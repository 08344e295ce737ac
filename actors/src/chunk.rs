//! The records of one put.

use std::ops::Deref;
use std::sync::Arc;

use crate::record::SinkRecord;

/// Records that go to a sink together. Cheap to clone; never empty in a put.
#[derive(Clone, Debug)]
pub struct Chunk {
    records: Arc<Vec<SinkRecord>>,
}

impl Chunk {
    #[must_use]
    pub fn new(records: Vec<SinkRecord>) -> Self {
        Self {
            records: Arc::new(records),
        }
    }
}

impl Deref for Chunk {
    type Target = [SinkRecord];

    fn deref(&self) -> &[SinkRecord] {
        &self.records
    }
}
