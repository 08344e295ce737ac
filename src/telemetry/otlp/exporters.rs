//! What OpenTelemetry's SDK hands spans and metrics to.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{self, SpanData};
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use super::collector::Collector;
use crate::config::otlp::OtlpConfig;

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Of spans.
#[derive(Debug)]
pub(in crate::telemetry) struct SpanExporter {
    collector: Collector,
    resource: ResourceAttributesWithSchema,
}

impl SpanExporter {
    /// Needs a runtime. An error says what to mend.
    pub(in crate::telemetry) fn new(config: &OtlpConfig) -> Result<Self, String> {
        Ok(Self {
            collector: Collector::new(config, TRACES)?,
            resource: ResourceAttributesWithSchema::default(),
        })
    }

    /// Cancelled, nothing is tried again any more.
    pub(in crate::telemetry) fn closing(&self) -> CancellationToken {
        self.collector.closing()
    }
}

impl trace::SpanExporter for SpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let message = ExportTraceServiceRequest { resource_spans };
        self.collector.send(message.encode_to_vec()).await
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

/// Of metrics.
#[derive(Debug)]
pub(in crate::telemetry) struct MetricExporter {
    collector: Collector,
    temporality: Temporality,
}

impl MetricExporter {
    /// Needs a runtime. An error says what to mend.
    pub(in crate::telemetry) fn new(
        config: &OtlpConfig,
        temporality: Temporality,
    ) -> Result<Self, String> {
        Ok(Self {
            collector: Collector::new(config, METRICS)?,
            temporality,
        })
    }

    /// Cancelled, nothing is tried again any more.
    pub(in crate::telemetry) fn closing(&self) -> CancellationToken {
        self.collector.closing()
    }
}

impl PushMetricExporter for MetricExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let message = ExportMetricsServiceRequest::from(metrics);
        self.collector.send(message.encode_to_vec()).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.temporality
    }
}
