//! One put from its call to its end.

use std::time::Duration;

use tokio::time::Instant;

use super::DeliveryLinks;
use crate::books::{Put, PutEnd};
use crate::messages::{EndedPut, ReportedOutcomes, TaskEnd};
use crate::outcome::Cause;
use crate::ports::sink::SinkError;
use crate::report::Report;
use crate::sink_host::SinkHost;

/// What the end of a put, or of a flush, means for the task.
pub(super) enum Told {
    Fine,
    Failed,
    /// The sink was unavailable; how long this task rests.
    Unavailable(Cause, Duration),
    Gone(TaskEnd),
    Killed,
}

impl Told {
    /// What the sink said of these puts, told to the circuit first.
    pub(super) fn of(
        answer: &Result<(), SinkError>,
        leases: &[u32],
        links: &DeliveryLinks,
    ) -> Self {
        if let Some((cause, rest)) = links.note(leases, answer) {
            return Self::Unavailable(cause, rest);
        }
        match answer {
            Ok(()) => Self::Fine,
            Err(SinkError::Fatal(cause)) => Self::Gone(TaskEnd::Failed(cause.clone())),
            Err(_) => Self::Failed,
        }
    }
}

/// Puts a chunk, and tells everyone how it ended: the circuit first, or the
/// next chunk might be handed out before it knows. A chunk that the circuit
/// does not let through any more goes back as it is.
pub(super) async fn deliver(
    host: &mut SinkHost,
    put: Put,
    links: &DeliveryLinks,
    buffers: bool,
    deadline: Instant,
) -> Told {
    let (lease, report) = (put.lease, put.report.clone());
    if !links.circuit.admits(lease) {
        links.give_back(put).await;
        return Told::Failed;
    }
    let end = run_put(host, put, links, deadline).await;
    if !buffers && matches!(end, PutEnd::Answered(Ok(()))) {
        report.vouch();
    }
    let told = match &end {
        PutEnd::Answered(answer) => match heard(answer, &report) {
            // Its flush will tell.
            Ok(()) if buffers => Told::Fine,
            heard => Told::of(&heard, &[lease], links),
        },
        PutEnd::Panicked(cause) => Told::Gone(TaskEnd::Died(cause.clone())),
        PutEnd::TimedOut => {
            let cause = Cause::from("a put took too long");
            let answer = Err(SinkError::Retry(cause.clone()));
            links.note(&[lease], &heard(&answer, &report));
            Told::Gone(TaskEnd::Died(cause))
        }
        PutEnd::Abandoned => Told::Killed,
    };
    links.tell(EndedPut { lease, end }).await;
    told
}

/// What the end of a put says about the sink. It takes records if it has taken
/// any of these, or refused one for good; and it takes none if it wants each of
/// them again, however it says so.
fn heard(answer: &Result<(), SinkError>, report: &Report) -> Result<(), SinkError> {
    match answer {
        Ok(()) => report
            .in_vain()
            .map_or(Ok(()), |it| Err(SinkError::Retry(it))),
        Err(SinkError::Retry(_)) if report.has_ended_any() => Ok(()),
        other => other.clone(),
    }
}

/// Puts a chunk, passing outcomes on as they are reported.
async fn run_put(
    host: &mut SinkHost,
    put: Put,
    links: &DeliveryLinks,
    deadline: Instant,
) -> PutEnd {
    let Put {
        lease,
        chunk,
        report,
        ..
    } = put;
    let _counted = links.meter.put(chunk.len());
    let call = links
        .mark
        .in_steps(lease.into(), host.put(chunk, report.clone()));
    tokio::pin!(call);
    loop {
        tokio::select! {
            biased;
            answer = &mut call => break match links.error_log.called(answer) {
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
