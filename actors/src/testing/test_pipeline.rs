//! A pipeline between fakes.

use std::sync::Arc;
use std::time::Duration;

use super::{FakeSource, Fate};
use crate::credit::Credit;
use crate::live_view::LiveView;
use crate::supervisor::{Pipeline, PipelineSpec};
use crate::threads::Threads;

/// A pipeline that reads a fake source, with all that a test looks at.
pub struct TestPipeline {
    pub source: FakeSource,
    pub credit: Arc<Credit>,
    pub view: Arc<LiveView>,
    pub pipeline: Pipeline,
}

impl TestPipeline {
    /// Starts one on the threads of the caller, with so many records in each
    /// partition and locks that last so long. Needs a running actix `System`.
    #[must_use]
    pub fn start(spec: PipelineSpec, partitions: &[usize], lock: Duration) -> Self {
        let view = LiveView::new();
        Self::start_on(Threads::current(), view, spec, partitions, lock)
    }

    /// The same on these threads, shown in this view.
    #[must_use]
    pub fn start_on(
        threads: Threads,
        view: Arc<LiveView>,
        spec: PipelineSpec,
        partitions: &[usize],
        lock: Duration,
    ) -> Self {
        let credit = Credit::new(1 << 20);
        let (source, events) = FakeSource::start(&credit, partitions, lock);
        let pipeline = Pipeline::start(
            spec,
            Arc::new(source.clone()),
            events,
            Arc::clone(&credit),
            threads,
            Arc::clone(&view),
        );
        Self {
            source,
            credit,
            view,
            pipeline,
        }
    }

    /// How many records the broker holds as accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.source.count(|fate| fate == Fate::Accepted)
    }
}
