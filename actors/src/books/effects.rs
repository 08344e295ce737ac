//! What follows of a change of the books.

use super::Notice;
use crate::life::Finished;
use crate::messages::RecordFailed;
use crate::outcome::Rejection;
use crate::ports::source::SettleRange;
use crate::record::RecordId;
use crate::trace_context::TraceContext;

/// A record that was put aside, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutAside {
    pub record: RecordId,
    pub rejection: Rejection,
    /// Where the trace tells of it, if it is traced.
    pub trace: Option<TraceContext>,
}

/// What is to be done after the books were changed.
#[derive(Debug, Default)]
pub struct Effects {
    /// Tell the broker.
    pub settle: Vec<SettleRange>,
    /// Records that were put aside, with the reason.
    pub put_aside: Vec<PutAside>,
    /// The record that fails the connector.
    pub failure: Option<RecordFailed>,
    /// To be logged.
    pub notices: Vec<Notice>,
    /// What is over of records that are traced.
    pub finished: Finished,
    /// There is work for a task now, or will be.
    pub work: bool,
    /// There are dead letters to write.
    pub letters: bool,
}

impl Effects {
    /// Does another's too.
    pub(super) fn add(&mut self, other: Self) {
        self.settle.extend(other.settle);
        self.put_aside.extend(other.put_aside);
        self.notices.extend(other.notices);
        self.finished.add(other.finished);
        self.failure = self.failure.take().or(other.failure);
        self.work |= other.work;
        self.letters |= other.letters;
    }
}
