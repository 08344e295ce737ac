//! What is traced, and where traces go: the variables that OpenTelemetry
//! defines, as keys of the worker (`OTEL_TRACES_SAMPLER` is
//! `otel.traces.sampler`), and two of ours.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sluice_actors::sampling::Sampling;

use super::definition::{Key, Kind, Preset, Reader, Secret, key, list_items};

const DISABLED: &str = "otel.sdk.disabled";
const EXPORTER: &str = "otel.traces.exporter";
const SAMPLER: &str = "otel.traces.sampler";
const SAMPLER_ARG: &str = "otel.traces.sampler.arg";
const SERVICE_NAME: &str = "otel.service.name";
const RESOURCE: &str = "otel.resource.attributes";
const ENDPOINT: &str = "otel.exporter.otlp.endpoint";
const TRACES_ENDPOINT: &str = "otel.exporter.otlp.traces.endpoint";
const PROTOCOL: &str = "otel.exporter.otlp.protocol";
const TRACES_PROTOCOL: &str = "otel.exporter.otlp.traces.protocol";
const HEADERS: &str = "otel.exporter.otlp.headers";
const TRACES_HEADERS: &str = "otel.exporter.otlp.traces.headers";
const TIMEOUT: &str = "otel.exporter.otlp.timeout";
const TRACES_TIMEOUT: &str = "otel.exporter.otlp.traces.timeout";
const CERTIFICATE: &str = "otel.exporter.otlp.certificate";
const TRACES_CERTIFICATE: &str = "otel.exporter.otlp.traces.certificate";
const DELAY: &str = "otel.bsp.schedule.delay";
const QUEUE: &str = "otel.bsp.max.queue.size";
const BATCH: &str = "otel.bsp.max.export.batch.size";
const EXPORT_TIMEOUT: &str = "otel.bsp.export.timeout";
const SLOW: &str = "trace.slow.record.ms";
const RATE: &str = "trace.max.records.per.second";

const PROTOCOLS: Kind = Kind::Choice(&["grpc", "http/protobuf"]);
const SPANS: Kind = Kind::Int {
    min: 1,
    max: 1 << 20,
};

/// In the environment without `SLUICE_` before it, where it begins with `otel`.
pub const KEYS: &[Key] = &[
    key(
        DISABLED,
        Kind::Boolean,
        Preset::Value("false"),
        "Turns tracing off, whatever else is set.",
    ),
    key(
        EXPORTER,
        Kind::Choice(&["otlp", "none"]),
        Preset::Unset,
        "Where spans go. Unset: to otlp if an endpoint is set, else tracing is off.",
    ),
    key(
        ENDPOINT,
        Kind::Text,
        Preset::Unset,
        "The collector, http:// or https://; turns tracing on. http://localhost:4317 if only otel.traces.exporter is set (4318 with http/protobuf).",
    ),
    key(
        TRACES_ENDPOINT,
        Kind::Text,
        Preset::Unset,
        "The same for traces alone; with http/protobuf the whole address, with its path.",
    ),
    key(
        PROTOCOL,
        PROTOCOLS,
        Preset::Value("grpc"),
        "How the collector is spoken to.",
    ),
    key(
        TRACES_PROTOCOL,
        PROTOCOLS,
        Preset::Unset,
        "The same for traces alone.",
    ),
    key(
        HEADERS,
        Kind::Secret,
        Preset::Unset,
        "Sent with each export: name=value, parted by commas, percent-encoded.",
    ),
    key(
        TRACES_HEADERS,
        Kind::Secret,
        Preset::Unset,
        "The same for traces alone.",
    ),
    key(
        TIMEOUT,
        Kind::DurationMs,
        Preset::Value("10000"),
        "How long an export may take.",
    ),
    key(
        TRACES_TIMEOUT,
        Kind::DurationMs,
        Preset::Unset,
        "The same for traces alone.",
    ),
    key(
        CERTIFICATE,
        Kind::Text,
        Preset::Unset,
        "A PEM file with the authorities that the collector's certificate is checked by, instead of the built-in ones.",
    ),
    key(
        TRACES_CERTIFICATE,
        Kind::Text,
        Preset::Unset,
        "The same for traces alone.",
    ),
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
        "A record that takes longer, from its acquisition to its delivery, is traced; 0: none is for that.",
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
        SERVICE_NAME,
        Kind::Text,
        Preset::Value("sluice"),
        "The service that traces name.",
    ),
    key(
        RESOURCE,
        Kind::Text,
        Preset::Unset,
        "Attributes of all spans: name=value, parted by commas, percent-encoded.",
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
        Preset::Value("512"),
        "The most spans of one export.",
    ),
    key(
        EXPORT_TIMEOUT,
        Kind::DurationMs,
        Preset::Value("30000"),
        "How long an export may take; the shorter one of this and otel.exporter.otlp.timeout holds.",
    ),
];

