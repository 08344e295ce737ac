//! The connector's one HTTP client.

use std::time::Duration;

use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};

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
    let stays = first.is_some_and(|first| is_same_server(first, next));
    keeps.contains(&attempt.status()) && stays && attempt.previous().len() <= MOST_REDIRECTS
}

/// Another port is another server, which is not to get the credentials; but
/// one may send its callers from http to https, each at its usual port.
fn is_same_server(first: &Url, next: &Url) -> bool {
    let moves_to_tls = || {
        let ports = [first, next].map(Url::port_or_known_default);
        let schemes = [first, next].map(Url::scheme);
        schemes == ["http", "https"] && ports == [Some(80), Some(443)]
    };
    first.origin() == next.origin() || (first.host() == next.host() && moves_to_tls())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_leads_to_the_same_port_or_from_http_to_https() {
        for (first, next, expected) in [
            ("http://h/a", "http://h/b", true),
            ("http://h/a", "http://h:80/b", true),
            ("https://h:8443/a", "https://h:8443/b", true),
            ("http://h/a", "https://h/b", true),
            ("http://h:80/a", "https://h:443/b", true),
            ("http://h/a", "http://h:8080/b", false),
            ("https://h/a", "https://h:8443/b", false),
            ("http://h:8080/a", "http://h/b", false),
            ("http://h/a", "https://h:8443/b", false),
            ("http://h:8080/a", "https://h/b", false),
            ("http://h:8080/a", "https://h:8080/b", false),
            ("https://h/a", "http://h/b", false),
            ("http://h/a", "http://other/b", false),
            ("http://h/a", "https://other/b", false),
        ] {
            let [from, to] = [first, next].map(|text| Url::parse(text).unwrap());
            assert_eq!(is_same_server(&from, &to), expected, "{first} to {next}");
        }
    }
}
