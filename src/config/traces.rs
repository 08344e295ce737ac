//! What is traced, and where traces go: the variables that OpenTelemetry
//! defines, as keys of the worker (`OTEL_TRACES_SAMPLER` is
//! `otel.traces.sampler`), and two of ours.

use std::time::Duration;

use sluice_actors::sampling::Sampling;

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader, key};
use super::otlp::{COMPRESSIONS, OtlpConfig, PROTOCOLS, Signal, own_key, own_name, own_signal};

const EXPORTER: &str = "otel.traces.exporter";
const SAMPLER: &str = "otel.traces.sampler";
const SAMPLER_ARG: &str = "otel.traces.sampler.arg";
const DELAY: &str = "otel.bsp.schedule.delay";
const QUEUE: &str = "otel.bsp.max.queue.size";
const BATCH: &str = "otel.bsp.max.export.batch.size";
const EXPORT_TIMEOUT: &str = "otel.bsp.export.timeout";
const SLOW: &str = "trace.slow.record.ms";
const RATE: &str = "trace.max.records.per.second";

/// The most spans of one export, if nobody says.
const BATCHED: i64 = 512;

const SPANS: Kind = Kind::Int {
    min: 1,
    max: 1 << 20,
};

/// In the environment without `SLUICE_` before it, where it begins with `otel`.
pub const KEYS: &[Key] = &[
    key(
        EXPORTER,
        Kind::Choice(&["otlp", "none"]),
        Preset::Unset,
        "Where spans go. Unset: to otlp if an endpoint is set, else tracing is off.",
    ),
    own_key!(
        "traces",
        "endpoint",
        Kind::Text,
        "; with http/protobuf the whole address, with its path."
    ),
    own_key!("traces", "protocol", PROTOCOLS),
    own_key!("traces", "headers", Kind::Secret),
    own_key!("traces", "timeout", Kind::DurationMs),
    own_key!("traces", "compression", COMPRESSIONS),
    own_key!("traces", "certificate", Kind::Text),
    own_key!("traces", "client.certificate", Kind::Text),
    own_key!("traces", "client.key", Kind::Text),
    key(
        SAMPLER,
        Kind::Choice(&[
            "always_on",
            "always_off",
            "traceidratio",
            "parentbased_always_on",
            "parentbased_always_off",
            "parentbased_traceidratio",
        ]),
        Preset::Value("parentbased_always_on"),
        "Which records are traced from the start; parentbased: those with a traceparent header as it says. Records that fail, come again or are slow are traced whatever it says.",
    ),
    key(
        SAMPLER_ARG,
        Kind::Text,
        Preset::Value("1"),
        "The part of all records that a ratio samples, 0 to 1.",
    ),
    key(
        SLOW,
        Kind::DurationMs,
        Preset::Value("1000"),
        "A record that takes longer, from its acquisition until the broker has answered its settlement, is traced; 0: none is for that.",
    ),
    key(
        RATE,
        Kind::Int {
            min: 1,
            max: 1_000_000,
        },
        Preset::Value("100"),
        "The most records that are traced in a second, those that are sampled and those that fail, come again or are slow each for themselves: a bound for what tracing costs.",
    ),
    key(
        DELAY,
        Kind::DurationMs,
        Preset::Value("5000"),
        "How long spans wait for more before they are exported.",
    ),
    key(
        QUEUE,
        SPANS,
        Preset::Value("2048"),
        "How many spans may wait; beyond that, records are not traced.",
    ),
    key(
        BATCH,
        SPANS,
        Preset::Unset,
        "The most spans of one export. Unset: 512, or as many as may wait if those are fewer.",
    ),
    key(
        EXPORT_TIMEOUT,
        Kind::DurationMs,
        Preset::Value("30000"),
        "How long an export may take; the shorter one of this and otel.exporter.otlp.timeout holds.",
    ),
];

const SIGNAL: Signal = own_signal!("traces", KEYS, EXPORTER);

/// How spans are batched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    pub delay: Duration,
    pub queue: usize,
    pub batch: usize,
}

/// Of a worker that traces records.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceConfig {
    pub sampling: Sampling,
    /// `trace.max.records.per.second`.
    pub max_per_second: u32,
    pub otlp: OtlpConfig,
    pub batch: BatchSettings,
}

impl TraceConfig {
    /// `None`: nothing is traced. What is set wrong is a fault all the same.
    pub(super) fn read(properties: &Properties, faults: &mut Faults) -> Option<Self> {
        let otlp = OtlpConfig::read(properties, &SIGNAL, faults);
        let mut reader = Reader::new(properties, "", KEYS, faults);
        let slow = reader.duration(SLOW);
        let sampling = read_sampling(&mut reader).with_slow((!slow.is_zero()).then_some(slow));
        let max_per_second = reader.int(RATE) as u32;
        let batch = read_batch(&mut reader);
        let longest = reader.positive_duration(EXPORT_TIMEOUT);
        Some(Self {
            sampling,
            max_per_second,
            otlp: otlp?.within(longest),
            batch,
        })
    }
}

