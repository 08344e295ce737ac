//! The tracers of a worker's connectors, and the one way out for their spans.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use parking_lot::Mutex;
use sluice_actors::life::{Choice, FinishedLife, FinishedPut};
use sluice_actors::ports::tracer::Tracer;
use sluice_actors::sampling::Sampling;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attributes::Common;
use super::limit::Limit;
use super::outlet::Outlet;
use super::request_span::OtlpRequests;
use super::spans::{Clock, Spans};
use super::worker::Tracing;
use super::{RequestTracer, TraceFigures, TracedConnector};
use crate::config::traces::TraceConfig;
use crate::telemetry::otlp;

/// Those that are sampled must not crowd out those that fail.
#[derive(Debug)]
struct Limits {
    sampled: Limit,
    others: Limit,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) outlet: Outlet,
    limits: Mutex<Limits>,
    pub(super) sampling: Sampling,
    max_per_second: u32,
    figures: Arc<TraceFigures>,
}

/// See the module.
pub(super) struct OtlpTracing {
    shared: Arc<Shared>,
    /// Ends that exports are tried again.
    closing: CancellationToken,
}

impl OtlpTracing {
    /// Needs a runtime.
    pub(super) fn start(config: &TraceConfig, figures: &Arc<TraceFigures>) -> Result<Self, String> {
        let exporter = otlp::SpanExporter::new(&config.otlp)?;
        let closing = exporter.closing();
        tracing::info!(sampling = ?config.sampling, "records are traced");
        let refused = exporter.refused();
        let outlet = Outlet::start(
            exporter,
            refused,
            &otlp::resource(&config.otlp),
            config.batch,
            figures,
        );
        let limit = || Limit::new(config.max_per_second);
        Ok(Self {
            shared: Arc::new(Shared {
                outlet,
                limits: Mutex::new(Limits {
                    sampled: limit(),
                    others: limit(),
                }),
                sampling: config.sampling,
                max_per_second: config.max_per_second,
                figures: Arc::clone(figures),
            }),
            closing,
        })
    }
}

impl Tracing for OtlpTracing {
    fn tracer(&self, connector: &TracedConnector) -> Arc<dyn Tracer> {
        Arc::new(OtlpTracer {
            shared: Arc::clone(&self.shared),
            spans: Spans {
                common: Common::of(connector),
                scope: scope(),
            },
        })
    }

    fn requests(&self) -> Arc<dyn RequestTracer> {
        Arc::new(OtlpRequests {
            shared: Arc::clone(&self.shared),
            scope: scope(),
            limit: Mutex::new(Limit::new(self.shared.max_per_second)),
        })
    }

    fn shut_down(&self, within: Duration) {
        self.closing.cancel();
        self.shared.outlet.shut_down(within);
    }
}

fn scope() -> InstrumentationScope {
    let scope = InstrumentationScope::builder("sluice");
    scope.with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Of one connector.
struct OtlpTracer {
    shared: Arc<Shared>,
    spans: Spans,
}

impl fmt::Debug for OtlpTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpTracer").finish_non_exhaustive()
    }
}

impl Tracer for OtlpTracer {
    fn sampling(&self) -> Sampling {
        self.shared.sampling
    }

    fn admits(&self, choice: Choice, now: Instant) -> bool {
        let shared = &self.shared;
        let mut limits = shared.limits.lock();
        let limit = match choice {
            Choice::Sampled => &mut limits.sampled,
            Choice::Redelivered | Choice::Failed | Choice::Slow => &mut limits.others,
        };
        let admits = shared.outlet.has_room() && limit.take(now);
        if admits {
            shared.figures.traced();
        }
        admits
    }

    fn left_out(&self, deliveries: usize) {
        self.shared.figures.left_out(deliveries);
    }

    fn ended(&self, life: FinishedLife) {
        let spans = || self.spans.of_life(&life, Clock::now());
        // The delivery's own, and one of each step.
        self.shared.outlet.send(1 + life.steps.len(), spans);
    }

    fn put_ended(&self, put: FinishedPut) {
        let span = || vec![self.spans.of_put(&put, Clock::now())];
        self.shared.outlet.send(1, span);
    }
}
