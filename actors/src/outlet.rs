//! Carries out what the books answer.

use std::sync::Arc;

use crate::books::{Effects, SharedBooks};
use crate::error_log::ErrorLog;
use crate::messages::RecordFailed;
use crate::ports::source::Source;

/// The way out for one connector: the acknowledger's, and the supervisor's
/// while there is none.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) connector: Arc<str>,
    pub(crate) books: Arc<SharedBooks>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) error_log: ErrorLog,
}

impl Outlet {
    /// Returns the record that fails the connector, if one does.
    pub(crate) fn carry_out(&self, effects: Effects) -> Option<RecordFailed> {
        if !effects.settle.is_empty() {
            self.source.settle(effects.settle);
        }
        if effects.work {
            self.books.work.notify_waiters();
        }
        self.error_log.tell(&self.connector, &effects.put_aside);
        let (record, rejection) = effects.failure?;
        Some(RecordFailed { record, rejection })
    }
}
