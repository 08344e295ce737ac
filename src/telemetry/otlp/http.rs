//! A collector that is spoken to by HTTP.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::time::Duration;

use super::failure::{Again, Failure};
use super::refused::refused;
use super::tls::Pems;
use crate::config::otlp::OtlpConfig;
use crate::http_client::{read_up_to, told};

const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// An answer is read to its end, so that its connection serves the next export.
const LONGEST_ANSWER: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
    is_packed: bool,
}

impl Http {
    pub(super) fn new(
        config: &OtlpConfig,
        endpoint: Url,
        mut headers: HeaderMap,
    ) -> Result<Self, String> {
        headers.insert(CONTENT_TYPE, PROTOBUF);
        if config.is_packed {
            headers.insert(CONTENT_ENCODING, GZIP);
        }
        let client = Client::builder()
            .tls_backend_preconfigured(Pems::read(config)?.for_http()?)
            .user_agent(super::collector::USER_AGENT)
            .connect_timeout(config.timeout)
            // A connection that does not answer is left with its export.
            .http1_only()
            .no_proxy()
            // Headers may be secrets, and are for nobody else.
            .redirect(Policy::none())
            .build()
            .map_err(|error| told(&error))?;
        Ok(Self {
            client,
            endpoint,
            headers,
            is_packed: config.is_packed,
        })
    }

    /// The body as it is sent.
    pub(super) fn packed(&self, body: Vec<u8>) -> io::Result<Bytes> {
        if !self.is_packed {
            return Ok(body.into());
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&body)?;
        packed.finish().map(Bytes::from)
    }

    /// How much of it the collector refused.
    pub(super) async fn send(&self, body: Bytes) -> Result<u64, Failure> {
        let request = self.client.post(self.endpoint.clone());
        let request = request.headers(self.headers.clone()).body(body);
        let answer = request.send().await.map_err(|error| Failure {
            message: told(&error),
            again: Again::Later,
        })?;
        let failure = failure(&answer);
        // Its status says that it was taken, whether the rest comes or not.
        let body = read_up_to(answer, LONGEST_ANSWER).await;
        failure.map_or_else(|| Ok(refused(body.unwrap_or_default())), Err)
    }
}

fn failure(answer: &Response) -> Option<Failure> {
    let status = answer.status();
    if status.is_success() {
        return None;
    }
    let after = answer.headers().get(RETRY_AFTER);
    let after = after.and_then(|it| it.to_str().ok()?.trim().parse().ok());
    let again = match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => after.map_or(Again::Later, |seconds| {
            Again::After(Duration::from_secs(seconds))
        }),
        _ => Again::Never,
    };
    Some(Failure {
        message: format!("the answer is {status}"),
        again,
    })
}
