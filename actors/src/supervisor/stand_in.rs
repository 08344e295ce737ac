//! Keeps the locks where poller and acknowledger do not.

use tokio::time::Instant;

use super::Supervisor;
use crate::hang::{Looks, WorkSign, WorkWatch};

/// For how long nobody has looked at what the source has to tell.
#[derive(Debug)]
pub(super) struct InboxWatch {
    looks: Looks,
    poller: WorkWatch,
}

impl InboxWatch {
    pub(super) fn from(now: Instant) -> Self {
        Self {
            looks: Looks::from(now),
            poller: WorkWatch::default(),
        }
    }

    /// It does not matter who is to blame.
    fn look(&mut self, sign: WorkSign, now: Instant) {
        let elapsed = self.looks.look(now);
        self.poller.look(sign, true, elapsed);
    }
}

impl Supervisor {
    /// Does what of their work keeps records ours, when nobody looked after the
    /// locks lately, or at what the source tells of them: they hang, one of
    /// them does, between two generations they are not there, and after too
    /// many stuck threads they never will be. A hang is found far later than a
    /// lock ends.
    ///
    /// Events come first: a renewal that is answered already would end else.
    pub(super) fn stand_in(&mut self) {
        let now = Instant::now();
        self.inbox_watch.look(self.inbox.work(), now);
        let (are_locks_watched, limit) = {
            let books = self.books.lock();
            (books.are_locks_watched(now), books.longest_unwatched())
        };
        if are_locks_watched && !self.inbox_watch.poller.hangs(limit) {
            return;
        }
        for news in self.inbox.enter_waiting() {
            self.hear(news);
        }
        self.enter(|books| books.watch_locks(now));
    }
}
