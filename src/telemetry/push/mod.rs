//! Metrics pushed to a collector: the table's, by OTLP, beside `/metrics`.

#[cfg(feature = "otel")]
mod points;
#[cfg(feature = "otel")]
mod pusher;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::config::metrics::MetricsConfig;
use crate::telemetry::sight::WorkerSight;

/// What looks at the worker, whenever metrics are due.
type Look = Box<dyn Fn() -> WorkerSight + Send + Sync>;

trait Pushing: Send + Sync {
    fn observe(&self, look: Look);

    /// Pushes once more, and then no more. Takes so long at most.
    fn shut_down(&self, within: Duration) -> BoxFuture<'_, ()>;
}

/// See the module.
#[derive(Default)]
pub struct Push(Option<Arc<dyn Pushing>>);

impl Push {
    /// Needs a runtime, in which the collector is spoken to. An error says what
    /// to mend.
    pub fn start(config: Option<&MetricsConfig>) -> Result<Self, String> {
        match config {
            Some(config) => start(config).map(Self),
            None => Ok(Self::default()),
        }
    }

    /// From now on these are the metrics.
    pub fn observe(&self, look: impl Fn() -> WorkerSight + Send + Sync + 'static) {
        if let Some(pushing) = &self.0 {
            pushing.observe(Box::new(look));
        }
    }

    /// Pushes what was counted last, within so long.
    pub async fn shut_down(self, within: Duration) {
        if let Some(pushing) = &self.0 {
            pushing.shut_down(within).await;
        }
    }
}

#[cfg(feature = "otel")]
fn start(config: &MetricsConfig) -> Result<Option<Arc<dyn Pushing>>, String> {
    Ok(Some(Arc::new(pusher::OtlpPush::start(config)?)))
}

/// The configuration was refused already.
#[cfg(not(feature = "otel"))]
fn start(_config: &MetricsConfig) -> Result<Option<Arc<dyn Pushing>>, String> {
    Ok(None)
}