fn read_sampling(reader: &mut Reader<'_>) -> Sampling {
    let sampler = reader.choice(SAMPLER);
    let root = match sampler.trim_start_matches("parentbased_") {
        "always_off" => 0.0,
        "traceidratio" => read_ratio(reader),
        _ => 1.0,
    };
    match sampler.starts_with("parentbased_") {
        true => Sampling::ratio(root).following_parents(),
        false => Sampling::ratio(root),
    }
}

/// Other samplers' arguments are none of a ratio's.
fn read_ratio(reader: &mut Reader<'_>) -> f64 {
    let text = reader.text(SAMPLER_ARG);
    let ratio = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    ratio.unwrap_or_else(|| {
        reader.fault(SAMPLER_ARG, format!("{text:?} is not a number from 0 to 1"));
        1.0
    })
}

fn read_batch(reader: &mut Reader<'_>) -> BatchSettings {
    let queue = reader.int(QUEUE);
    let batch = reader.optional_int(BATCH);
    if let Some(batch) = batch.filter(|it| *it > queue) {
        reader.fault(BATCH, format!("{batch} is more than {QUEUE}, {queue}"));
    }
    BatchSettings {
        delay: reader.positive_duration(DELAY),
        queue: queue as usize,
        batch: batch.unwrap_or(BATCHED.min(queue)) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::Secret;
    use crate::config::otlp::Protocol;

    const DISABLED: &str = "otel.sdk.disabled";
    const RESOURCE: &str = "otel.resource.attributes";
    const ENDPOINT: &str = "otel.exporter.otlp.endpoint";
    const PROTOCOL: &str = "otel.exporter.otlp.protocol";
    const HEADERS: &str = "otel.exporter.otlp.headers";
    const TIMEOUT: &str = "otel.exporter.otlp.timeout";
    const CERTIFICATE: &str = "otel.exporter.otlp.certificate";
    const TRACES_ENDPOINT: &str = "otel.exporter.otlp.traces.endpoint";
    const TRACES_PROTOCOL: &str = "otel.exporter.otlp.traces.protocol";
    const TRACES_HEADERS: &str = "otel.exporter.otlp.traces.headers";
    const TRACES_TIMEOUT: &str = "otel.exporter.otlp.traces.timeout";

    fn read(settings: &[(&str, &str)]) -> (Option<TraceConfig>, String) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let config = TraceConfig::read(&properties, &mut faults);
        (config, faults.to_string())
    }

    fn sound(settings: &[(&str, &str)]) -> Option<TraceConfig> {
        let (config, faults) = read(settings);
        assert_eq!(faults, "");
        config
    }

    const COLLECTOR: (&str, &str) = (ENDPOINT, "http://collector:4317");

    #[test]
    fn tracing_is_on_when_a_collector_is_named() {
        assert_eq!(sound(&[]), None);
        let config = sound(&[COLLECTOR]).unwrap();
        assert_eq!(config.otlp.endpoint, "http://collector:4317");
        assert_eq!(config.otlp.service_name, "sluice");
        assert_eq!(config.otlp.protocol, Protocol::Grpc);
        assert_eq!(config.sampling.slow, Some(Duration::from_secs(1)));
        let here = sound(&[(EXPORTER, "otlp")]).unwrap();
        assert_eq!(here.otlp.endpoint, "http://localhost:4317");
        assert_eq!(sound(&[COLLECTOR, (EXPORTER, "none")]), None);
        assert_eq!(sound(&[COLLECTOR, (DISABLED, "true")]), None);
    }

    #[test]
    fn what_is_said_of_traces_alone_wins() {
        let config = sound(&[
            COLLECTOR,
            (TRACES_ENDPOINT, "http://traces:4318/in"),
            (PROTOCOL, "grpc"),
            (TRACES_PROTOCOL, "http/protobuf"),
            (TIMEOUT, "1"),
            (TRACES_TIMEOUT, "2"),
            (EXPORT_TIMEOUT, "3"),
            (HEADERS, "a=1"),
            (TRACES_HEADERS, "api-key=hush%2Chush, b=2"),
        ]);
        let config = config.unwrap();
        assert_eq!(config.otlp.endpoint, "http://traces:4318/in");
        assert_eq!(config.otlp.protocol, Protocol::HttpProtobuf);
        assert_eq!(config.otlp.timeout, Duration::from_millis(2));
        assert_eq!(
            config.otlp.headers[0],
            ("api-key".into(), Secret::new("hush,hush"))
        );
        assert_eq!(config.otlp.headers.len(), 2);
        let base = sound(&[(ENDPOINT, "http://c:4318/"), (PROTOCOL, "http/protobuf")]);
        assert_eq!(base.unwrap().otlp.endpoint, "http://c:4318/v1/traces");
    }

    #[test]
    fn a_service_is_named_by_its_own_setting_before_any_attribute() {
        let service = |settings: &[(&str, &str)]| {
            let settings = [&[COLLECTOR], settings].concat();
            sound(&settings).unwrap().otlp.service_name
        };
        let attributes = (RESOURCE, "service.name=among,a=b");
        let name = ("otel.service.name", "own");
        assert_eq!(service(&[]), "sluice");
        assert_eq!(service(&[attributes]), "among");
        assert_eq!(service(&[attributes, name]), "own");
        assert_eq!(service(&[attributes, ("otel.service.name", "")]), "among");
    }

    #[test]
    fn exports_are_packed_and_signed_as_is_said_for_all_or_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(vec!["worker".to_owned()]).unwrap();
        let file = |name: &str, pem: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path
        };
        let (certificate, other) = (pair.cert.pem(), pair.cert.pem());
        let (certificate, other) = (file("certificate", &certificate), file("other", &other));
        let key = file("key", &pair.signing_key.serialize_pem());
        let [certificate_text, key_text, other_text] =
            [&certificate, &key, &other].map(|it| it.to_str().unwrap());
        let all = [
            COLLECTOR,
            ("otel.exporter.otlp.compression", "gzip"),
            ("otel.exporter.otlp.client.certificate", certificate_text),
            ("otel.exporter.otlp.client.key", key_text),
        ];
        let config = sound(&all).unwrap().otlp;
        assert!(config.is_packed);
        let client = config.client.unwrap();
        assert_eq!((&client.certificate, &client.key), (&certificate, &key));
        let own = [
            ("otel.exporter.otlp.traces.compression", "none"),
            ("otel.exporter.otlp.traces.client.certificate", other_text),
            ("otel.exporter.otlp.traces.client.key", key_text),
        ];
        let config = sound(&[&all[..], &own].concat()).unwrap().otlp;
        assert!(!config.is_packed);
        assert_eq!(config.client.unwrap().certificate, other);
        let (_, faults) = read(&[
            COLLECTOR,
            own[2],
            all[2],
            ("otel.exporter.otlp.traces.compression", "zstd"),
        ]);
        for part in [
            "otel.exporter.otlp.traces.client.key: needs otel.exporter.otlp.traces.client.certificate",
            "otel.exporter.otlp.client.certificate: needs otel.exporter.otlp.client.key",
            "\"zstd\" is not one of none, gzip",
        ] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
    }

    #[test]
    fn each_sampler_is_known() {
        let sampling = |sampler, arg| {
            let settings = [
                COLLECTOR,
                (SAMPLER, sampler),
                (SAMPLER_ARG, arg),
                (SLOW, "0"),
            ];
            sound(&settings).unwrap().sampling
        };
        let (on, off) = (Sampling::ratio(1.0), Sampling::ratio(0.0));
        assert_eq!(sampling("always_on", "0.1"), on);
        assert_eq!(sampling("always_off", "0.1"), off);
        assert_eq!(sampling("traceidratio", "0.1"), Sampling::ratio(0.1));
        assert_eq!(
            sampling("parentbased_always_on", "0.1"),
            on.following_parents()
        );
        assert_eq!(
            sampling("parentbased_always_off", "1"),
            off.following_parents()
        );
        let ratio = sampling("parentbased_traceidratio", "0.01");
        assert_eq!(ratio, Sampling::ratio(0.01).following_parents());
        assert_eq!(sampling("always_on", "endpoint=http://agent:5778"), on);
    }

    #[test]
    fn an_export_is_never_of_more_spans_than_may_wait() {
        let batch = |settings: &[(&str, &str)]| {
            let settings = [&[COLLECTOR], settings].concat();
            let batch = sound(&settings).unwrap().batch;
            (batch.queue, batch.batch)
        };
        assert_eq!(batch(&[]), (2048, 512));
        assert_eq!(batch(&[(QUEUE, "256")]), (256, 256));
        assert_eq!(batch(&[(QUEUE, "256"), (BATCH, "200")]), (256, 200));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_key_and_without_secrets() {
        let (_, faults) = read(&[
            (ENDPOINT, "collector:4317"),
            (SAMPLER, "jaeger_remote"),
            (PROTOCOL, "http/json"),
            (HEADERS, "hush"),
            (RESOURCE, "a"),
            (CERTIFICATE, "/nowhere"),
            (TIMEOUT, "0"),
            (BATCH, "4000"),
            (EXPORTER, "console"),
        ]);
        for part in [
            "otel.exporter.otlp.endpoint: is no address",
            "\"jaeger_remote\" is not one of always_on",
            "\"http/json\" is not one of grpc, http/protobuf",
            "otel.exporter.otlp.headers: is not name=value",
            "otel.resource.attributes: is not name=value",
            "/nowhere is not a file",
            "otel.exporter.otlp.timeout: must be longer than 0",
            "4000 is more than otel.bsp.max.queue.size, 2048",
            "\"console\" is not one of otlp, none",
        ] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
        assert!(!faults.contains("hush"), "{faults}");
        let ratio = [(SAMPLER, "traceidratio"), (SAMPLER_ARG, "2")];
        let told = "otel.traces.sampler.arg: \"2\" is not a number from 0 to 1";
        assert_eq!(read(&ratio).1, told);
        for headers in ["hush hush=1", "a=hush%0Ahush"] {
            let (_, faults) = read(&[(HEADERS, headers)]);
            assert!(faults.starts_with(HEADERS), "{faults}");
            assert!(!faults.contains("hush"), "{faults}");
        }
    }
}
