//! Keeps the locks where poller and acknowledger do not.

use tokio::time::Instant;

use super::Supervisor;

impl Supervisor {
    /// Does what of their work keeps records ours, when nobody looked after the
    /// locks lately: they hang, between two generations they are not there, and
    /// after too many stuck threads they never will be. A hang is found far
    /// later than a lock ends.
    ///
    /// Events come first: a renewal that is answered already would end else.
    pub(super) fn stand_in(&mut self) {
        let now = Instant::now();
        if self.books.lock().are_locks_watched(now) {
            return;
        }
        for news in self.inbox.enter_waiting() {
            self.hear(news);
        }
        self.enter(|books| books.watch_locks(now));
    }
}
