//! What the operator should hear of. The books are locked while they are
//! changed, so they only name it, and it is logged after that.

use std::time::Duration;

use crate::circuit::{log_begin, log_end};
use crate::error_log::ErrorLog;
use crate::outcome::Cause;
use crate::record::RecordId;
use crate::trace_context::{TraceContext, log_ids};

/// Records that share a fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    pub records: usize,
    /// One of them, and why it is that one's.
    pub example: RecordId,
    pub cause: Cause,
    /// Where the trace tells of it, if it is traced.
    pub trace: Option<TraceContext>,
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
            Self::Releasing(alike) => {
                let (trace_id, span_id) = log_ids(alike.trace);
                tracing::warn!(
                    connector,
                    records = alike.records,
                    record = %alike.example,
                    error = %words(alike.cause),
                    trace_id,
                    span_id,
                    "no more retries here, releasing"
                );
            }
            Self::Parking(alike) => {
                let (trace_id, span_id) = log_ids(alike.trace);
                tracing::info!(
                    connector,
                    records = alike.records,
                    record = %alike.example,
                    error = %words(alike.cause),
                    trace_id,
                    span_id,
                    "records keep failing while others do not, parking them"
                );
            }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::testing::{listen, partition};

    #[test]
    fn a_line_that_names_a_traced_record_says_where_in_its_trace() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let alike = |trace| Alike {
            records: 1,
            example: RecordId {
                partition: partition("orders", 0),
                offset: 7,
            },
            cause: "busy".into(),
            trace,
        };
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let _listening = listen(move |_, line| heard.lock().push(line.to_owned()));
        let tell = |notice: Notice| notice.log("sink", ErrorLog::default());
        let ids = format!(
            "trace_id={:?} span_id={:?}",
            &parent[3..35],
            &parent[36..52]
        );
        for trace in [TraceContext::parse(parent), None] {
            tell(Notice::Releasing(alike(trace)));
            tell(Notice::Parking(alike(trace)));
            let lines = std::mem::take(&mut *lines.lock());
            assert_eq!(lines.len(), 2);
            for line in lines {
                assert_eq!(line.contains(&ids), trace.is_some(), "{line}");
                assert_eq!(line.contains("span_id"), trace.is_some(), "{line}");
            }
        }
    }
}
