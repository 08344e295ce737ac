//! From a factory to an open sink.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{DeliveryLinks, DeliverySettings};
use crate::live_view::TaskState;
use crate::messages::TaskEnd;
use crate::outcome::Cause;
use crate::ports::sink::{SinkError, TaskContext};
use crate::sink_host::{SinkHost, SinkThread, panic_message};

/// Makes and opens a sink, again and again while that may help.
pub(super) async fn open_sink(
    context: TaskContext,
    settings: DeliverySettings,
    links: DeliveryLinks,
) -> Result<SinkHost, TaskEnd> {
    let name: Arc<str> = context.connector.as_str().into();
    let mut failures = 0;
    loop {
        let opened = try_open(&context, &settings).await;
        let opened = opened.map_err(|error| links.error_log.error(error));
        let (cause, lasts) = match opened {
            Ok(host) => return Ok(host),
            Err(SinkError::Fatal(cause)) => return Err(TaskEnd::Failed(cause)),
            Err(SinkError::UnavailableFor(cause, lasts)) => (cause, Some(lasts)),
            Err(error) => (Cause::from(error.to_string()), None),
        };
        failures += 1;
        if failures == 1 {
            tracing::warn!(
                connector = %name, task = context.task, error = %cause,
                "the sink does not open, trying again"
            );
        }
        let state = TaskState::BackingOff(cause);
        links
            .view
            .set_task_by(&links.kill, &name, context.task, state);
        let rest = settings.backoff.rest(lasts, failures, fastrand::f64());
        tokio::time::sleep(rest).await;
    }
}

async fn try_open(
    context: &TaskContext,
    settings: &DeliverySettings,
) -> Result<SinkHost, SinkError> {
    let sink = catch_unwind(AssertUnwindSafe(|| settings.sink.create(context)))
        .map_err(|panic| SinkError::Fatal(panic_message(&*panic)))??;
    let mut host = if settings.sink.traits().blocking {
        let name = format!("{}-{}", context.connector, context.task);
        SinkHost::Thread(SinkThread::start(name, sink, &settings.stuck_threads)?)
    } else {
        SinkHost::Inline(sink)
    };
    // A sink that blocks here has its thread abandoned, and counted.
    match tokio::time::timeout(settings.delivery_timeout, host.open()).await {
        Ok(Ok(Ok(()))) => Ok(host),
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(panic)) => Err(SinkError::Fatal(panic)),
        Err(_) => Err(SinkError::Retry("opening the sink took too long".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flush::FlushPolicy;
    use crate::ports::sink::{Sink, SinkFactory, SinkTraits};
    use crate::retry::RetryPolicy;
    use crate::stuck_threads::StuckThreads;

    struct Bomb;

    impl SinkFactory for Bomb {
        fn traits(&self) -> SinkTraits {
            SinkTraits::default()
        }

        fn create(&self, _context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
            panic!("boom")
        }
    }

    #[tokio::test]
    async fn a_factory_that_panics_fails_its_task_by_name() {
        let context = TaskContext {
            connector: "test".into(),
            task: 0,
            worker: "worker".into(),
        };
        let settings = DeliverySettings {
            sink: Arc::new(Bomb),
            delivery_timeout: Duration::from_secs(1),
            flush: FlushPolicy::default(),
            backoff: RetryPolicy::default(),
            stuck_threads: StuckThreads::new(),
        };
        let error = try_open(&context, &settings).await.err();
        assert_eq!(error, Some(SinkError::Fatal("panicked: boom".into())));
    }
}
