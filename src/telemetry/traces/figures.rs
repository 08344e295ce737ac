//! How much was traced, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counted where it happens.
#[derive(Debug, Default)]
pub struct TraceFigures {
    deliveries: AtomicU64,
    left_out: AtomicU64,
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// One look at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Deliveries of records that are traced.
    pub deliveries: u64,
    /// Those that were to be, and were too many.
    pub left_out: u64,
    /// Spans that the collector has taken.
    pub exported: u64,
    /// Spans that it has not.
    pub dropped: u64,
}

#[cfg(feature = "otel")]
impl TraceFigures {
    pub(super) fn traced(&self) {
        self.deliveries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn left_out(&self, deliveries: usize) {
        self.left_out
            .fetch_add(deliveries as u64, Ordering::Relaxed);
    }

    pub(super) fn exported(&self, spans: usize) {
        self.exported.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

impl TraceFigures {
    #[must_use]
    pub fn counts(&self) -> TraceCounts {
        TraceCounts {
            deliveries: self.deliveries.load(Ordering::Relaxed),
            left_out: self.left_out.load(Ordering::Relaxed),
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}
