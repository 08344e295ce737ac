//! How spans get to the collector: gRPC, or HTTP with protobufs.

use std::collections::HashMap;
use std::fs;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    SpanExporter, WithExportConfig, WithHttpConfig as _, WithTonicConfig as _,
};
use reqwest::Client;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::runtime::Handle;

use crate::config::traces::{Protocol, TraceConfig};
use crate::http_client::{public_roots, tls, told};

/// Needs a runtime.
pub(super) fn build(config: &TraceConfig) -> Result<SpanExporter, String> {
    let authorities = match &config.certificate {
        Some(path) => {
            let read = fs::read(path);
            let read = read.map_err(|error| format!("{} cannot be read: {error}", path.display()));
            Some(read?)
        }
        None => None,
    };
    match config.protocol {
        Protocol::Grpc => grpc(config, authorities),
        Protocol::HttpProtobuf => http(config, authorities),
    }
}

fn grpc(config: &TraceConfig, authorities: Option<Vec<u8>>) -> Result<SpanExporter, String> {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &config.headers {
        let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} names no header"))?;
        let mut value = HeaderValue::try_from(value.reveal())
            .map_err(|_| format!("what is set for header {name} cannot be a header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let mut builder = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(config.endpoint.as_str())
        .with_timeout(config.timeout)
        .with_metadata(MetadataMap::from_headers(headers));
    if config.endpoint.starts_with("https:") {
        let tls = ClientTlsConfig::new();
        builder = builder.with_tls_config(match authorities {
            Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            None => tls.with_enabled_roots(),
        });
    }
    builder.build().map_err(|error| error.to_string())
}

fn http(config: &TraceConfig, authorities: Option<Vec<u8>>) -> Result<SpanExporter, String> {
    let roots = match authorities {
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
    SpanExporter::builder()
        .with_http()
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(config.endpoint.as_str())
        .with_timeout(config.timeout)
        .with_headers(headers)
        .with_http_client(Sender {
            client,
            runtime: Handle::current(),
        })
        .build()
        .map_err(|error| error.to_string())
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Sends in the runtime: spans are exported from a thread without one.
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
