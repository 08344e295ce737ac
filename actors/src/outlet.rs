//! Changes the books, and carries out what they answer.

use std::sync::Arc;

use crate::books::{Books, Effects, SharedBooks};
use crate::error_log::ErrorLog;
use crate::messages::RecordFailed;
use crate::ports::source::Source;

/// The way out for one connector, for all its actors.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) error_log: ErrorLog,
}

impl Outlet {
    /// Changes the books and does what follows of it. Returns the record that
    /// fails the connector, if one does.
    pub(crate) fn enter(&self, change: impl FnOnce(&mut Books) -> Effects) -> Option<RecordFailed> {
        let effects = self.change(change);
        self.log(effects)
    }

    /// Changes the books and tells the source in one step, under the books'
    /// lock: settlements leave in the order in which they were entered, and no
    /// actor's death comes in between. Returns what is to be logged.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Books) -> Effects) -> Effects {
        let effects = {
            let mut books = self.books.lock();
            let mut effects = change(&mut books);
            let settle = std::mem::take(&mut effects.settle);
            if !settle.is_empty() {
                self.source.settle(settle);
            }
            effects
        };
        if effects.work {
            self.books.work.notify_waiters();
        }
        effects
    }

    /// Under no lock: who reads the log slowly must hold up nobody. Returns the
    /// record that fails the connector, if one does.
    pub(crate) fn log(&self, effects: Effects) -> Option<RecordFailed> {
        self.error_log.tell(&self.connector, &effects.put_aside);
        let (record, rejection) = effects.failure?;
        Some(RecordFailed { record, rejection })
    }
}
