//! What the log says about records that were put aside. A line for each of
//! them, by Kafka Connect's contract; the broker's dead letters have no cause,
//! and a record without any is gone.

use crate::books::PutAside;
use crate::outcome::{Cause, Rejection};
use crate::ports::sink::SinkError;
use crate::sink_host::Called;
use crate::trace_context::log_ids;

/// Whether contents of records may be shown; here, since causes name it.
pub const INCLUDE_MESSAGES: &str = "errors.log.include.messages";

/// What a connector may tell of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorLog {
    /// `errors.log.enable`: stage and cause of each record.
    pub enable: bool,
    /// [`INCLUDE_MESSAGES`]: topic, partition and offset as well, and causes in
    /// full, there and wherever else they are told. Never key or value by
    /// themselves: they are not for those who read logs.
    pub include_messages: bool,
}

impl ErrorLog {
    /// Returns how many it has told of.
    pub(crate) fn tell(self, connector: &str, put_aside: Vec<PutAside>) -> u64 {
        if !self.enable {
            return 0;
        }
        let count = put_aside.len() as u64;
        for it in put_aside {
            let Rejection { stage, cause } = it.rejection;
            let record = self
                .include_messages
                .then(|| tracing::field::display(it.record));
            let cause = self.words(cause);
            let (trace_id, span_id) = log_ids(it.trace);
            tracing::warn!(
                connector, %stage, error = %cause, record, trace_id, span_id, "record put aside"
            );
        }
        count
    }

    /// What may be told of a cause.
    pub(crate) fn words(self, cause: Cause) -> Cause {
        match self.include_messages {
            true => cause.in_full(),
            false => cause,
        }
    }

    /// What may be told of what a call to a sink came to.
    pub(crate) fn called<T>(
        self,
        called: Called<Result<T, SinkError>>,
    ) -> Called<Result<T, SinkError>> {
        let answered = called.map_err(|panic| self.words(panic))?;
        Ok(answered.map_err(|error| self.error(error)))
    }

    /// What may be told of a sink's error.
    pub(crate) fn error(self, error: SinkError) -> SinkError {
        match error {
            SinkError::Retry(cause) => SinkError::Retry(self.words(cause)),
            SinkError::Unavailable(cause) => SinkError::Unavailable(self.words(cause)),
            SinkError::UnavailableFor(cause, lasts) => {
                SinkError::UnavailableFor(self.words(cause), lasts)
            }
            SinkError::RejectedOne(cause) => SinkError::RejectedOne(self.words(cause)),
            SinkError::Fatal(cause) => SinkError::Fatal(self.words(cause)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;
    use crate::outcome::Stage;
    use crate::record::{RecordId, SourcePartition, TopicId};
    use crate::testing::listen;
    use crate::trace_context::TraceContext;

    const fn log(include_messages: bool) -> ErrorLog {
        ErrorLog {
            enable: true,
            include_messages,
        }
    }

    /// What is told of two records.
    fn told(log: ErrorLog) -> Vec<String> {
        let partition = Arc::new(SourcePartition {
            topic: "orders".into(),
            topic_id: TopicId::default(),
            partition: 3,
        });
        let put_aside = [(7, Stage::ValueConverter), (8, Stage::TaskPut)].map(|(offset, stage)| {
            let partition = Arc::clone(&partition);
            let trace = (offset == 8).then_some(TraceContext {
                trace_id: 0xabc,
                span_id: 0xd,
                is_sampled: true,
            });
            PutAside {
                record: RecordId { partition, offset },
                rejection: Rejection::new(stage, Cause::quoting("no good", "no good: hush")),
                trace,
            }
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let _listening = listen(move |level, line| {
            assert_eq!(level, Level::WARN);
            heard.lock().push(line.to_owned());
        });
        let logged = log.tell("sink", put_aside.into());
        let lines = lines.lock();
        assert_eq!(logged, lines.len() as u64);
        lines.clone()
    }

    #[test]
    fn nothing_is_told_unless_asked_for() {
        assert!(told(ErrorLog::default()).is_empty());
    }

    #[test]
    fn each_record_is_a_warning_with_stage_and_cause() {
        let lines = told(log(false));
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, stage) in lines.iter().zip(["VALUE_CONVERTER", "TASK_PUT"]) {
            assert!(line.contains("connector=\"sink\""), "{line}");
            assert!(line.contains(&format!("stage={stage}")), "{line}");
            assert!(line.contains("error=no good"), "{line}");
            assert!(!line.contains("orders") && !line.contains("hush"), "{line}");
        }
    }

    #[test]
    fn the_record_is_named_and_quoted_when_that_is_asked_for_too() {
        let lines = told(log(true));
        assert!(lines[0].contains("record=orders-3@7"), "{lines:?}");
        assert!(lines[1].contains("record=orders-3@8"), "{lines:?}");
        assert!(
            lines.iter().all(|it| it.contains("error=no good: hush")),
            "{lines:?}"
        );
    }

    #[test]
    fn a_traced_record_can_be_found_in_its_trace() {
        let lines = told(log(false));
        assert!(!lines[0].contains("trace_id"), "{lines:?}");
        let ids = "trace_id=\"00000000000000000000000000000abc\" span_id=\"000000000000000d\"";
        assert!(lines[1].contains(ids), "{lines:?}");
    }
}
