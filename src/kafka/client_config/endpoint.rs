//! An endpoint of OAuth 2.0 that hands out tokens.

use std::time::Duration;

use reqwest::redirect::Policy;
use serde_json::Value;

use super::install_crypto_provider;
use super::token::{Token, TokenError, claims_of, millis, now};
use crate::http_client::client_credentials::{ClientCredentials, Denial, Grant};
use crate::http_client::{origin, told};

/// What holds for a token that does not say when it ends.
const USUAL_LIFETIME: Duration = Duration::from_secs(300);

/// Asked by client credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) credentials: ClientCredentials,
    pub(super) connect_timeout: Duration,
    pub(super) read_timeout: Duration,
}

impl Endpoint {
    pub(super) async fn fetch(&self) -> Result<Token, TokenError> {
        // A client a fetch: its connections belong to the runtime that asks,
        // and tokens are fetched minutes apart.
        let client = self.client().map_err(|error| self.later(told(&error)))?;
        match self.credentials.fetch(&client).await {
            Ok(grant) => Ok(token_of(grant, &self.credentials.id, now())),
            Err(Denial::NoAnswer(cause)) => Err(self.later(cause)),
            Err(Denial::Refused(status, body)) => {
                let cause = refusal_of(status.as_u16(), &body);
                match status.as_u16() {
                    400 | 401 | 403 => {
                        let url = self.shown_url();
                        Err(TokenError::Refused { url, cause })
                    }
                    _ => Err(self.later(cause)),
                }
            }
        }
    }

    fn client(&self) -> reqwest::Result<reqwest::Client> {
        install_crypto_provider();
        reqwest::Client::builder()
            .connect_timeout(self.connect_timeout)
            .timeout(self.connect_timeout + self.read_timeout)
            // The secret goes where it was meant to go, and nowhere else.
            .redirect(Policy::none())
            .build()
    }

    pub(super) fn later(&self, cause: String) -> TokenError {
        let url = self.shown_url();
        TokenError::Later { url, cause }
    }

    fn shown_url(&self) -> String {
        origin(&self.credentials.url)
    }
}

/// What the endpoint calls the error. Its description may repeat what was sent.
fn refusal_of(status: u16, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    match answer["error"].as_str().filter(|it| it.len() <= 64) {
        Some(error) => format!("it answered {status}, {error}"),
        None => format!("it answered {status}"),
    }
}

fn token_of(grant: Grant, client_id: &str, now: Duration) -> Token {
    let claims = claims_of(grant.token.reveal());
    let principal = claims["sub"].as_str().unwrap_or(client_id).to_owned();
    let end = claims["exp"].as_u64().map(Duration::from_secs);
    let expires = grant
        .lasts
        .and_then(|lasts| now.checked_add(lasts))
        .or(end)
        .unwrap_or(now + USUAL_LIFETIME);
    Token {
        text: grant.token,
        principal,
        expires_ms: millis(expires),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::config::definition::Secret;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn jwt(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_ends_as_the_endpoint_says_or_as_it_says_itself() {
        let jwt = jwt(r#"{"sub":"alice","exp":1700000060}"#);
        for (token, lasts, principal, seconds) in [
            (jwt.as_str(), Some(30), "alice", 30),
            (jwt.as_str(), None, "alice", 60),
            ("opaque", None, "client", 300),
        ] {
            let grant = Grant {
                token: Secret::new(token),
                lasts: lasts.map(Duration::from_secs),
            };
            let token = token_of(grant, "client", NOW);
            assert_eq!(token.principal, principal);
            assert_eq!(token.expires_ms, millis(NOW) + seconds * 1000, "{token:?}");
        }
    }

    #[test]
    fn a_refusal_is_told_without_its_description() {
        for (body, told) in [
            (
                r#"{"error":"invalid_client","error_description":"hush"}"#,
                "it answered 401, invalid_client",
            ),
            ("hush", "it answered 401"),
        ] {
            assert_eq!(refusal_of(401, body.as_bytes()), told);
        }
    }
}
