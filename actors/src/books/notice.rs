//! What the operator should hear of. The books are locked while they are
//! changed, so they only name it, and it is logged after that.

use std::time::Duration;

use crate::circuit::{log_begin, log_end};
use crate::error_log::ErrorLog;
use crate::outcome::Cause;
use crate::record::RecordId;

/// Records that share a fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    pub records: usize,
    /// One of them, and why it is that one's.
    pub example: RecordId,
    pub cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A task died over records, which are put once more.
    DiedOver {
        task: u32,
        records: usize,
        cause: Cause,
    },
    /// The time for trying records again is over.
    Releasing(Alike),
    /// The sink has taken none of many records.
    SinkUnavailable { cause: Cause },
    /// It takes records after all.
    SinkIsBack { lasted: Duration },
    /// An actor took records with it that must not be released.
    WentDown { records: u64 },
    /// Failing records go to the parking topic.
    Parking(Alike),
    /// Letters cannot be written, for now.
    LettersFail { cause: Cause },
    /// They can again.
    LettersAreWritten,
}

impl Notice {
    pub(crate) fn log(self, connector: &str, error_log: ErrorLog) {
        let words = |cause| error_log.words(cause);
        match self {
            Self::DiedOver {
                task,
                records,
                cause,
            } => tracing::warn!(
                connector, task, records, error = %words(cause), "a task died over its records"
            ),
            Self::SinkUnavailable { cause } => log_begin(connector, None, &words(cause)),
            Self::SinkIsBack { lasted } => log_end(connector, None, lasted),
            Self::Releasing(alike) => tracing::warn!(
                connector,
                records = alike.records,
                record = %alike.example,
                error = %words(alike.cause),
                "no more retries here, releasing"
            ),
            Self::Parking(alike) => tracing::info!(
                connector,
                records = alike.records,
                record = %alike.example,
                error = %words(alike.cause),
                "records keep failing while others do not, parking them"
            ),
            Self::LettersFail { cause } => tracing::warn!(
                connector, error = %words(cause),
                "records cannot be put aside or parked, and wait for it"
            ),
            Self::LettersAreWritten => {
                tracing::info!(connector, "records are put aside and parked again");
            }
            Self::WentDown { records } => tracing::error!(
                connector,
                records,
                "records on their last delivery attempt went down with an actor; they stay locked \
                 until the worker stops, and the broker archives them then"
            ),
        }
    }
}
