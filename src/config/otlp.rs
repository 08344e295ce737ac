//! How OpenTelemetry's signals get to the collector: the variables that it
//! defines, as keys of the worker (`OTEL_EXPORTER_OTLP_ENDPOINT` is
//! `otel.exporter.otlp.endpoint`), for all signals and for each alone.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::definition::{Faults, Key, Kind, Preset, Properties, Reader, Secret, key, list_items};
use crate::pem::{self, KeyFlaw};

const DISABLED: &str = "otel.sdk.disabled";
const SERVICE_NAME: &str = "otel.service.name";
const RESOURCE: &str = "otel.resource.attributes";
const ENDPOINT: &str = "otel.exporter.otlp.endpoint";
const PROTOCOL: &str = "otel.exporter.otlp.protocol";
const HEADERS: &str = "otel.exporter.otlp.headers";
const TIMEOUT: &str = "otel.exporter.otlp.timeout";
const COMPRESSION: &str = "otel.exporter.otlp.compression";
const CERTIFICATE: &str = "otel.exporter.otlp.certificate";
const CLIENT_CERTIFICATE: &str = "otel.exporter.otlp.client.certificate";
const CLIENT_KEY: &str = "otel.exporter.otlp.client.key";

pub(super) const PROTOCOLS: Kind = Kind::Choice(&["grpc", "http/protobuf"]);
pub(super) const COMPRESSIONS: Kind = Kind::Choice(&["none", "gzip"]);

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
        "How long an export may take, with the tries that follow one that failed.",
    ),
    key(
        COMPRESSION,
        COMPRESSIONS,
        Preset::Value("none"),
        "How exports are packed.",
    ),
    key(
        CERTIFICATE,
        Kind::Text,
        Preset::Unset,
        "A PEM file with the authorities that the collector's certificate is checked by, instead of the built-in ones.",
    ),
    key(
        CLIENT_CERTIFICATE,
        Kind::Text,
        Preset::Unset,
        "A PEM file with the certificate that this worker shows to the collector; needs the key.",
    ),
    key(
        CLIENT_KEY,
        Kind::Text,
        Preset::Unset,
        "A PEM file with the key of that certificate, not locked.",
    ),
    key(
        SERVICE_NAME,
        Kind::Text,
        Preset::Unset,
        "The service that traces and metrics name; unset, service.name of the resource attributes, else sluice.",
    ),
    key(
        RESOURCE,
        Kind::Text,
        Preset::Unset,
        "Attributes of all spans and metrics: name=value, parted by commas, percent-encoded.",
    ),
];

/// The row of what one signal says for itself; the endpoint's says more.
macro_rules! own_key {
    ($signal:literal, $name:literal, $kind:expr) => {
        own_key!($signal, $name, $kind, ".")
    };
    ($signal:literal, $name:literal, $kind:expr, $end:literal) => {
        $crate::config::definition::key(
            own_name!($signal, $name),
            $kind,
            $crate::config::definition::Preset::Unset,
            concat!(
                "otel.exporter.otlp.",
                $name,
                " for ",
                $signal,
                " alone",
                $end
            ),
        )
    };
}

macro_rules! own_name {
    ($signal:literal, $name:literal) => {
        concat!("otel.exporter.otlp.", $signal, ".", $name)
    };
}

/// The signal whose rows are made by `own_key`.
macro_rules! own_signal {
    ($signal:literal, $keys:expr, $exporter:expr) => {
        $crate::config::otlp::Signal {
            keys: $keys,
            exporter: $exporter,
            endpoint: own_name!($signal, "endpoint"),
            protocol: own_name!($signal, "protocol"),
            headers: own_name!($signal, "headers"),
            timeout: own_name!($signal, "timeout"),
            compression: own_name!($signal, "compression"),
            certificate: own_name!($signal, "certificate"),
            client_certificate: own_name!($signal, "client.certificate"),
            client_key: own_name!($signal, "client.key"),
            path: concat!("/v1/", $signal),
        }
    };
}

pub(super) use {own_key, own_name, own_signal};

/// The keys of one signal alone.
pub(super) struct Signal {
    pub(super) keys: &'static [Key],
    pub(super) exporter: &'static str,
    pub(super) endpoint: &'static str,
    pub(super) protocol: &'static str,
    pub(super) headers: &'static str,
    pub(super) timeout: &'static str,
    pub(super) compression: &'static str,
    pub(super) certificate: &'static str,
    pub(super) client_certificate: &'static str,
    pub(super) client_key: &'static str,
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
    pub is_packed: bool,
    /// The authorities that are trusted; `None`: the built-in ones.
    pub certificate: Option<PathBuf>,
    pub client: Option<ClientFiles>,
    pub service_name: String,
    pub attributes: Vec<(String, String)>,
}

