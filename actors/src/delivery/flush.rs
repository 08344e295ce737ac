//! One flush from its call to its end.

use std::time::Duration;

use super::DeliveryLinks;
use super::put::Told;
use crate::flush::BufferedPut;
use crate::messages::{FlushedPuts, TaskEnd};
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
    let result = match flushed.map(|called| links.error_log.called(called)) {
        Ok(Ok(result)) => result,
        Ok(Err(cause)) => return Told::Gone(TaskEnd::Died(cause)),
        Err(_) => return Told::Gone(TaskEnd::Died("the flush took too long".into())),
    };
    if result.is_ok() {
        puts.iter().for_each(|put| put.report.vouch());
    }
    let leases: Vec<u32> = puts.iter().map(|put| put.lease).collect();
    let told = Told::of(&result, &leases, links);
    if let (Told::Failed, Err(error)) = (&told, &result) {
        tracing::warn!(
            connector = %links.connector, task = links.task, %error, "flush failed"
        );
    }
    links.tell(FlushedPuts { leases, result }).await;
    told
}
