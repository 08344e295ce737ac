//! What becomes of a partition's settlements and locks: the broker's answer to
//! what was in flight, or the end of the session or of a lock.

use std::time::Duration;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::Answer;
use tokio::time::Instant;

use super::ranges::Run;
use super::settlements::{AckBatch, AckType, Book, Lock, Told, joins};

/// How long past its deadline a lock that nobody settled is kept in the book.
const EXPIRY_GRACE: Duration = Duration::from_secs(1);
/// The pause before a settlement that the broker could not take now is sent
/// again.
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// Why the broker refused a partition's settlements.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) cause: Cause,
    /// The broker could not take them now, whatever they are.
    pub(super) retriable: bool,
}

impl Book {
    /// The broker took what was in flight; renewed locks last until
    /// `lock_deadline`.
    pub(super) fn confirm(&mut self, lock_deadline: Instant, told: &mut Told) {
        for batch in std::mem::take(&mut self.in_flight) {
            if batch.kind != AckType::Renew {
                self.answer(batch.first, batch.last, batch.kind, Answer::Confirmed, told);
                continue;
            }
            // What was settled meanwhile needs no lock and no answer.
            for run in self.held.remove(batch.first, batch.last) {
                let lock = Lock {
                    deadline: lock_deadline,
                    ..run.value
                };
                self.held.insert(Run { value: lock, ..run });
                let answer = Answer::Renewed { lock_deadline };
                self.answer(run.first, run.last, batch.kind, answer, told);
            }
        }
    }

    /// The broker refused what was in flight. One answer stands for all of
    /// it, so each part is tried again alone, and halved until the refused
    /// record is found.
    pub(super) fn refuse(&mut self, refused: &Refused, now: Instant, told: &mut Told) {
        let batches = std::mem::take(&mut self.in_flight);
        let alone = batches.len() == 1;
        let wanted = |batch| self.still_wanted(batch);
        let batches: Vec<AckBatch> = batches.into_iter().flat_map(wanted).collect();
        for batch in batches {
            if now >= batch.deadline {
                self.give_up(batch, &refused.cause, told);
            } else if refused.retriable || !alone {
                self.retries.push_back(batch);
            } else if batch.first == batch.last {
                self.give_up(batch, &refused.cause, told);
            } else {
                let (left, right) = halves(batch);
                self.retries.push_front(right);
                self.retries.push_front(left);
            }
        }
        self.retry_at = refused.retriable.then(|| now + RETRY_BACKOFF);
    }

    /// What is left to be asked for: what was settled meanwhile needs no lock.
    fn still_wanted(&self, batch: AckBatch) -> Vec<AckBatch> {
        if batch.kind != AckType::Renew {
            return vec![batch];
        }
        let mut parts: Vec<AckBatch> = Vec::new();
        for run in self.held.within(batch.first, batch.last) {
            let part = AckBatch {
                first: run.first,
                last: run.last,
                ..batch
            };
            match parts.last_mut() {
                Some(previous) if joins(previous, &part) => previous.last = part.last,
                _ => parts.push(part),
            }
        }
        parts
    }

    fn give_up(&mut self, batch: AckBatch, cause: &Cause, told: &mut Told) {
        if batch.kind != AckType::Renew {
            self.unknown(batch.first, batch.last, batch.kind, cause, told);
            return;
        }
        for run in self.held.remove(batch.first, batch.last) {
            self.renewals.remove(run.first, run.last);
            self.unknown(run.first, run.last, AckType::Renew, cause, told);
        }
    }

    /// The broker did not look at what was in flight (the session was out of
    /// step); it is sent again.
    pub(super) fn put_back(&mut self) {
        for batch in std::mem::take(&mut self.in_flight) {
            if batch.kind == AckType::Renew {
                self.renew(batch.first, batch.last);
            } else {
                self.pending.insert(Run {
                    first: batch.first,
                    last: batch.last,
                    value: (batch.kind, batch.deadline),
                });
            }
        }
    }

    /// All locks are gone: settlements are unknown, held records lost.
    pub(super) fn lose(&mut self, cause: &Cause, told: &mut Told) {
        let sent = std::mem::take(&mut self.in_flight);
        for batch in sent.into_iter().chain(std::mem::take(&mut self.retries)) {
            self.unknown(batch.first, batch.last, batch.kind, cause, told);
        }
        for run in self.pending.take() {
            self.unknown(run.first, run.last, run.value.0, cause, told);
        }
        for run in self.renewals.take() {
            self.unknown(run.first, run.last, AckType::Renew, cause, told);
        }
        for run in self.held.take() {
            self.lost(run.first, run.last, cause, told);
        }
    }

    /// Lets go of locks that ended without a settlement.
    pub(super) fn expire(&mut self, now: Instant, told: &mut Told) {
        let expired: Vec<Run<Lock>> = self
            .held
            .iter()
            .filter(|run| run.value.deadline + EXPIRY_GRACE <= now)
            .collect();
        let cause: Cause = "the lock ended".into();
        for run in expired {
            self.held.remove(run.first, run.last);
            for renewal in self.renewals.remove(run.first, run.last) {
                self.unknown(renewal.first, renewal.last, AckType::Renew, &cause, told);
            }
            self.lost(run.first, run.last, &cause, told);
        }
    }

    /// Gives back what is held, when closing the session would not.
    pub(super) fn release_held(&mut self) {
        self.renewals.take();
        for run in self.held.take() {
            self.pending.insert(Run {
                first: run.first,
                last: run.last,
                value: (AckType::Release, run.value.deadline),
            });
        }
    }
}

fn halves(batch: AckBatch) -> (AckBatch, AckBatch) {
    let middle = batch.first + (batch.last - batch.first) / 2;
    let left = AckBatch {
        last: middle,
        ..batch
    };
    let right = AckBatch {
        first: middle + 1,
        ..batch
    };
    (left, right)
}
