//! Collectors by the official protobufs, which keep what comes.

use std::io::Read as _;
use std::sync::Arc;

use flate2::read::GzDecoder;
use http::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use parking_lot::Mutex;
use prost::Message as _;
use sluice_test_support::receiver::{Receiver, Reply};
use sluice_test_support::tls::Certificates;
use tokio::net::TcpListener;
use tonic::codec::CompressionEncoding;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

use super::Protocol;

/// One export: its headers, and what it held.
pub(super) type Export = (HeaderMap, ExportTraceServiceRequest);

#[derive(Clone, Default)]
pub(super) struct Inbox(Arc<Mutex<Vec<Export>>>);

#[tonic::async_trait]
impl TraceService for Inbox {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.0.lock().push((metadata.into_headers(), message));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Asks clients for a certificate of its own authority.
pub(super) enum Secured {
    Grpc(String, Inbox),
    Http(Receiver),
}

impl Secured {
    pub(super) async fn start(protocol: Protocol, certificates: &Certificates) -> Self {
        match protocol {
            Protocol::Grpc => grpc(certificates).await,
            Protocol::HttpProtobuf => {
                let tls = certificates.server_config().unwrap();
                Self::Http(Receiver::start_tls(tls, |_| Reply::ok()).await.unwrap())
            }
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Grpc(url, _) => url.clone(),
            Self::Http(receiver) => receiver.url("/v1/traces"),
        }
    }

    pub(super) fn exports(&self) -> Vec<Export> {
        match self {
            Self::Grpc(_, inbox) => inbox.0.lock().clone(),
            Self::Http(receiver) => {
                let arrivals = receiver.arrivals();
                let exports = arrivals.iter();
                exports
                    .map(|it| (it.headers.clone(), decode(&it.headers, &it.body)))
                    .collect()
            }
        }
    }
}

fn decode(headers: &HeaderMap, body: &[u8]) -> ExportTraceServiceRequest {
    if headers.get("content-encoding").is_none() {
        return ExportTraceServiceRequest::decode(body).unwrap();
    }
    let mut plain = Vec::new();
    GzDecoder::new(body).read_to_end(&mut plain).unwrap();
    ExportTraceServiceRequest::decode(&plain[..]).unwrap()
}

async fn grpc(certificates: &Certificates) -> Secured {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let [authority, server] =
        [&certificates.ca, &certificates.server].map(|path| std::fs::read(path).unwrap());
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server, &server))
        .client_ca_root(Certificate::from_pem(authority));
    let inbox = Inbox::default();
    let service = TraceServiceServer::new(inbox.clone());
    let serving = Server::builder()
        .tls_config(tls)
        .unwrap()
        .add_service(service.accept_compressed(CompressionEncoding::Gzip))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(serving);
    Secured::Grpc(url, inbox)
}
