//! How a sink says what became of its records while a put is running.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::outcome::{Cause, Outcome, Rejection, Stage};

/// Outcomes of one put, by the record's place in the chunk.
///
/// May be cloned and used from any thread, also after the put was abandoned
/// (it is then ignored). The first outcome of a record counts; a place that
/// is not in the chunk is ignored.
#[derive(Clone, Debug)]
pub struct Report {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    reported: Notify,
}

#[derive(Debug)]
struct State {
    has_outcome: Vec<bool>,
    fresh: Vec<(usize, Outcome)>,
    /// How many are to be tried again, and why the last of them is.
    retries: usize,
    retry_cause: Option<Cause>,
    /// One was delivered, or rejected.
    ended_any: bool,
    vouched: bool,
    #[cfg(feature = "testing")]
    every_call: Vec<(usize, Outcome)>,
}

impl Report {
    /// A report for a chunk of that many records.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    has_outcome: vec![false; len],
                    fresh: Vec::new(),
                    retries: 0,
                    retry_cause: None,
                    ended_any: false,
                    vouched: false,
                    #[cfg(feature = "testing")]
                    every_call: Vec::new(),
                }),
                reported: Notify::new(),
            }),
        }
    }

    pub fn delivered(&self, place: usize) {
        self.outcome(place, Outcome::Delivered);
    }

    pub fn retry(&self, place: usize, cause: impl Into<Cause>) {
        self.outcome(place, Outcome::Retry(cause.into()));
    }

    pub fn reject(&self, place: usize, cause: impl Into<Cause>) {
        let rejection = Rejection::new(Stage::TaskPut, cause);
        self.outcome(place, Outcome::Reject(rejection));
    }

    fn outcome(&self, place: usize, outcome: Outcome) {
        let mut state = self.shared.state.lock();
        #[cfg(feature = "testing")]
        state.every_call.push((place, outcome.clone()));
        match state.has_outcome.get_mut(place) {
            Some(seen) if !*seen => *seen = true,
            _ => return,
        }
        state.count(&outcome);
        state.fresh.push((place, outcome));
        drop(state);
        self.shared.reported.notify_one();
    }

    /// Waits until there is something to take.
    pub(crate) async fn reported(&self) {
        self.shared.reported.notified().await;
    }

    /// What was reported since the last call.
    pub(crate) fn take(&self) -> Vec<(usize, Outcome)> {
        std::mem::take(&mut self.shared.state.lock().fresh)
    }

    /// Why each of its records is to be tried again, if so.
    pub(crate) fn in_vain(&self) -> Option<Cause> {
        let state = self.shared.state.lock();
        let is_each = state.retries == state.has_outcome.len();
        state.retry_cause.clone().filter(|_| is_each)
    }

    /// Whether a record of it was delivered, or rejected.
    pub(crate) fn has_ended_any(&self) -> bool {
        self.shared.state.lock().ended_any
    }

    /// The sink has said that what got no outcome is delivered, by the end of its
    /// put, or of the flush behind it. Noted here too, as the message that tells
    /// it may never be read.
    pub(crate) fn vouch(&self) {
        self.shared.state.lock().vouched = true;
    }

    /// Ends it, in one step: what is reported from here on is ignored.
    pub(crate) fn close(&self) -> Closed {
        let mut state = self.shared.state.lock();
        let missing = state
            .has_outcome
            .iter()
            .enumerate()
            .filter_map(|(place, seen)| (!seen).then_some(place))
            .collect();
        state.has_outcome.fill(true);
        Closed {
            fresh: std::mem::take(&mut state.fresh),
            missing,
            vouched: state.vouched,
        }
    }
}

impl State {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Retry(cause) => {
                self.retries += 1;
                self.retry_cause = Some(cause.clone());
            }
            Outcome::Delivered | Outcome::Reject(_) => self.ended_any = true,
            Outcome::Buffered => {}
        }
    }
}

/// What a report leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// What was reported since it was last taken.
    pub(crate) fresh: Vec<(usize, Outcome)>,
    /// Places without an outcome.
    pub(crate) missing: Vec<usize>,
    /// What is missing, or was buffered, is delivered.
    pub(crate) vouched: bool,
}

/// What a delivery does with a report, for the tests of sinks.
#[cfg(feature = "testing")]
impl Report {
    /// Waits until something was reported, and takes it.
    pub async fn next_outcomes(&self) -> Vec<(usize, Outcome)> {
        self.reported().await;
        self.take()
    }

    /// Gives up on the put: places without an outcome, which get none now.
    #[must_use]
    pub fn abandon(&self) -> Vec<usize> {
        self.close().missing
    }

    /// What was reported so far, also what was ignored: twice, too late, or of
    /// no record of the chunk.
    #[must_use]
    pub fn every_call(&self) -> Vec<(usize, Outcome)> {
        self.shared.state.lock().every_call.clone()
    }

    /// Whether someone else could still report something.
    #[must_use]
    pub fn is_held_elsewhere(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }
}
