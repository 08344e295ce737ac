//! Traces: the lives of records as OpenTelemetry's spans, and where they go.

#[cfg(feature = "otel")]
mod attributes;
mod figures;
#[cfg(feature = "otel")]
mod limit;
#[cfg(feature = "otel")]
mod outlet;
mod request;
#[cfg(feature = "otel")]
mod request_span;
#[cfg(feature = "otel")]
mod spans;
#[cfg(feature = "otel")]
mod tracer;
mod worker;

pub use figures::{TraceCounts, TraceFigures};
pub use request::{RequestTracer, ServedRequest};
pub use worker::{TracedConnector, Traces};
