//! Spans that wait for their export, and what becomes of it. They never wait
//! for a collector that is away: what is too much is not traced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor,
};

use super::TraceFigures;
use crate::config::traces::BatchSettings;
use crate::telemetry::otlp::Failing;

/// A record's spans, as a rule; so much room it takes to begin a life.
const SPANS_OF_A_LIFE: usize = 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Outlet {
    processor: BatchSpanProcessor,
    backlog: Arc<AtomicUsize>,
    queue: usize,
    figures: Arc<TraceFigures>,
}

impl Outlet {
    /// Starts a thread that exports. `refused`: see the exporter's.
    pub(super) fn start(
        exporter: impl SpanExporter + 'static,
        refused: Arc<AtomicU64>,
        resource: &Resource,
        settings: BatchSettings,
        figures: &Arc<TraceFigures>,
    ) -> Self {
        let backlog = Arc::new(AtomicUsize::new(0));
        let watched = Watched {
            exporter,
            refused,
            backlog: Arc::clone(&backlog),
            figures: Arc::clone(figures),
            failing: Failing::default(),
        };
        let batching = BatchConfigBuilder::default()
            .with_max_queue_size(settings.queue)
            .with_max_export_batch_size(settings.batch)
            .with_scheduled_delay(settings.delay)
            .build();
        let mut processor = BatchSpanProcessor::new(watched, batching);
        processor.set_resource(resource);
        Self {
            processor,
            backlog,
            queue: settings.queue,
            figures: Arc::clone(figures),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) + SPANS_OF_A_LIFE <= self.queue
    }

    /// All of so many or none: a part of a life would mislead. They are built if
    /// there is room: who asks may hold others up.
    pub(super) fn send(&self, count: usize, build: impl FnOnce() -> Vec<SpanData>) {
        let backlog = self.backlog.fetch_add(count, Ordering::Relaxed);
        if backlog + count > self.queue {
            self.backlog.fetch_sub(count, Ordering::Relaxed);
            self.figures.dropped(count);
            return;
        }
        for span in build() {
            self.processor.on_end(span);
        }
    }

    pub(super) fn shut_down(&self, within: Duration) {
        if let Err(error) = self.processor.shutdown_with_timeout(within) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// Counts what an exporter does, and tells when it begins to fail.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    refused: Arc<AtomicU64>,
    backlog: Arc<AtomicUsize>,
    figures: Arc<TraceFigures>,
    failing: Failing,
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        self.backlog.fetch_sub(spans, Ordering::Relaxed);
        if self.failing.changes(&result) {
            match &result {
                Ok(()) => tracing::info!("spans are exported again"),
                Err(error) => tracing::warn!(
                    %error,
                    "spans cannot be exported and are dropped; see otel.exporter.otlp.endpoint"
                ),
            }
        }
        let dropped = match (&result, self.refused.swap(0, Ordering::Relaxed)) {
            (Ok(()), _) => 0,
            (Err(_), 0) => spans,
            (Err(_), refused) => spans.min(usize::try_from(refused).unwrap_or(spans)),
        };
        self.figures.exported(spans - dropped);
        self.figures.dropped(dropped);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
