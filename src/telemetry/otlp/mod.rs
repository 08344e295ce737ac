//! Exporters of OpenTelemetry's signals: gRPC, or HTTP with protobufs. What goes
//! out is what the configuration says and no more: none of it reads the
//! environment, as OpenTelemetry's own exporters do behind everybody's back.

mod collector;
mod exporters;
mod failing;
mod failure;
mod grpc;
mod http;
mod refused;
mod resource;
mod tls;

pub(super) use exporters::{MetricExporter, SpanExporter};
pub(super) use failing::Failing;
pub(super) use refused::whole;
pub(super) use resource::resource;

#[cfg(test)]
mod tests;
