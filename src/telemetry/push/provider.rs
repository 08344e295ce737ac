//! What pushes metrics now and then, and tells when it cannot.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{
    Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality,
};

use super::instruments::{Sights, instrument};
use super::{Look, Pushing};
use crate::config::metrics::{self, MetricsConfig};
use crate::telemetry::metrics::all;
use crate::telemetry::otlp::{self, Failing};

/// How many series of a metric are pushed; the SDK has memory ready for them,
/// and sums up what is beyond it.
const SERIES: usize = 1_000;
/// The same where there is one for each task or partition.
const MANY_SERIES: usize = 10_000;

pub(super) struct OtlpPush {
    provider: SdkMeterProvider,
}

impl OtlpPush {
    /// Needs a runtime.
    pub(super) fn start(config: &MetricsConfig) -> Result<Self, String> {
        let temporality = match config.temporality {
            metrics::Temporality::Cumulative => Temporality::Cumulative,
            metrics::Temporality::Delta => Temporality::Delta,
            metrics::Temporality::LowMemory => Temporality::LowMemory,
        };
        let exporter = Telling {
            exporter: otlp::metrics(&config.otlp, temporality)?,
            failing: Failing::default(),
        };
        tracing::info!(interval = ?config.interval, "metrics are pushed");
        let reader = PeriodicReader::builder(exporter).with_interval(config.interval);
        let provider = SdkMeterProvider::builder()
            .with_resource(otlp::resource(&config.otlp))
            .with_reader(reader.build())
            .with_view(with_room);
        Ok(Self {
            provider: provider.build(),
        })
    }
}

impl Pushing for OtlpPush {
    fn observe(&self, look: Look) {
        let (meter, sights) = (self.provider.meter("sluice"), Arc::new(Sights::new(look)));
        for metric in all() {
            instrument(&meter, metric, &sights);
        }
    }

    fn shut_down(&self, within: Duration) {
        // An export that fails was told of.
        let _ = self.provider.shutdown_with_timeout(within);
    }
}

fn with_room(instrument: &Instrument) -> Option<Stream> {
    let mut metrics = all();
    let metric = metrics.find(|metric| instrument.name().starts_with(&metric.exported()))?;
    let labels = metric.value.labels();
    let is_many = labels.contains(&"task") || labels.contains(&"partition");
    let series = if is_many { MANY_SERIES } else { SERIES };
    Stream::builder()
        .with_cardinality_limit(series)
        .build()
        .ok()
}

/// Tells in the log when an exporter begins to fail, and when it is over.
struct Telling<E> {
    exporter: E,
    failing: Failing,
}

impl<E: PushMetricExporter> PushMetricExporter for Telling<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let exported = self.exporter.export(metrics).await;
        if self.failing.changes(&exported) {
            match &exported {
                Err(error) => tracing::warn!(%error, "metrics cannot be pushed, trying on"),
                Ok(()) => tracing::info!("metrics are pushed again"),
            }
        }
        exported
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
