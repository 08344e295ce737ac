//! What the log says about records that were put aside. A line for each of
//! them, by Kafka Connect's contract; the broker's dead letters have no cause,
//! and a record without any is gone.

use crate::outcome::Rejection;
use crate::record::RecordId;

/// `errors.log.enable` and `errors.log.include.messages`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorLog {
    #[default]
    Off,
    /// Stage and cause.
    Causes,
    /// Topic, partition and offset as well. Never key or value: they are not
    /// for those who read logs.
    Records,
}

impl ErrorLog {
    /// Returns how many it has told of.
    pub(crate) fn tell(self, connector: &str, put_aside: &[(RecordId, Rejection)]) -> u64 {
        if self == Self::Off {
            return 0;
        }
        for (record, Rejection { stage, cause }) in put_aside {
            let record = (self == Self::Records).then(|| tracing::field::display(record));
            tracing::warn!(connector, %stage, error = %cause, record, "record put aside");
        }
        put_aside.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;
    use crate::outcome::Stage;
    use crate::record::{SourcePartition, TopicId};
    use crate::testing::listen;

    /// What is told of two records.
    fn told(log: ErrorLog) -> Vec<String> {
        let partition = Arc::new(SourcePartition {
            topic: "orders".into(),
            topic_id: TopicId::default(),
            partition: 3,
        });
        let put_aside = [(7, Stage::ValueConverter), (8, Stage::TaskPut)].map(|(offset, stage)| {
            let partition = Arc::clone(&partition);
            let record = RecordId { partition, offset };
            (record, Rejection::new(stage, "no good"))
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let _listening = listen(move |level, line| {
            assert_eq!(level, Level::WARN);
            heard.lock().push(line.to_owned());
        });
        let logged = log.tell("sink", &put_aside);
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
        let lines = told(ErrorLog::Causes);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, stage) in lines.iter().zip(["VALUE_CONVERTER", "TASK_PUT"]) {
            assert!(line.contains("connector=\"sink\""), "{line}");
            assert!(line.contains(&format!("stage={stage}")), "{line}");
            assert!(line.contains("error=no good"), "{line}");
            assert!(!line.contains("orders"), "{line}");
        }
    }

    #[test]
    fn the_record_is_named_when_that_is_asked_for_too() {
        let lines = told(ErrorLog::Records);
        assert!(lines[0].contains("record=orders-3@7"), "{lines:?}");
        assert!(lines[1].contains("record=orders-3@8"), "{lines:?}");
    }
}
