//! Where a signal goes: sent, tried again, and given up in time.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_sdk::error::OTelSdkError;
use reqwest::Url;
use sluice_actors::retry::RetryPolicy;
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::failure::{Again, Failure};
use super::grpc::Grpc;
use super::http::Http;
use crate::config::otlp::{OtlpConfig, Protocol};

pub(super) const USER_AGENT: &str = concat!("sluice/", env!("CARGO_PKG_VERSION"));

const LONGEST_REST: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum Way {
    Grpc(Box<Grpc>),
    Http(Http),
}

/// See the module. It speaks in the runtime that it was made in: exports come
/// from threads without one.
#[derive(Debug)]
pub(super) struct Collector {
    runtime: Handle,
    delivery: Arc<Delivery>,
}

#[derive(Debug)]
struct Delivery {
    way: Way,
    timeout: Duration,
    closing: CancellationToken,
}

impl Collector {
    /// Needs a runtime. `service` is the signal's path in gRPC.
    pub(super) fn new(config: &OtlpConfig, service: &'static str) -> Result<Self, String> {
        let address = Url::parse(&config.endpoint).map_err(|error| error.to_string())?;
        let headers = headers(config)?;
        let way = match config.protocol {
            Protocol::Grpc => Way::Grpc(Box::new(Grpc::new(config, &address, headers, service)?)),
            Protocol::HttpProtobuf => Way::Http(Http::new(config, address, headers)?),
        };
        Ok(Self {
            runtime: Handle::current(),
            delivery: Arc::new(Delivery {
                way,
                timeout: config.timeout,
                closing: CancellationToken::new(),
            }),
        })
    }

    /// Cancelled, nothing is tried again any more.
    pub(super) fn closing(&self) -> CancellationToken {
        self.delivery.closing.clone()
    }

    /// How many of its spans or data points the collector refused.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<u64, OTelSdkError> {
        let delivery = Arc::clone(&self.delivery);
        let sent = self
            .runtime
            .spawn(async move { delivery.send(message).await });
        // It is cut off when the worker ends.
        let sent = sent.await.unwrap_or_else(|error| Err(error.to_string()));
        sent.map_err(OTelSdkError::InternalFailure)
    }
}

impl Delivery {
    async fn send(&self, message: Vec<u8>) -> Result<u64, String> {
        let body = self.packed(message).map_err(|error| error.to_string())?;
        let began = Instant::now();
        let mut failures = 0;
        loop {
            let sent = timeout_at(began + self.timeout, self.send_once(body.clone())).await;
            let failure = match sent {
                Ok(Ok(refused)) => return Ok(refused),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(self.gone_silent()),
            };
            failures += 1;
            match self.next_try(&failure, failures, began) {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.closing.cancelled() => return Err(failure.message),
                },
                None => return Err(failure.message),
            }
        }
    }

    fn packed(&self, message: Vec<u8>) -> io::Result<Bytes> {
        match &self.way {
            Way::Grpc(_) => Ok(message.into()),
            Way::Http(http) => http.packed(message),
        }
    }

    async fn send_once(&self, body: Bytes) -> Result<u64, Failure> {
        match &self.way {
            Way::Grpc(grpc) => grpc.send(body).await,
            Way::Http(http) => http.send(body).await,
        }
    }

    fn gone_silent(&self) -> String {
        if let Way::Grpc(grpc) = &self.way {
            grpc.reconnect();
        }
        format!("no answer within {:?}", self.timeout)
    }

    /// `None`: it is no use any more.
    fn next_try(&self, failure: &Failure, failures: u32, began: Instant) -> Option<Instant> {
        let policy = RetryPolicy {
            timeout: Some(self.timeout),
            max_delay: LONGEST_REST,
        };
        let rest = match failure.again {
            Again::Never => return None,
            Again::Later => None,
            Again::After(rest) => Some(rest),
        };
        let at = Instant::now() + policy.rest(rest, failures, fastrand::f64());
        (at < began + self.timeout).then_some(at)
    }
}

fn headers(config: &OtlpConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} names no header"))?;
        let mut value = HeaderValue::try_from(value.reveal())
            .map_err(|_| format!("what is set for header {name} cannot be a header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
