//! Exporters of OpenTelemetry's signals: gRPC, or HTTP with protobufs. They
//! speak to the collector in the runtime that they are built in.

use std::collections::HashMap;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use opentelemetry::KeyValue;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use reqwest::Client;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::config::otlp::{OtlpConfig, Protocol};
use crate::http_client::{public_roots, tls, told};

/// Whether exports fail: the log is to tell when that changes, and no more.
#[derive(Debug, Default)]
pub(super) struct Failing(AtomicBool);

impl Failing {
    /// Takes what an export came to; whether that is another end than before.
    pub(super) fn changes(&self, exported: &OTelSdkResult) -> bool {
        self.0.swap(exported.is_err(), Ordering::AcqRel) != exported.is_err()
    }
}

/// Needs a runtime.
pub(super) fn spans(config: &OtlpConfig) -> Result<SpanExporter, String> {
    let builder = SpanExporter::builder();
    let built = match config.protocol {
        Protocol::Grpc => grpc(builder.with_tonic(), config)?.build(),
        Protocol::HttpProtobuf => over_http(builder.with_http(), config)?.build(),
    };
    built.map_err(|error| error.to_string())
}

/// Needs a runtime.
pub(super) fn metrics(
    config: &OtlpConfig,
    temporality: Temporality,
) -> Result<MetricExporter, String> {
    let builder = MetricExporter::builder().with_temporality(temporality);
    let built = match config.protocol {
        Protocol::Grpc => grpc(builder.with_tonic(), config)?.build(),
        Protocol::HttpProtobuf => over_http(builder.with_http(), config)?.build(),
    };
    built.map_err(|error| error.to_string())
}

/// Workers of one name count apart, also behind a restart.
static INSTANCE: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// Who it is that tells.
pub(super) fn resource(config: &OtlpConfig) -> Resource {
    let attributes = config.attributes.iter();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder()
        .with_attribute(KeyValue::new("service.name", config.service_name.clone()))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("service.instance.id", INSTANCE.clone()))
        .with_attributes(attributes)
        .build()
}

fn authorities(config: &OtlpConfig) -> Result<Option<Vec<u8>>, String> {
    let Some(path) = &config.certificate else {
        return Ok(None);
    };
    let read = fs::read(path);
    let read = read.map_err(|error| format!("{} cannot be read: {error}", path.display()));
    read.map(Some)
}

fn grpc<B: WithExportConfig + WithTonicConfig>(
    builder: B,
    config: &OtlpConfig,
) -> Result<B, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} names no header"))?;
        let mut value = HeaderValue::try_from(value.reveal())
            .map_err(|_| format!("what is set for header {name} cannot be a header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let builder = builder
        .with_endpoint(config.endpoint.as_str())
        .with_timeout(config.timeout)
        .with_metadata(MetadataMap::from_headers(headers));
    if !config.endpoint.starts_with("https:") {
        return Ok(builder);
    }
    let tls = ClientTlsConfig::new();
    Ok(builder.with_tls_config(match authorities(config)? {
        Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
        None => tls.with_enabled_roots(),
    }))
}

fn over_http<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    config: &OtlpConfig,
) -> Result<B, String> {
    let roots = match authorities(config)? {
        Some(pem) => roots(&pem)?,
        None => public_roots(),
    };
    let tls = tls(roots).map_err(|error| error.to_string())?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .timeout(config.timeout)
        .build()
        .map_err(|error| told(&error))?;
    let headers = config.headers.iter();
    let headers: HashMap<String, String> = headers
        .map(|(name, value)| (name.clone(), value.reveal().to_owned()))
        .collect();
    Ok(builder
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(config.endpoint.as_str())
        .with_timeout(config.timeout)
        .with_headers(headers)
        .with_http_client(Sender {
            client,
            runtime: Handle::current(),
        }))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Sends in the runtime: exports come from threads without one.
#[derive(Debug)]
struct Sender {
    client: Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, request) = (self.client.clone(), request.try_into()?);
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request).await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, answer.bytes().await?))
        });
        let (status, headers, body) = sent.await?.map_err(|error| told(&error))?;
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
