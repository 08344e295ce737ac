//! How OpenTelemetry's signals get to the collector: the variables that it
//! defines, as keys of the worker (`OTEL_EXPORTER_OTLP_ENDPOINT` is
//! `otel.exporter.otlp.endpoint`), for all signals and for each alone.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader, Secret, key, list_items};

const DISABLED: &str = "otel.sdk.disabled";
const SERVICE_NAME: &str = "otel.service.name";
const RESOURCE: &str = "otel.resource.attributes";
const ENDPOINT: &str = "otel.exporter.otlp.endpoint";
const PROTOCOL: &str = "otel.exporter.otlp.protocol";
const HEADERS: &str = "otel.exporter.otlp.headers";
const TIMEOUT: &str = "otel.exporter.otlp.timeout";
const CERTIFICATE: &str = "otel.exporter.otlp.certificate";

pub(super) const PROTOCOLS: Kind = Kind::Choice(&["grpc", "http/protobuf"]);

/// Those of all signals.
pub const KEYS: &[Key] = &[
    key(
        DISABLED,
        Kind::Boolean,
        Preset::Value("false"),
        "Turns OpenTelemetry off, whatever else is set.",
    ),
    key(
        ENDPOINT,
        Kind::Text,
        Preset::Unset,
        "The collector, http:// or https://; turns traces and metrics on. http://localhost:4317 if only an exporter is set (4318 with http/protobuf).",
    ),
    key(
        PROTOCOL,
        PROTOCOLS,
        Preset::Value("grpc"),
        "How the collector is spoken to.",
    ),
    key(
        HEADERS,
        Kind::Secret,
        Preset::Unset,
        "Sent with each export: name=value, parted by commas, percent-encoded.",
    ),
    key(
        TIMEOUT,
        Kind::DurationMs,
        Preset::Value("10000"),
        "How long an export may take.",
    ),
    key(
        CERTIFICATE,
        Kind::Text,
        Preset::Unset,
        "A PEM file with the authorities that the collector's certificate is checked by, instead of the built-in ones.",
    ),
    key(
        SERVICE_NAME,
        Kind::Text,
        Preset::Value("sluice"),
        "The service that traces and metrics name.",
    ),
    key(
        RESOURCE,
        Kind::Text,
        Preset::Unset,
        "Attributes of all spans and metrics: name=value, parted by commas, percent-encoded.",
    ),
];

/// The keys of one signal alone.
pub(super) struct Signal {
    pub(super) keys: &'static [Key],
    pub(super) exporter: &'static str,
    pub(super) endpoint: &'static str,
    pub(super) protocol: &'static str,
    pub(super) headers: &'static str,
    pub(super) timeout: &'static str,
    pub(super) certificate: &'static str,
    /// What HTTP has behind the collector's address.
    pub(super) path: &'static str,
}

/// How the collector is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    HttpProtobuf,
}

/// Where a signal goes, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpConfig {
    pub protocol: Protocol,
    pub endpoint: String,
    /// Names and values.
    pub headers: Vec<(String, Secret)>,
    pub timeout: Duration,
    pub certificate: Option<PathBuf>,
    pub service_name: String,
    pub attributes: Vec<(String, String)>,
}

/// What was given, for a signal or for all.
#[derive(Default)]
struct Given {
    endpoint: Option<String>,
    protocol: Option<&'static str>,
    headers: Option<(&'static str, Secret)>,
    timeout: Option<Duration>,
    certificate: Option<PathBuf>,
}

impl OtlpConfig {
    /// `None`: the signal goes nowhere. What is set wrong is a fault all the
    /// same, told once though every signal reads what is for all.
    pub(super) fn read(
        properties: &Properties,
        signal: &Signal,
        faults: &mut Faults,
    ) -> Option<Self> {
        let mut found = Faults::default();
        let mut reader = Reader::new(properties, "", signal.keys, &mut found);
        let exporter = reader.optional_choice(signal.exporter);
        let own = Given::read(&mut reader, signal);
        let mut reader = Reader::new(properties, "", KEYS, &mut found);
        let all = Given::read(&mut reader, &ALL);
        let protocol = match own.protocol.or(all.protocol) {
            Some("http/protobuf") => Protocol::HttpProtobuf,
            _ => Protocol::Grpc,
        };
        let of_all = |endpoint: String| match protocol {
            Protocol::Grpc => endpoint,
            Protocol::HttpProtobuf => format!("{}{}", endpoint.trim_end_matches('/'), signal.path),
        };
        let endpoint = own.endpoint.or_else(|| all.endpoint.map(of_all));
        let is_on = match exporter {
            Some(exporter) => exporter == "otlp",
            None => endpoint.is_some(),
        };
        let default = match protocol {
            Protocol::Grpc => "http://localhost:4317".to_owned(),
            Protocol::HttpProtobuf => format!("http://localhost:4318{}", signal.path),
        };
        let config = Self {
            protocol,
            endpoint: endpoint.unwrap_or(default),
            headers: read_headers(own.headers.or(all.headers), &mut reader),
            timeout: own.timeout.or(all.timeout).unwrap_or_default(),
            certificate: own.certificate.or(all.certificate),
            service_name: reader.text(SERVICE_NAME),
            attributes: read_attributes(&mut reader),
        };
        let is_on = is_on && !reader.boolean(DISABLED);
        if is_on && !cfg!(feature = "otel") {
            reader.fault(
                ENDPOINT,
                "this program was built without OpenTelemetry; build it with the feature otel, or \
                 unset it",
            );
        }
        faults.absorb(found);
        is_on.then_some(config)
    }
}

/// What is for all signals, read as if it were one.
const ALL: Signal = Signal {
    keys: KEYS,
    exporter: "",
    endpoint: ENDPOINT,
    protocol: PROTOCOL,
    headers: HEADERS,
    timeout: TIMEOUT,
    certificate: CERTIFICATE,
    path: "",
};

impl Given {
    fn read(reader: &mut Reader<'_>, signal: &Signal) -> Self {
        let mut text = |name| reader.optional_text(name).filter(|it| !it.is_empty());
        let (endpoint, certificate) = (text(signal.endpoint), text(signal.certificate));
        if endpoint.as_ref().is_some_and(|it| !is_address(it)) {
            let message = "is no address; write it like http://collector:4317";
            reader.fault(signal.endpoint, message);
        }
        let certificate = certificate.map(PathBuf::from);
        if let Some(path) = certificate.as_ref().filter(|path| !path.is_file()) {
            let message = format!("{} is not a file", path.display());
            reader.fault(signal.certificate, message);
        }
        Self {
            endpoint,
            protocol: reader.optional_choice(signal.protocol),
            headers: reader.secret(signal.headers).map(|it| (signal.headers, it)),
            timeout: reader.optional_duration(signal.timeout),
            certificate,
        }
    }
}

fn is_address(text: &str) -> bool {
    let address = reqwest::Url::parse(text);
    address.is_ok_and(|it| it.scheme().starts_with("http") && it.has_host())
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

fn read_headers(
    given: Option<(&'static str, Secret)>,
    reader: &mut Reader<'_>,
) -> Vec<(String, Secret)> {
    let (name, headers) = given.unwrap_or_default();
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
