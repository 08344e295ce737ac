//! What a worker has for traces: a tracer for each connector, and figures.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::ports::tracer::Tracer;

use super::{RequestTracer, TraceFigures};
use crate::config::traces::TraceConfig;
use crate::telemetry::flush::flush;

/// Whose records are traced.
#[derive(Clone, Debug)]
pub struct TracedConnector {
    pub connector: String,
    pub worker: String,
    pub client_id: String,
    /// The share group, and this worker's member of it.
    pub group: String,
    pub member: String,
    /// `errors.log.include.messages`: causes may quote records.
    pub includes_messages: bool,
}

/// Makes tracers, and sends what they are told.
pub(super) trait Tracing: Send + Sync {
    fn tracer(&self, connector: &TracedConnector) -> Arc<dyn Tracer>;

    fn requests(&self) -> Arc<dyn RequestTracer>;

    /// Sends what waits, and takes no more. Blocks for so long at most.
    fn shut_down(&self, within: Duration);
}

/// See the module. Clones are the same.
#[derive(Clone, Default)]
pub struct Traces {
    tracing: Option<Arc<dyn Tracing>>,
    figures: Arc<TraceFigures>,
}

impl Traces {
    /// Needs a runtime, in which the collector is spoken to. An error says what
    /// to mend.
    pub fn start(config: Option<&TraceConfig>) -> Result<Self, String> {
        let figures = Arc::new(TraceFigures::default());
        let tracing = match config {
            Some(config) => start(config, &figures)?,
            None => None,
        };
        Ok(Self { tracing, figures })
    }

    #[must_use]
    pub const fn figures(&self) -> &Arc<TraceFigures> {
        &self.figures
    }

    /// `None`: nothing is traced.
    #[must_use]
    pub fn tracer(&self, connector: &TracedConnector) -> Option<Arc<dyn Tracer>> {
        let tracing = self.tracing.as_ref()?;
        Some(tracing.tracer(connector))
    }

    /// For requests to the worker. `None`: nothing is traced.
    #[must_use]
    pub fn requests(&self) -> Option<Arc<dyn RequestTracer>> {
        Some(self.tracing.as_ref()?.requests())
    }

    /// Sends what waits, within so long.
    pub async fn shut_down(self, within: Duration) {
        let Some(tracing) = self.tracing else {
            return;
        };
        flush(within, move || tracing.shut_down(within)).await;
    }
}

#[cfg(feature = "otel")]
fn start(
    config: &TraceConfig,
    figures: &Arc<TraceFigures>,
) -> Result<Option<Arc<dyn Tracing>>, String> {
    let tracing = super::tracer::OtlpTracing::start(config, figures)?;
    Ok(Some(Arc::new(tracing)))
}

/// The configuration was refused already.
#[cfg(not(feature = "otel"))]
fn start(
    _config: &TraceConfig,
    _figures: &Arc<TraceFigures>,
) -> Result<Option<Arc<dyn Tracing>>, String> {
    Ok(None)
}
