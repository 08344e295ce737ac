//! Asks a worker's REST, from another process.

use std::time::Duration;

use reqwest::Client;
use serde_json::{Map, Value};

use crate::config::secrets::address;
use crate::http_client::{self, told};

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
        url: address(url).into_owned(),
        cause,
    })
}

async fn get(url: &str) -> Result<Vec<u8>, String> {
    let address = format!("{}/connectors?expand=status", url.trim_end_matches('/'));
    let answer = client()?.get(address).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let answer = answer.map_err(|error| told(&error))?;
    let body = answer.bytes().await;
    body.map(|body| body.to_vec()).map_err(|error| told(&error))
}

/// A worker speaks plain HTTP; a proxy before it may not.
fn client() -> Result<Client, String> {
    let tls = http_client::tls(http_client::public_roots()).map_err(|error| error.to_string())?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls.with_no_client_auth())
        .no_proxy()
        .timeout(TIMEOUT);
    client.build().map_err(|error| told(&error))
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
