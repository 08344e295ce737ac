//! One flush from its call to its end.

use std::time::Duration;

use super::DeliveryLinks;
use super::put::Told;
use crate::books::FlushEnd;
use crate::flush::BufferedPut;
use crate::messages::{FlushedPuts, TaskEnd};
use crate::outcome::Cause;
use crate::ports::sink::SinkError;
use crate::progress::NO_RECORD;
use crate::sink_host::SinkHost;

/// Flushes what these puts have buffered, and tells everyone how it ended, the
/// circuit first.
pub(super) async fn flush(
    host: &mut SinkHost,
    puts: Vec<BufferedPut>,
    links: &DeliveryLinks,
    timeout: Duration,
) -> Told {
    let call = links.mark.in_steps(NO_RECORD, host.flush());
    let flushed = tokio::select! {
        flushed = tokio::time::timeout(timeout, call) => flushed,
        () = links.kill.dead() => return Told::Killed,
    };
    let end = match flushed.map(|called| links.error_log.called(called)) {
        Ok(Ok(answer)) => FlushEnd::Answered(answer),
        Ok(Err(cause)) => FlushEnd::Panicked(cause),
        Err(_) => FlushEnd::TimedOut,
    };
    if matches!(end, FlushEnd::Answered(Ok(()))) {
        puts.iter().for_each(|put| put.report.vouch());
    }
    let leases: Vec<u32> = puts.iter().map(|put| put.lease).collect();
    let told = told(&end, &leases, links);
    links.tell(FlushedPuts { leases, end }).await;
    told
}

fn told(end: &FlushEnd, leases: &[u32], links: &DeliveryLinks) -> Told {
    let answer = match end {
        FlushEnd::Answered(answer) => answer,
        FlushEnd::Panicked(cause) => return Told::Gone(TaskEnd::Died(cause.clone())),
        FlushEnd::TimedOut => {
            let cause = Cause::from("a flush took too long");
            links.note(leases, &Err(SinkError::Retry(cause.clone())));
            return Told::Gone(TaskEnd::Died(cause));
        }
    };
    let told = Told::of(answer, leases, links);
    if let (Told::Failed, Err(error)) = (&told, answer) {
        tracing::warn!(
            connector = %links.connector, task = links.task, %error, "flush failed"
        );
    }
    told
}
