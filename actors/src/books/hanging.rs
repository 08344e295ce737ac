//! Records that a put took too long over.
//!
//! Without parking another task puts them once more, and after that another
//! worker may. With it, those that hang while others are delivered have failed,
//! as if the sink wanted them again: they stay here until they are parked. All
//! stay while the sink takes none.

use tokio::time::Instant;

use super::policy::Again;
use super::settling::{PutRef, key};
use super::{Books, Effects, Failing, entry};
use crate::outcome::Cause;
use crate::record::SinkRecord;

const CAUSE: &str = "puts of it took longer than share.delivery.timeout.ms";

/// What becomes of a record that hung.
enum Hung {
    /// Under the same lock.
    ToAnotherTask,
    Release,
    /// On its last attempt.
    Held,
    /// By itself, so that it keeps none behind it that does not hang.
    Alone(Instant),
    PutAside,
    Park,
}

impl Books {
    /// Takes those back that a put had not told of when it was given up.
    pub(super) fn timed_out(&mut self, put: &PutRef, places: &[usize], effects: &mut Effects) {
        if !places.is_empty() {
            self.note_hung(put, effects);
        }
        if self.is_no_hung_one_to_blame() {
            let work = self.take_back(put, places, put.history);
            return self.put_again(work, effects);
        }
        self.blame_hung(put, places, effects);
    }

    pub(super) fn blame_hung(&mut self, put: &PutRef, places: &[usize], effects: &mut Effects) {
        let (mut another, mut release, mut held) = (Vec::new(), Vec::new(), Vec::new());
        let cause = Cause::from(CAUSE);
        for place in places {
            match self.hang(put, &put.chunk[*place], places.len() == 1) {
                Hung::ToAnotherTask => another.push(*place),
                Hung::Release => release.push(*place),
                Hung::Held => held.push(*place),
                Hung::Alone(at) => self.put_alone(put, *place, at, effects),
                Hung::PutAside => self.put_aside(put, *place, &cause, effects),
                Hung::Park => self.park_put(put, *place, &cause, effects),
            }
        }
        self.release(put, &release, &cause, effects);
        let (once_more, anew) = (put.history.and_a_timeout(), put.history.without_timeouts());
        for (places, history) in [(another, once_more), (held, anew)] {
            let work = self.take_back(put, &places, history);
            self.put_again(work, effects);
        }
    }

    /// Of many in one put only one may be to blame, so that none of them is
    /// parked before it has hung by itself.
    fn hang(&mut self, put: &PutRef, record: &SinkRecord, is_alone: bool) -> Hung {
        let parks = self.policy.parking.is_some();
        let is_last =
            put.history.timeouts > 0 && !self.policy.terms.gate.may_release(record.delivery_count);
        let others_go_on = parks && self.others_go_on(record);
        let again = (parks || is_last).then(|| self.fail(record, Some(put.handed_out), 0.0));
        match again {
            Some(Again::Park) if is_alone => Hung::Park,
            Some(Again::Park) => Hung::Alone(self.now),
            Some(Again::At(at)) if others_go_on => Hung::Alone(at),
            Some(Again::PutAside) => Hung::PutAside,
            _ if put.history.timeouts == 0 => Hung::ToAnotherTask,
            _ if is_last => Hung::Held,
            _ => {
                self.failing.remove(&key(entry(record)));
                Hung::Release
            }
        }
    }

    fn put_alone(&mut self, put: &PutRef, place: usize, at: Instant, effects: &mut Effects) {
        self.retries += 1;
        self.errors.transient += 1;
        let mut work = self.take_back(put, &[place], put.history.without_timeouts());
        self.copy_out(&mut work);
        self.queue.push_later(at, work);
        effects.work = true;
    }

    /// Whether others were delivered since the last try of a record: after it
    /// failed, or, if it hung, of a put that was handed out after its own. What
    /// its own put took before that may be the last that the sink took at all.
    pub(super) fn others_go_on(&self, record: &SinkRecord) -> bool {
        let parked_at = || (self.policy.parking?).parked_at(record.parked.as_deref()?);
        match self.failing.get(&key(entry(record))) {
            Some(Failing {
                hung_since: Some(since),
                ..
            }) => self.newest_taken > Some(*since),
            Some(failing) => self.delivered_at > Some(failing.last),
            None => parked_at().is_some_and(|at| self.delivered_at > Some(at)),
        }
    }
}

#[cfg(test)]
mod tests;