/// Whether a key is one of these and its value is never shown.
pub(super) fn is_secret(key: &str) -> bool {
    KEYS.iter()
        .any(|it| it.name == key && it.kind == Kind::Secret)
}

/// How the collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    HttpProtobuf,
}

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
    pub protocol: Protocol,
    pub endpoint: String,
    /// Names and values.
    pub headers: Vec<(String, Secret)>,
    pub timeout: Duration,
    pub certificate: Option<PathBuf>,
    pub service_name: String,
    pub attributes: Vec<(String, String)>,
    pub batch: BatchSettings,
}

impl TraceConfig {
    /// `None`: nothing is traced. What is set wrong is a fault all the same.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let exporter = reader.optional_choice(EXPORTER);
        let protocol = match reader.optional_choice(TRACES_PROTOCOL) {
            Some(protocol) => protocol,
            None => reader.choice(PROTOCOL),
        };
        let protocol = match protocol {
            "http/protobuf" => Protocol::HttpProtobuf,
            _ => Protocol::Grpc,
        };
        let endpoint = read_endpoint(reader, protocol);
        let is_on = match exporter {
            Some(exporter) => exporter == "otlp",
            None => endpoint.is_some(),
        };
        let default = match protocol {
            Protocol::Grpc => "http://localhost:4317",
            Protocol::HttpProtobuf => "http://localhost:4318/v1/traces",
        };
        let slow = reader.duration(SLOW);
        let certificate = either(reader, TRACES_CERTIFICATE, CERTIFICATE);
        let certificate = certificate.map(PathBuf::from);
        if let Some(path) = certificate.as_ref().filter(|path| !path.is_file()) {
            let message = format!("{} is not a file", path.display());
            reader.fault(CERTIFICATE, message);
        }
        let config = Self {
            sampling: read_sampling(reader).with_slow((!slow.is_zero()).then_some(slow)),
            max_per_second: reader.int(RATE) as u32,
            protocol,
            endpoint: endpoint.unwrap_or_else(|| default.to_owned()),
            headers: read_headers(reader),
            timeout: read_timeout(reader),
            certificate,
            service_name: reader.text(SERVICE_NAME),
            attributes: read_attributes(reader),
            batch: read_batch(reader),
        };
        let is_disabled = reader.boolean(DISABLED);
        let is_on = is_on && !is_disabled;
        if is_on && !cfg!(feature = "otel") {
            reader.fault(ENDPOINT, "this program was built without tracing; build it with the feature otel, or unset it");
        }
        is_on.then_some(config)
    }
}

/// A text of traces alone, or of all signals.
fn either(reader: &mut Reader<'_>, own: &'static str, general: &'static str) -> Option<String> {
    let own = reader.optional_text(own).filter(|it| !it.is_empty());
    own.or_else(|| reader.optional_text(general).filter(|it| !it.is_empty()))
}

fn read_endpoint(reader: &mut Reader<'_>, protocol: Protocol) -> Option<String> {
    let own = reader
        .optional_text(TRACES_ENDPOINT)
        .filter(|it| !it.is_empty());
    let general = reader.optional_text(ENDPOINT).filter(|it| !it.is_empty());
    for (name, given) in [(TRACES_ENDPOINT, &own), (ENDPOINT, &general)] {
        let is_address = |it: &String| {
            reqwest::Url::parse(it).is_ok_and(|it| it.scheme().starts_with("http") && it.has_host())
        };
        if given.as_ref().is_some_and(|it| !is_address(it)) {
            reader.fault(name, "is no address; write it like http://collector:4317");
        }
    }
    own.or_else(|| {
        let general = general?;
        Some(match protocol {
            Protocol::Grpc => general,
            Protocol::HttpProtobuf => format!("{}/v1/traces", general.trim_end_matches('/')),
        })
    })
}

fn read_sampling(reader: &mut Reader<'_>) -> Sampling {
    let sampler = reader.choice(SAMPLER);
    let text = reader.text(SAMPLER_ARG);
    let ratio = text.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    let ratio = ratio.unwrap_or_else(|| {
        reader.fault(SAMPLER_ARG, format!("{text:?} is not a number from 0 to 1"));
        1.0
    });
    let root = match sampler.trim_start_matches("parentbased_") {
        "always_off" => 0.0,
        "traceidratio" => ratio,
        _ => 1.0,
    };
    match sampler.starts_with("parentbased_") {
        true => Sampling::ratio(root).following_parents(),
        false => Sampling::ratio(root),
    }
}

