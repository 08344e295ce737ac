//! The connector's one HTTP client.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode};

use crate::http_client::told;

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
