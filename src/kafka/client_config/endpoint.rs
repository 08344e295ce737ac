//! An endpoint of OAuth 2.0 that hands out tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde_json::Value;

use super::install_crypto_provider;
use super::token::{Token, TokenError, claims_of, millis, now};
use crate::config::definition::Secret;
use crate::http_client::innermost_cause;

/// What holds for a token that does not say when it ends.
const USUAL_LIFETIME: Duration = Duration::from_secs(300);
const MAX_ANSWER: usize = 1024 * 1024;

/// Asked by client credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) url: reqwest::Url,
    pub(super) credentials: Credentials,
    pub(super) connect_timeout: Duration,
    pub(super) read_timeout: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) client_id: String,
    pub(super) client_secret: Secret,
    pub(super) scope: Option<String>,
}

impl Endpoint {
    pub(super) async fn fetch(&self) -> Result<Token, TokenError> {
        // A client a fetch: its connections belong to the runtime that asks,
        // and tokens are fetched minutes apart.
        let answer = self
            .client()
            .map_err(|error| self.later(innermost_cause(&error)))?
            .post(self.url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(AUTHORIZATION, self.credentials.authorization())
            .body(self.credentials.form())
            .send()
            .await
            .map_err(|error| self.later(innermost_cause(&error)))?;
        let status = answer.status();
        let body = self.body(answer).await?;
        if status.is_success() {
            return token_of(&body, &self.credentials.client_id, now())
                .map_err(|cause| self.later(cause.to_owned()));
        }
        let cause = refusal_of(status.as_u16(), &body);
        if matches!(status.as_u16(), 400 | 401 | 403) {
            let url = self.shown_url();
            return Err(TokenError::Refused { url, cause });
        }
        Err(self.later(cause))
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

    async fn body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, TokenError> {
        let mut body = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(None) => return Ok(body),
                Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => return Err(self.later("its answer is too long".to_owned())),
                Err(error) => return Err(self.later(innermost_cause(&error))),
            }
        }
    }

    pub(super) fn later(&self, cause: String) -> TokenError {
        let url = self.shown_url();
        TokenError::Later { url, cause }
    }

    /// Without the query, which may hold anything.
    fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.to_string()
    }
}

impl Credentials {
    /// RFC 6749 2.3.1: both parts are encoded before they are joined.
    fn authorization(&self) -> String {
        let (id, secret) = (
            encoded(&self.client_id),
            encoded(self.client_secret.reveal()),
        );
        format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
    }

    fn form(&self) -> String {
        let grant = "grant_type=client_credentials";
        match &self.scope {
            None => grant.to_owned(),
            Some(scope) => format!("{grant}&scope={}", encoded(scope)),
        }
    }
}

/// As it goes into a form.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// What the endpoint calls the error. Its description may repeat what was sent.
fn refusal_of(status: u16, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    match answer["error"].as_str().filter(|it| it.len() <= 64) {
        Some(error) => format!("it answered {status}, {error}"),
        None => format!("it answered {status}"),
    }
}

fn token_of(body: &[u8], client_id: &str, now: Duration) -> Result<Token, &'static str> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "its answer is not JSON")?;
    let text = answer["access_token"]
        .as_str()
        .filter(|it| !it.is_empty())
        .ok_or("its answer has no access_token")?;
    let claims = claims_of(text);
    let principal = claims["sub"].as_str().unwrap_or(client_id).to_owned();
    let lifetime = answer["expires_in"].as_u64().map(Duration::from_secs);
    let end = claims["exp"].as_u64().map(Duration::from_secs);
    let expires = lifetime
        .map(|lifetime| now + lifetime)
        .or(end)
        .unwrap_or(now + USUAL_LIFETIME);
    Ok(Token {
        text: Secret::new(text),
        principal,
        expires_ms: millis(expires),
    })
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn jwt(claims: &str) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    fn answered(body: &str) -> Result<Token, &'static str> {
        token_of(body.as_bytes(), "client", NOW)
    }

    #[test]
    fn a_token_ends_as_the_endpoint_says_or_as_it_says_itself() {
        let jwt = jwt(r#"{"sub":"alice","exp":1700000060}"#);
        for (body, principal, seconds) in [
            (
                format!(r#"{{"access_token":"{jwt}","expires_in":30}}"#),
                "alice",
                30,
            ),
            (format!(r#"{{"access_token":"{jwt}"}}"#), "alice", 60),
            (r#"{"access_token":"opaque"}"#.to_owned(), "client", 300),
        ] {
            let token = answered(&body).unwrap();
            assert_eq!(token.principal, principal);
            assert_eq!(token.expires_ms, millis(NOW) + seconds * 1000, "{body}");
        }
    }

    #[test]
    fn an_answer_without_a_token_is_told_without_repeating_it() {
        for (body, cause) in [
            ("hush", "its answer is not JSON"),
            (r#"{"x":"hush"}"#, "its answer has no access_token"),
        ] {
            assert_eq!(answered(body), Err(cause));
        }
        assert_eq!(
            refusal_of(
                401,
                br#"{"error":"invalid_client","error_description":"hush"}"#
            ),
            "it answered 401, invalid_client"
        );
    }

    #[test]
    fn credentials_are_encoded_before_they_are_joined() {
        let credentials = Credentials {
            client_id: "a:b".to_owned(),
            client_secret: Secret::new("c d/é"),
            scope: Some("kafka write".to_owned()),
        };
        let joined = STANDARD.encode("a%3Ab:c+d%2F%C3%A9");
        assert_eq!(credentials.authorization(), format!("Basic {joined}"));
        assert_eq!(
            credentials.form(),
            "grant_type=client_credentials&scope=kafka+write"
        );
    }
}
