//! The connector's one HTTP client.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode};

const AGENT: &str = concat!("sluice/", env!("CARGO_PKG_VERSION"));
/// Redirections in a row, before it is a loop.
const MOST_REDIRECTS: usize = 10;

/// What the client is made of.
#[derive(Clone, Debug)]
pub(super) struct ClientSettings {
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) follow_redirects: bool,
    pub(super) tls: rustls::ClientConfig,
}

impl ClientSettings {
    pub(super) fn build(self) -> Result<Client, String> {
        let redirects = if self.follow_redirects {
            Policy::custom(|attempt| {
                if is_harmless(&attempt) {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            })
        } else {
            Policy::none()
        };
        Client::builder()
            .user_agent(AGENT)
            .tls_backend_preconfigured(self.tls)
            .connect_timeout(self.connect_timeout)
            .timeout(self.request_timeout)
            .redirect(redirects)
            // An address that a redirection leads to is not told the last one.
            .referer(false)
            // The environment is none of a sink's settings.
            .no_proxy()
            .build()
            .map_err(|error| told(&error))
    }
}

/// Whether the request goes on as it is, and to whom it was meant for: other
/// statuses turn it into a GET without a body, which would count as delivered.
fn is_harmless(attempt: &Attempt<'_>) -> bool {
    let keeps = [
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    let (first, next) = (attempt.previous().first(), attempt.url());
    let same_host = first.is_some_and(|first| {
        first.host() == next.host() && (first.scheme() == next.scheme() || next.scheme() == "https")
    });
    keeps.contains(&attempt.status()) && same_host && attempt.previous().len() <= MOST_REDIRECTS
}

/// The beginning of a body. One that goes on beyond the limit is left, and its
/// connection with it.
pub(super) async fn read_up_to(
    mut answer: Response,
    limit: usize,
) -> Result<Bytes, reqwest::Error> {
    let mut body = BytesMut::new();
    while body.len() < limit {
        match answer.chunk().await? {
            Some(part) => body.extend_from_slice(&part[..part.len().min(limit - body.len())]),
            None => break,
        }
    }
    Ok(body.freeze())
}

/// An error with its causes, but without the address: that may hold a secret.
pub(super) fn told(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some causes repeat those below them.
        if !causes
            .iter()
            .any(|told: &String| told.contains(&cause_text))
        {
            causes.push(cause_text);
        }
        next = cause.source();
    }
    match causes.is_empty() {
        true if error.is_timeout() => "timed out".to_owned(),
        true => "the request failed".to_owned(),
        false => causes.join(": "),
    }
}
