//! Where metrics are pushed to: OpenTelemetry's variables, as keys of the
//! worker. Prometheus gets them at `/metrics` in any case.

use std::time::Duration;

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader, key};
use super::otlp::{COMPRESSIONS, OtlpConfig, PROTOCOLS, Signal, own_key, own_name, own_signal};

const EXPORTER: &str = "otel.metrics.exporter";
const INTERVAL: &str = "otel.metric.export.interval";
const EXPORT_TIMEOUT: &str = "otel.metric.export.timeout";
const TEMPORALITY: &str = "otel.exporter.otlp.metrics.temporality.preference";

pub const KEYS: &[Key] = &[
    key(
        EXPORTER,
        Kind::Choice(&["otlp", "prometheus", "none"]),
        Preset::Unset,
        "Where metrics are pushed. Unset: to otlp if an endpoint is set, else nowhere. Whatever it is, /metrics has them.",
    ),
    key(
        INTERVAL,
        Kind::DurationMs,
        Preset::Value("60000"),
        "How often metrics are pushed.",
    ),
    key(
        EXPORT_TIMEOUT,
        Kind::DurationMs,
        Preset::Value("30000"),
        "How long a push may take; the shorter one of this and otel.exporter.otlp.timeout holds.",
    ),
    own_key!(
        "metrics",
        "endpoint",
        Kind::Text,
        "; with http/protobuf the whole address, with its path."
    ),
    own_key!("metrics", "protocol", PROTOCOLS),
    own_key!("metrics", "headers", Kind::Secret),
    own_key!("metrics", "timeout", Kind::DurationMs),
    own_key!("metrics", "compression", COMPRESSIONS),
    own_key!("metrics", "certificate", Kind::Text),
    own_key!("metrics", "client.certificate", Kind::Text),
    own_key!("metrics", "client.key", Kind::Text),
    key(
        TEMPORALITY,
        Kind::Choice(&["cumulative", "delta", "lowmemory"]),
        Preset::Value("cumulative"),
        "Whether counters tell all that was counted, or what is new.",
    ),
];

const SIGNAL: Signal = own_signal!("metrics", KEYS, EXPORTER);

/// What counters tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    Cumulative,
    Delta,
    LowMemory,
}

/// Of a worker that pushes its metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsConfig {
    pub otlp: OtlpConfig,
    pub interval: Duration,
    pub temporality: Temporality,
}

impl MetricsConfig {
    /// `None`: they are not pushed. What is set wrong is a fault all the same.
    pub(super) fn read(properties: &Properties, faults: &mut Faults) -> Option<Self> {
        let otlp = OtlpConfig::read(properties, &SIGNAL, faults);
        let mut reader = Reader::new(properties, "", KEYS, faults);
        let interval = reader.positive_duration(INTERVAL);
        let longest = reader.positive_duration(EXPORT_TIMEOUT);
        let temporality = match reader.choice(TEMPORALITY) {
            "delta" => Temporality::Delta,
            "lowmemory" => Temporality::LowMemory,
            _ => Temporality::Cumulative,
        };
        Some(Self {
            otlp: otlp?.within(longest),
            interval,
            temporality,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> (Option<MetricsConfig>, String) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let config = MetricsConfig::read(&properties, &mut faults);
        (config, faults.to_string())
    }

    const ENDPOINT: &str = "otel.exporter.otlp.metrics.endpoint";
    const ALL: (&str, &str) = ("otel.exporter.otlp.endpoint", "http://collector:4317");

    #[test]
    fn metrics_are_pushed_where_a_collector_is_named_or_asked_for() {
        assert_eq!(read(&[]), (None, String::new()));
        let endpoint = |settings: &[(&str, &str)]| {
            let (config, faults) = read(settings);
            assert_eq!(faults, "");
            config.map(|it| it.otlp.endpoint)
        };
        assert_eq!(endpoint(&[ALL]).as_deref(), Some(ALL.1));
        let own = (ENDPOINT, "http://metrics:4317");
        assert_eq!(endpoint(&[ALL, own]).as_deref(), Some(own.1));
        assert_eq!(endpoint(&[own]).as_deref(), Some(own.1));
        let here = endpoint(&[(EXPORTER, "otlp")]);
        assert_eq!(here.as_deref(), Some("http://localhost:4317"));
        for exporter in ["none", "prometheus"] {
            assert_eq!(endpoint(&[ALL, (EXPORTER, exporter)]), None);
        }
        let traces = ("otel.exporter.otlp.traces.endpoint", "http://traces:4317");
        assert_eq!(endpoint(&[traces]), None);
        let http = ("otel.exporter.otlp.protocol", "http/protobuf");
        let path = endpoint(&[("otel.exporter.otlp.endpoint", "http://c:4318/"), http]);
        assert_eq!(path.as_deref(), Some("http://c:4318/v1/metrics"));
    }

    #[test]
    fn how_often_and_how_is_read_and_what_is_wrong_is_told() {
        let timeout = (EXPORT_TIMEOUT, "300");
        let (config, _) = read(&[ALL, (INTERVAL, "500"), (TEMPORALITY, "delta"), timeout]);
        let config = config.unwrap();
        assert_eq!(config.otlp.timeout, Duration::from_millis(300));
        assert_eq!(config.interval, Duration::from_millis(500));
        assert_eq!(config.temporality, Temporality::Delta);
        let (_, faults) = read(&[(INTERVAL, "0"), (TEMPORALITY, "x"), (ENDPOINT, "c")]);
        for key in [INTERVAL, TEMPORALITY, ENDPOINT] {
            assert!(faults.contains(key), "{faults}");
        }
    }
}
