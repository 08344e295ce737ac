//! One put from its call to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::DeliveryLinks;
use crate::books::{Put, PutEnd};
use crate::messages::{ReportedOutcomes, TaskEnd};
use crate::outcome::Cause;
use crate::ports::sink::SinkError;
use crate::sink_host::SinkHost;

/// What the end of a put means for the task.
pub(super) enum PutTold {
    Fine,
    Failed,
    /// For how long, if the sink knows.
    Unavailable(Cause, Option<Duration>),
    Gone(TaskEnd),
    Killed,
}

pub(super) fn tell_end(end: &PutEnd) -> PutTold {
    match end {
        PutEnd::Answered(Ok(())) => PutTold::Fine,
        PutEnd::Answered(Err(SinkError::Unavailable(cause))) => {
            PutTold::Unavailable(Arc::clone(cause), None)
        }
        PutEnd::Answered(Err(SinkError::UnavailableFor(cause, lasts))) => {
            PutTold::Unavailable(Arc::clone(cause), Some(*lasts))
        }
        PutEnd::Answered(Err(SinkError::Fatal(cause))) => {
            PutTold::Gone(TaskEnd::Failed(Arc::clone(cause)))
        }
        PutEnd::Answered(Err(SinkError::Retry(_) | SinkError::RejectedOne(_))) => PutTold::Failed,
        PutEnd::Panicked(cause) => PutTold::Gone(TaskEnd::Died(Arc::clone(cause))),
        PutEnd::TimedOut => PutTold::Gone(TaskEnd::Died("a put took too long".into())),
        PutEnd::Abandoned => PutTold::Killed,
    }
}

/// Puts a chunk, passing outcomes on as they are reported.
pub(super) async fn run_put(
    host: &mut SinkHost,
    put: Put,
    links: &DeliveryLinks,
    deadline: Instant,
) -> PutEnd {
    let Put {
        lease,
        chunk,
        report,
    } = put;
    let _counted = links.meter.put(chunk.len());
    let call = links
        .mark
        .in_steps(lease.into(), host.put(chunk, report.clone()));
    tokio::pin!(call);
    loop {
        tokio::select! {
            biased;
            answer = &mut call => break match answer {
                Ok(answer) => PutEnd::Answered(answer),
                Err(cause) => PutEnd::Panicked(cause),
            },
            () = report.reported() => {
                links.tell(ReportedOutcomes { lease }).await;
            }
            () = links.kill.dead() => break PutEnd::Abandoned,
            () = tokio::time::sleep_until(deadline) => break PutEnd::TimedOut,
        }
    }
}
