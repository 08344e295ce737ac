//! Asks a worker's REST, from another process.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Map, Value};

use crate::config::env::{self, Environment};
use crate::config::listeners::Listener;
use crate::config::secrets::address;
use crate::http_client::{self, told};

/// A worker answers from memory: what takes longer does not come.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a worker is that was told nothing else.
const DEFAULT_URL: &str = "http://127.0.0.1:8083";

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

/// Where the worker is that shares this environment, as a container's health
/// check does, and listens where `listeners` says there.
pub(super) fn url_of(environment: &Environment) -> String {
    let worker = env::read(environment).worker;
    let first = worker
        .get("listeners")
        .and_then(|it| it.split(',').next())
        .map(|it| Listener::parse(it.trim()));
    match first {
        Some(Ok(listener)) => listener.url_on_this_machine(),
        // What is wrong with it is the worker's to tell.
        Some(Err(_)) | None => DEFAULT_URL.to_owned(),
    }
}

/// What `GET /connectors?expand=status` says.
pub(super) fn statuses(url: &str) -> Result<Statuses, AskError> {
    ask(url, "/connectors?expand=status", async |answer| {
        let answer = answer.error_for_status().map_err(|error| told(&error))?;
        json(answer, "status").await
    })
}

/// Whether the worker is ready, and in what words it says so.
pub(super) fn readiness(url: &str) -> Result<(bool, String), AskError> {
    ask(url, "/health/ready", async |answer| {
        let code = answer.status();
        if code != StatusCode::OK && code != StatusCode::SERVICE_UNAVAILABLE {
            answer.error_for_status().map_err(|error| told(&error))?;
            return Err(format!("{code} is no answer of a worker"));
        }
        let said: Value = json(answer, "health").await?;
        let message = said["message"].as_str().unwrap_or_default();
        Ok((code == StatusCode::OK, message.to_owned()))
    })
}

fn ask<T>(
    url: &str,
    path: &str,
    read: impl AsyncFnOnce(Response) -> Result<T, String>,
) -> Result<T, AskError> {
    let asked = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let address = format!("{}{path}", url.trim_end_matches('/'));
            let answer = client()?.get(address).send().await;
            read(answer.map_err(|error| told(&error))?).await
        })
    };
    asked().map_err(|cause| AskError {
        url: address(url).into_owned(),
        cause,
    })
}

async fn json<T: serde::de::DeserializeOwned>(answer: Response, what: &str) -> Result<T, String> {
    let body = answer.bytes().await.map_err(|error| told(&error))?;
    serde_json::from_slice(&body).map_err(|error| format!("there is no {what} in it: {error}"))
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
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// The address of a server that gives its one caller this answer.
    fn answering(code: u16, body: &'static str) -> String {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut caller, _) = server.accept().unwrap();
            let mut request = [0; 4096];
            let length = caller.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /health/ready "));
            let length = body.len();
            write!(
                caller,
                "HTTP/1.1 {code} x\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        });
        url
    }

    #[test]
    fn a_worker_is_ready_or_says_why_not() {
        let ready = readiness(&answering(200, r#"{"message":"up"}"#)).unwrap();
        assert_eq!(ready, (true, "up".to_owned()));
        let coming = readiness(&answering(503, r#"{"message":"coming"}"#)).unwrap();
        assert_eq!(coming, (false, "coming".to_owned()));
        for (code, body, cause) in [
            (404, "{}", "404"),
            (204, "{}", "204"),
            (200, "up", "there is no health in it"),
        ] {
            let error = readiness(&answering(code, body)).unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
    }

    #[test]
    fn a_worker_is_looked_for_where_the_environment_has_it_listen() {
        for (listeners, url) in [
            ("http://:9000", "http://127.0.0.1:9000"),
            ("http://0.0.0.0:1, http://other:2", "http://127.0.0.1:1"),
            ("http://[::]:7", "http://[::1]:7"),
            ("http://worker:7", "http://worker:7"),
            ("http://[fe80::1]:7", "http://[fe80::1]:7"),
            ("nonsense", DEFAULT_URL),
        ] {
            for name in ["SLUICE_LISTENERS", "CONNECT_LISTENERS"] {
                let variables = [(name.to_owned(), listeners.to_owned())];
                let environment = Environment::of(variables.into());
                assert_eq!(url_of(&environment), url, "{name}={listeners}");
            }
        }
        assert_eq!(url_of(&Environment::default()), DEFAULT_URL);
    }

    #[test]
    fn a_worker_that_is_not_there_is_told_by_its_address() {
        // Bound and closed again: nobody listens there.
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        drop(socket);
        let error = statuses(&url).unwrap_err().to_string();
        assert!(error.contains(&url), "{error}");
        assert!(error.contains("refused"), "{error}");
        let error = statuses("nonsense").unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }
}
