//! Records that the broker would soon archive.

use std::time::Duration;

use tokio::time::Instant;

use crate::record::RecordId;
use crate::trace_context::{TraceContext, log_ids};

/// Open records that came again, and may be given back once more at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearLimit {
    pub records: usize,
    /// One of those that came most often.
    pub example: RecordId,
    pub delivery_count: u16,
    /// Where the example is in its trace, if it is traced.
    pub trace: Option<TraceContext>,
}

/// Who was told of it is not told again for so long.
const QUIET: Duration = Duration::from_secs(600);

/// Warns of them now and then, however many there are.
#[derive(Debug, Default)]
pub(crate) struct LimitAlarm {
    rang_at: Option<Instant>,
}

impl LimitAlarm {
    pub(crate) fn look(&mut self, connector: &str, near: Option<&NearLimit>, now: Instant) {
        let Some(near) = near.filter(|_| self.is_time(now)) else {
            return;
        };
        self.rang_at = Some(now);
        let (trace_id, span_id) = log_ids(near.trace);
        tracing::warn!(
            connector,
            records = near.records,
            record = %near.example,
            delivery_count = near.delivery_count,
            trace_id,
            span_id,
            "records are near share.delivery.count.limit: on the last delivery they are held, and \
             archived by the broker if this worker loses them; see why they come again"
        );
    }

    fn is_time(&self, now: Instant) -> bool {
        self.rang_at.is_none_or(|rang_at| now >= rang_at + QUIET)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::testing::{listen, partition};

    #[test]
    fn it_is_told_once_in_a_while_and_names_a_record() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let _listening = listen(move |_, line| heard.lock().push(line.to_owned()));
        let near = NearLimit {
            records: 500,
            example: RecordId {
                partition: partition("orders", 3),
                offset: 7,
            },
            delivery_count: 9,
            trace: TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        };
        let (mut alarm, start) = (LimitAlarm::default(), Instant::now());
        alarm.look("sink", None, start);
        assert!(lines.lock().is_empty());
        for second in 0..600 {
            alarm.look("sink", Some(&near), start + Duration::from_secs(second));
        }
        assert_eq!(lines.lock().len(), 1);
        for part in ["orders-3@7", "trace_id=\"4bf9", "span_id=\"00f0"] {
            assert!(lines.lock()[0].contains(part), "{part}: {lines:?}");
        }
        alarm.look("sink", Some(&near), start + QUIET);
        assert_eq!(lines.lock().len(), 2);
    }
}