/// Who this worker is to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What was given, for a signal or for all.
#[derive(Default)]
struct Given {
    endpoint: Option<String>,
    protocol: Option<&'static str>,
    headers: Option<(&'static str, Secret)>,
    timeout: Option<Duration>,
    compression: Option<&'static str>,
    certificate: Option<PathBuf>,
    client: Option<ClientFiles>,
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
        let turned_on_by = match (exporter, &own.endpoint) {
            (Some(_), _) => signal.exporter,
            (None, Some(_)) => signal.endpoint,
            (None, None) => ENDPOINT,
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
        let attributes = read_attributes(&mut reader);
        let config = Self {
            protocol,
            endpoint: endpoint.unwrap_or(default),
            headers: read_headers(own.headers.or(all.headers), &mut reader),
            timeout: own.timeout.or(all.timeout).unwrap_or_default(),
            is_packed: own.compression.or(all.compression) == Some("gzip"),
            certificate: own.certificate.or(all.certificate),
            client: own.client.or(all.client),
            service_name: service_name(&mut reader, &attributes),
            attributes,
        };
        let is_disabled = reader.boolean(DISABLED);
        let is_on = is_on && !is_disabled;
        if is_on && !cfg!(feature = "otel") {
            reader.fault(
                turned_on_by,
                "this program was built without OpenTelemetry; build it with the feature otel, or \
                 unset it",
            );
        }
        faults.absorb(found);
        is_on.then_some(config)
    }

    /// With exports that take no longer than that.
    pub(super) fn within(self, longest: Duration) -> Self {
        Self {
            timeout: self.timeout.min(longest),
            ..self
        }
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
    compression: COMPRESSION,
    certificate: CERTIFICATE,
    client_certificate: CLIENT_CERTIFICATE,
    client_key: CLIENT_KEY,
    path: "",
};

impl Given {
    fn read(reader: &mut Reader<'_>, signal: &Signal) -> Self {
        let endpoint = given_text(reader, signal.endpoint);
        if endpoint.as_ref().is_some_and(|it| !is_address(it)) {
            let message = "is no address; write it like http://collector:4317";
            reader.fault(signal.endpoint, message);
        }
        let timeout = reader.optional_duration(signal.timeout);
        if timeout.is_some_and(|it| it.is_zero()) {
            reader.fault(signal.timeout, "must be longer than 0");
        }
        Self {
            endpoint,
            protocol: reader.optional_choice(signal.protocol),
            headers: reader.secret(signal.headers).map(|it| (signal.headers, it)),
            timeout,
            compression: reader.optional_choice(signal.compression),
            certificate: file(reader, signal.certificate, check_certificates),
            client: client_files(reader, signal),
        }
    }
}

fn client_files(reader: &mut Reader<'_>, signal: &Signal) -> Option<ClientFiles> {
    let (certificate, key) = (signal.client_certificate, signal.client_key);
    let files = (
        file(reader, certificate, check_certificates),
        file(reader, key, check_key),
    );
    match files {
        (Some(certificate), Some(key)) => Some(ClientFiles { certificate, key }),
        (None, None) => None,
        (Some(_), None) => {
            reader.fault(certificate, format!("needs {key}"));
            None
        }
        (None, Some(_)) => {
            reader.fault(key, format!("needs {certificate}"));
            None
        }
    }
}

fn given_text(reader: &mut Reader<'_>, name: &'static str) -> Option<String> {
    reader.optional_text(name).filter(|it| !it.is_empty())
}

/// A file whose content is as it is to be.
fn file(
    reader: &mut Reader<'_>,
    name: &'static str,
    check: impl Fn(&[u8]) -> Result<(), String>,
) -> Option<PathBuf> {
    let path = PathBuf::from(given_text(reader, name)?);
    let flaw = match fs::read(&path) {
        _ if !path.is_file() => Some("is not a file".to_owned()),
        Ok(content) => check(&content).err(),
        Err(error) => Some(format!("cannot be read: {error}")),
    };
    if let Some(flaw) = flaw {
        reader.fault(name, format!("{} {flaw}", path.display()));
    }
    Some(path)
}

fn check_certificates(pem: &[u8]) -> Result<(), String> {
    pem::certificates(pem).map(drop).map_err(str::to_owned)
}

fn check_key(pem: &[u8]) -> Result<(), String> {
    pem::key(pem, None).map(drop).map_err(|flaw| match flaw {
        KeyFlaw::Key(flaw) => flaw,
        KeyFlaw::Password(_) => "is locked; give one that is not".to_owned(),
    })
}

fn is_address(text: &str) -> bool {
    let address = reqwest::Url::parse(text);
    address.is_ok_and(|it| matches!(it.scheme(), "http" | "https") && it.has_host())
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
            Some((header, value)) if is_header(&header, &value) => {
                read.push((header, Secret::new(value)));
            }
            _ => reader.fault(name, "is not name=value, parted by commas"),
        }
    }
    read
}

fn is_header(name: &str, value: &str) -> bool {
    HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
}

fn service_name(reader: &mut Reader<'_>, attributes: &[(String, String)]) -> String {
    let among = || {
        let mut attributes = attributes.iter().rev();
        let (_, service) = attributes.find(|(name, _)| name == "service.name")?;
        Some(service.clone())
    };
    let name = given_text(reader, SERVICE_NAME).or_else(among);
    name.unwrap_or_else(|| "sluice".to_owned())
}

fn read_attributes(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let text = reader.text(RESOURCE);
    let read: Option<Vec<_>> = pairs(&text).collect();
    read.unwrap_or_else(|| {
        reader.fault(RESOURCE, "is not name=value, parted by commas");
        Vec::new()
    })
}