/// Names and values, parted by commas; `None` where one is not of that form.
fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    list_items(text).map(|item| {
        let (name, value) = item.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    })
}

fn read_headers(reader: &mut Reader<'_>) -> Vec<(String, Secret)> {
    let own = reader.secret(TRACES_HEADERS);
    let (name, headers) = match own {
        Some(headers) => (TRACES_HEADERS, headers),
        None => (HEADERS, reader.secret(HEADERS).unwrap_or_default()),
    };
    let mut read = Vec::new();
    for pair in pairs(headers.reveal()) {
        match pair {
            Some((header, value)) => read.push((header, Secret::new(value))),
            None => reader.fault(name, "is not name=value, parted by commas"),
        }
    }
    read
}

fn read_attributes(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let text = reader.text(RESOURCE);
    let read: Option<Vec<_>> = pairs(&text).collect();
    read.unwrap_or_else(|| {
        reader.fault(RESOURCE, "is not name=value, parted by commas");
        Vec::new()
    })
}

fn read_timeout(reader: &mut Reader<'_>) -> Duration {
    let of_exporter = match reader.optional_duration(TRACES_TIMEOUT) {
        Some(timeout) => timeout,
        None => reader.duration(TIMEOUT),
    };
    of_exporter.min(reader.duration(EXPORT_TIMEOUT))
}

fn read_batch(reader: &mut Reader<'_>) -> BatchSettings {
    let batch = BatchSettings {
        delay: reader.duration(DELAY),
        queue: reader.int(QUEUE) as usize,
        batch: reader.int(BATCH) as usize,
    };
    if batch.batch > batch.queue {
        let (of, queue) = (batch.batch, batch.queue);
        reader.fault(BATCH, format!("{of} is more than {QUEUE}, {queue}"));
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Faults, Properties};

    fn read(settings: &[(&str, &str)]) -> (Option<TraceConfig>, String) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let properties: Properties = settings.iter().map(owned).collect();
        let mut faults = Faults::default();
        let config = TraceConfig::read(&mut Reader::new(&properties, "", KEYS, &mut faults));
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
        assert_eq!(config.endpoint, "http://collector:4317");
        assert_eq!(config.service_name, "sluice");
        assert_eq!(config.protocol, Protocol::Grpc);
        assert_eq!(config.sampling.slow, Some(Duration::from_secs(1)));
        let here = sound(&[(EXPORTER, "otlp")]).unwrap();
        assert_eq!(here.endpoint, "http://localhost:4317");
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
        assert_eq!(config.endpoint, "http://traces:4318/in");
        assert_eq!(config.protocol, Protocol::HttpProtobuf);
        assert_eq!(config.timeout, Duration::from_millis(2));
        assert_eq!(
            config.headers[0],
            ("api-key".into(), Secret::new("hush,hush"))
        );
        assert_eq!(config.headers.len(), 2);
        let base = sound(&[(ENDPOINT, "http://c:4318/"), (PROTOCOL, "http/protobuf")]);
        assert_eq!(base.unwrap().endpoint, "http://c:4318/v1/traces");
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
    }

    #[test]
    fn what_is_wrong_is_told_by_its_key_and_without_secrets() {
        let (_, faults) = read(&[
            (ENDPOINT, "collector:4317"),
            (SAMPLER, "jaeger_remote"),
            (SAMPLER_ARG, "2"),
            (PROTOCOL, "http/json"),
            (HEADERS, "hush"),
            (RESOURCE, "a"),
            (CERTIFICATE, "/nowhere"),
            (BATCH, "4000"),
            (EXPORTER, "console"),
        ]);
        for part in [
            "otel.exporter.otlp.endpoint: is no address",
            "\"jaeger_remote\" is not one of always_on",
            "otel.traces.sampler.arg: \"2\" is not a number from 0 to 1",
            "\"http/json\" is not one of grpc, http/protobuf",
            "otel.exporter.otlp.headers: is not name=value",
            "otel.resource.attributes: is not name=value",
            "/nowhere is not a file",
            "4000 is more than otel.bsp.max.queue.size, 2048",
            "\"console\" is not one of otlp, none",
        ] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
        assert!(!faults.contains("hush"), "{faults}");
    }
}
