//! A collector that is spoken to by gRPC. Messages come encoded, as for HTTP.

use std::error::Error;

use bytes::{Buf, BufMut, Bytes};
use http::HeaderMap;
use http::uri::PathAndQuery;
use parking_lot::Mutex;
use reqwest::Url;
use tonic::client::Grpc as Client;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use super::failure::{Again, Failure};
use super::refused::refused;
use super::tls::{self, Pems};
use crate::config::otlp::OtlpConfig;
use crate::http_client::causes;

/// See the module.
#[derive(Debug)]
pub(super) struct Grpc {
    endpoint: Endpoint,
    channel: Mutex<Channel>,
    path: PathAndQuery,
    metadata: MetadataMap,
    is_packed: bool,
}

impl Grpc {
    /// Needs a runtime. Connects with the first export.
    pub(super) fn new(
        config: &OtlpConfig,
        address: &Url,
        headers: HeaderMap,
        path: &'static str,
    ) -> Result<Self, String> {
        let built = |error: tonic::transport::Error| causes(&error);
        let endpoint = Endpoint::from_shared(address.as_str().to_owned()).map_err(built)?;
        let endpoint = endpoint.user_agent(super::collector::USER_AGENT);
        let mut endpoint = endpoint.map_err(built)?.connect_timeout(config.timeout);
        let pems = Pems::read(config)?;
        if tls::is_wanted(address) {
            endpoint = endpoint.tls_config(pems.for_grpc()).map_err(built)?;
        }
        Ok(Self {
            channel: Mutex::new(endpoint.connect_lazy()),
            endpoint,
            path: PathAndQuery::from_static(path),
            metadata: MetadataMap::from_headers(headers),
            is_packed: config.is_packed,
        })
    }

    /// How much of it the collector refused.
    pub(super) async fn send(&self, body: Bytes) -> Result<u64, Failure> {
        let mut client = Client::new(self.channel.lock().clone());
        if self.is_packed {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client.ready().await.map_err(|error| Failure {
            message: causes(&error),
            again: Again::Later,
        })?;
        let mut request = Request::new(body);
        *request.metadata_mut() = self.metadata.clone();
        let sent = client.unary(request, self.path.clone(), Encoded).await;
        sent.map(Response::into_inner)
            .map_err(|status| failure(&status))
    }

    /// Makes another connection with the next export. One whose other side is
    /// gone without a word would take exports for many minutes.
    pub(super) fn reconnect(&self) {
        *self.channel.lock() = self.endpoint.connect_lazy();
    }
}

fn failure(status: &Status) -> Failure {
    let message = match status.source() {
        Some(cause) => causes(cause),
        None => format!("the answer is {:?}", status.code()),
    };
    // OTLP's list; without a word of when, what is exhausted stays so.
    let again = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => Again::Later,
        // The connection broke.
        Code::Unknown | Code::Internal if status.source().is_some() => Again::Later,
        _ => Again::Never,
    };
    Failure { message, again }
}

/// Protobufs that are encoded already; of an answer, how much was refused.
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = u64;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Encoded {
    type Item = u64;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<u64>, Status> {
        Ok(Some(refused(from.copy_to_bytes(from.remaining()))))
    }
}
