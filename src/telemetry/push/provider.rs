//! What pushes metrics now and then, and tells when it cannot.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{
    Instrument, PeriodicReader, SdkMeterProvider, Stream, Temporality,
};

use tokio_util::sync::CancellationToken;

use super::instruments::{Sights, instrument, names};
use super::{Look, Pushing};
use crate::config::metrics::{self, MetricsConfig};
use crate::telemetry::metrics::{Metric, all};
use crate::telemetry::otlp::{self, Failing};

/// How many series of a metric are pushed; the SDK has memory ready for them,
/// and sums up what is beyond it.
const SERIES: usize = 1_000;
/// The same where there is one for each task or partition.
const MANY_SERIES: usize = 10_000;

pub(super) struct OtlpPush {
    provider: SdkMeterProvider,
    /// Ends that pushes are tried again.
    closing: CancellationToken,
}

impl OtlpPush {
    /// Needs a runtime.
    pub(super) fn start(config: &MetricsConfig) -> Result<Self, String> {
        let temporality = match config.temporality {
            metrics::Temporality::Cumulative => Temporality::Cumulative,
            metrics::Temporality::Delta => Temporality::Delta,
            metrics::Temporality::LowMemory => Temporality::LowMemory,
        };
        let exporter = otlp::MetricExporter::new(&config.otlp, temporality)?;
        let closing = exporter.closing();
        let exporter = Telling {
            exporter,
            failing: Failing::default(),
        };
        tracing::info!(interval = ?config.interval, "metrics are pushed");
        let reader = PeriodicReader::builder(exporter).with_interval(config.interval);
        let provider = SdkMeterProvider::builder()
            .with_resource(otlp::resource(&config.otlp))
            .with_reader(reader.build())
            .with_view(with_room());
        Ok(Self {
            provider: provider.build(),
            closing,
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
        self.closing.cancel();
        // An export that fails was told of.
        let _ = self.provider.shutdown_with_timeout(within);
    }
}

impl Drop for OtlpPush {
    /// With its last reference a provider would push once more and block for
    /// it, be the worker at its end or not: only `shut_down` is to.
    fn drop(&mut self) {
        mem::forget(self.provider.clone());
    }
}

/// Gives each instrument room for the series of its metric.
fn with_room() -> impl Fn(&Instrument) -> Option<Stream> + Send + Sync + 'static {
    let rooms: HashMap<String, usize> = rooms().collect();
    move |instrument| {
        let series = *rooms.get(instrument.name())?;
        let stream = Stream::builder().with_cardinality_limit(series);
        stream.build().ok()
    }
}

/// By the instruments' names.
fn rooms() -> impl Iterator<Item = (String, usize)> {
    all().flat_map(|metric| names(metric).map(|name| (name, room(metric))))
}

fn room(metric: &Metric) -> usize {
    let labels = metric.value.labels();
    match labels.contains(&"task") || labels.contains(&"partition") {
        true => MANY_SERIES,
        false => SERIES,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instrument_has_a_name_and_room_of_its_own() {
        let by_name: HashMap<String, usize> = rooms().collect();
        assert_eq!(by_name.len(), rooms().count());
        let of = |name: &str| by_name.get(name).copied();
        assert_eq!(of("sluice_partition_span_offsets"), Some(MANY_SERIES));
        assert_eq!(of("sluice_settlement_seconds_bucket"), Some(SERIES));
        assert_eq!(of("sluice_settlement_seconds"), None, "it has parts");
    }
}
