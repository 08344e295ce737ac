//! Asks a worker's REST, from another process.

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::TcpStream;

use crate::config::listeners::Listener;

/// A worker answers from memory: what takes longer does not come.
const TIMEOUT: Duration = Duration::from_secs(10);
const PATH: &str = "/connectors?expand=status";

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
    let failed = |cause: String| AskError {
        url: url.to_owned(),
        cause,
    };
    let address = Listener::parse(url).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let body = runtime.block_on(async {
        match tokio::time::timeout(TIMEOUT, get(&address)).await {
            Ok(body) => body,
            Err(_) => Err("nothing came in time".to_owned()),
        }
    });
    let body = body.map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| failed(format!("no status in it: {error}")))
}

async fn get(address: &Listener) -> Result<Bytes, String> {
    let host = address.host.as_deref().unwrap_or("127.0.0.1");
    let stream = TcpStream::connect((host, address.port)).await;
    let stream = stream.map_err(|error| error.to_string())?;
    exchange(stream, host)
        .await
        .map_err(|error| error.to_string())?
}

async fn exchange(stream: TcpStream, host: &str) -> hyper::Result<Result<Bytes, String>> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(PATH).header("host", host);
    let request = match request.body(Empty::<Bytes>::new()) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok(match status {
        StatusCode::OK => Ok(body),
        _ => Err(format!("it answers {status}")),
    })
}
