//! The books as the actors of one connector share them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::{Books, Policy};
use crate::circuit::SharedCircuit;
use crate::credit::Credit;
use crate::digest::Digest;
use crate::flush::FlushCall;

/// The books of one connector, shared by its actors.
#[derive(Debug)]
pub struct SharedBooks {
    books: Mutex<Books>,
    circuit: Arc<SharedCircuit>,
    /// Told when there is something to convert or work for a task, or the next
    /// work's time has changed. To all who wait: one of them may be dead.
    pub(crate) work: Notify,
    /// Told when there are letters to write.
    pub(crate) letters: Notify,
    /// Whether records may have to be written as they were.
    pub(crate) has_letters: bool,
    idle_tasks: AtomicUsize,
    /// Of these, the one that has waited longest.
    next_task: AtomicU32,
    polling: AtomicBool,
    pub(crate) flush_call: Arc<FlushCall>,
    errors_logged: AtomicU64,
    /// What is logged in sums.
    pub(crate) digest: Mutex<Digest>,
}

impl SharedBooks {
    #[must_use]
    pub fn new(policy: Policy, credit: Arc<Credit>) -> Arc<Self> {
        Self::of(Books::new(policy, credit))
    }

    /// The same, with dead letters for records that are put aside.
    #[must_use]
    pub fn with_dead_letters(policy: Policy, credit: Arc<Credit>) -> Arc<Self> {
        Self::of(Books::with_dead_letters(policy, credit))
    }

    fn of(books: Books) -> Arc<Self> {
        Arc::new(Self {
            has_letters: books.has_letters(),
            circuit: Arc::clone(books.circuit()),
            books: Mutex::new(books),
            work: Notify::new(),
            letters: Notify::new(),
            idle_tasks: AtomicUsize::new(0),
            next_task: AtomicU32::new(0),
            polling: AtomicBool::new(true),
            flush_call: Arc::default(),
            errors_logged: AtomicU64::new(0),
            digest: Mutex::default(),
        })
    }

    /// Whether the sink takes records at all.
    #[must_use]
    pub const fn circuit(&self) -> &Arc<SharedCircuit> {
        &self.circuit
    }

    /// Tasks that wait for records.
    #[must_use]
    pub fn idle_tasks(&self) -> usize {
        self.idle_tasks.load(Ordering::Relaxed)
    }

    /// The task that gets the next put, if one waits.
    pub(crate) fn next_task(&self) -> Option<u32> {
        (self.idle_tasks() > 0).then(|| self.next_task.load(Ordering::Relaxed))
    }

    pub(crate) fn set_idle_tasks(&self, tasks: usize, next: Option<u32>) {
        self.next_task
            .store(next.unwrap_or_default(), Ordering::Relaxed);
        self.idle_tasks.store(tasks, Ordering::Relaxed);
    }

    /// Whether more records are wanted; not while failed or draining.
    #[must_use]
    pub fn is_polling(&self) -> bool {
        self.polling.load(Ordering::Acquire)
    }

    pub(crate) fn stop_polling(&self) {
        self.polling.store(false, Ordering::Release);
    }

    pub(crate) fn resume_polling(&self) {
        self.polling.store(true, Ordering::Release);
    }

    /// Records that the log has told of.
    #[must_use]
    pub fn errors_logged(&self) -> u64 {
        self.errors_logged.load(Ordering::Relaxed)
    }

    pub(crate) fn add_errors_logged(&self, records: u64) {
        self.errors_logged.fetch_add(records, Ordering::Relaxed);
    }

    pub fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.books.is_locked()
    }
}
