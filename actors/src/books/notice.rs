//! What the operator should hear of. The books are locked while they are
//! changed, so they only name it, and it is logged after that.

use crate::error_log::ErrorLog;
use crate::outcome::Cause;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A task died over records, which are put once more.
    DiedOver { records: usize, cause: Cause },
    /// The time for trying records again is over.
    Releasing { records: usize, cause: Cause },
    /// An actor took records with it that must not be released.
    WentDown { records: u64 },
    /// Failing records go to the parking topic, with the cause if it is new.
    Parking {
        records: usize,
        cause: Option<Cause>,
    },
    /// Letters cannot be written, for now.
    LettersFail { cause: Cause },
    /// They can again.
    LettersAreWritten,
}

impl Notice {
    pub(crate) fn log(self, connector: &str, error_log: ErrorLog) {
        let words = |cause| error_log.words(cause);
        match self {
            Self::DiedOver { records, cause } => tracing::warn!(
                connector, records, error = %words(cause), "a task died over its records"
            ),
            Self::Releasing { records, cause } => tracing::warn!(
                connector, records, error = %words(cause), "no more retries here, releasing"
            ),
            Self::Parking { records, cause } => tracing::info!(
                connector,
                records,
                error = cause.map(words).as_deref(),
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
