//! How much may be in flight: records and bytes.
//!
//! The poller sets the window, the source keeps to it. Bytes are owed by the
//! batches that hold them and come back when those are dropped, whatever path
//! they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The credit of one pipeline.
#[derive(Debug)]
pub struct Credit {
    window_records: AtomicUsize,
    limit_bytes: usize,
    held_bytes: AtomicUsize,
    awaiting: AtomicBool,
    changed: Notify,
}

impl Credit {
    /// No records yet, and at most `limit_bytes` of payload.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            window_records: AtomicUsize::new(0),
            limit_bytes,
            held_bytes: AtomicUsize::new(0),
            awaiting: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// How many records may be open at once: acquired, and not yet put on a
    /// request as finally settled. Zero pauses fetching, not settling.
    #[must_use]
    pub fn window_records(&self) -> usize {
        self.window_records.load(Ordering::SeqCst)
    }

    /// Sets the window; what is open beyond a smaller one stays open.
    pub fn set_window_records(&self, records: usize) {
        if self.window_records.swap(records, Ordering::SeqCst) != records {
            self.changed.notify_one();
        }
    }

    /// Whether the source has asked for records that it has not told yet. They
    /// may come after the window was closed.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        self.awaiting.load(Ordering::SeqCst)
    }

    /// Told by the source.
    pub fn set_awaiting(&self, awaiting: bool) {
        self.awaiting.store(awaiting, Ordering::SeqCst);
    }

    /// Bytes that may be held, unless a single record is larger.
    #[must_use]
    pub const fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Bytes that may still be fetched.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.held_bytes())
    }

    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Acquire)
    }

    /// Takes bytes, also beyond the limit: a single record larger than what is
    /// free must come through.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: usize) -> BytesHeld {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        BytesHeld {
            credit: Arc::clone(self),
            bytes,
        }
    }

    /// Waits until the window or the free bytes have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.changed.notify_one();
    }
}

/// Bytes in flight; dropping it gives them back.
#[derive(Debug)]
pub struct BytesHeld {
    credit: Arc<Credit>,
    bytes: usize,
}

impl BytesHeld {
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for BytesHeld {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.credit.give_back(self.bytes);
        }
    }
}
