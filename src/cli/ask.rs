//! Asks a worker's REST, from another process.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Map, Value};

/// A worker answers from memory: what takes longer does not come.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Statuses by connector.
pub(super) type Statuses = Map<String, Value>;

/// The worker was not reached, or what answered is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "the worker at {url} does not answer: {cause}; give its address with --url, as its log has it"
)]
pub(super) struct AskError {
    url: String,
    cause: String,
}

/// What `GET /connectors?expand=status` says.
pub(super) fn statuses(url: &str) -> Result<Statuses, AskError> {
    let asked = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let body = runtime.block_on(get(url))?;
        serde_json::from_slice(&body).map_err(|error| format!("there is no status in it: {error}"))
    };
    asked().map_err(|cause| AskError {
        url: url.to_owned(),
        cause,
    })
}

async fn get(url: &str) -> Result<Vec<u8>, String> {
    let address = format!("{}/connectors?expand=status", url.trim_end_matches('/'));
    let answer = client()?.get(address).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let answer = answer.map_err(|error| told(&error.without_url()))?;
    let body = answer.bytes().await;
    body.map(|body| body.to_vec())
        .map_err(|error| told(&error.without_url()))
}

/// A worker speaks plain HTTP; a proxy before it may not.
fn client() -> Result<Client, String> {
    let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .timeout(TIMEOUT);
    client.build().map_err(|error| told(&error))
}

/// An error with its innermost cause, which says what to do about it.
fn told(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_not_there_is_told_by_its_address() {
        // Bound and closed again: nobody listens there.
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        drop(socket);
        let error = statuses(&url).unwrap_err().to_string();
        assert!(error.contains(&url), "{error}");
        assert!(error.contains("refused"), "{error}");
        let error = statuses("nonsense").unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }
}
