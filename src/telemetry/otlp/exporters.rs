//! What spans and metrics are handed to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{self, SpanData};
use prost::Message as _;
use tokio_util::sync::CancellationToken;

use super::collector::Collector;
use super::refused::whole;
use super::resource::resource;
use crate::config::otlp::OtlpConfig;

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

/// Of spans.
#[derive(Debug)]
pub(in crate::telemetry) struct SpanExporter {
    collector: Collector,
    resource: ResourceAttributesWithSchema,
    refused: Arc<AtomicU64>,
}

impl SpanExporter {
    /// Needs a runtime. An error says what to mend.
    pub(in crate::telemetry) fn new(config: &OtlpConfig) -> Result<Self, String> {
        Ok(Self {
            collector: Collector::new(config, TRACES)?,
            resource: ResourceAttributesWithSchema::default(),
            refused: Arc::default(),
        })
    }

    /// How many spans of the last export the collector refused, if that is why
    /// it failed.
    pub(in crate::telemetry) fn refused(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.refused)
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
        let refused = self.collector.send(message.encode_to_vec()).await?;
        self.refused.store(refused, Ordering::Relaxed);
        whole(refused)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

/// Of metrics.
#[derive(Debug)]
pub(in crate::telemetry) struct MetricExporter {
    collector: Collector,
    resource: Resource,
}

impl MetricExporter {
    /// Needs a runtime. An error says what to mend.
    pub(in crate::telemetry) fn new(config: &OtlpConfig) -> Result<Self, String> {
        Ok(Self {
            collector: Collector::new(config, METRICS)?,
            resource: resource(config),
        })
    }

    /// Cancelled, nothing is tried again any more.
    pub(in crate::telemetry) fn closing(&self) -> CancellationToken {
        self.collector.closing()
    }

    /// How many data points the collector refused.
    pub(in crate::telemetry) async fn export(
        &self,
        metrics: Vec<Metric>,
    ) -> Result<u64, OTelSdkError> {
        let scope = InstrumentationScope {
            name: "sluice".to_owned(),
            ..InstrumentationScope::default()
        };
        let scoped = ScopeMetrics {
            scope: Some(scope),
            metrics,
            ..ScopeMetrics::default()
        };
        let of_worker = ResourceMetrics {
            resource: Some((&self.resource).into()),
            scope_metrics: vec![scoped],
            ..ResourceMetrics::default()
        };
        let message = ExportMetricsServiceRequest {
            resource_metrics: vec![of_worker],
        };
        self.collector.send(message.encode_to_vec()).await
    }
}
