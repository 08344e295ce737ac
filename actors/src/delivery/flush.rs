//! One flush from its call to its end.

use std::sync::Arc;
use std::time::Duration;

use super::DeliveryLinks;
use crate::messages::{FlushedPuts, TaskEnd};
use crate::outcome::Cause;
use crate::ports::sink::SinkError;
use crate::progress::NO_RECORD;
use crate::sink_host::SinkHost;

/// What the end of a flush means for the task.
pub(super) enum FlushTold {
    /// Also when it failed for these records alone.
    Done,
    /// The sink was unavailable; how long this task rests.
    Unavailable(Cause, Duration),
    Gone(TaskEnd),
    Killed,
}

/// Flushes what these puts have buffered, and tells everyone how it ended, the
/// circuit first.
pub(super) async fn flush(
    host: &mut SinkHost,
    leases: Vec<u32>,
    links: &DeliveryLinks,
    timeout: Duration,
) -> FlushTold {
    let call = links.mark.in_steps(NO_RECORD, host.flush());
    let flushed = tokio::select! {
        flushed = tokio::time::timeout(timeout, call) => flushed,
        () = links.kill.dead() => return FlushTold::Killed,
    };
    let result = match flushed {
        Ok(Ok(result)) => result,
        Ok(Err(cause)) => return FlushTold::Gone(TaskEnd::Died(cause)),
        Err(_) => return FlushTold::Gone(TaskEnd::Died("the flush took too long".into())),
    };
    let told = match links.note(&leases, &result) {
        Some((cause, rest)) => FlushTold::Unavailable(cause, rest),
        None => told(&result, links),
    };
    links.tell(FlushedPuts { leases, result }).await;
    told
}

fn told(result: &Result<(), SinkError>, links: &DeliveryLinks) -> FlushTold {
    match result {
        Ok(()) => FlushTold::Done,
        Err(SinkError::Fatal(cause)) => FlushTold::Gone(TaskEnd::Failed(Arc::clone(cause))),
        Err(error) => {
            tracing::warn!(
                connector = %links.connector, task = links.task, %error, "flush failed"
            );
            FlushTold::Done
        }
    }
}
