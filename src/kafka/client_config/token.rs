//! Tokens for OAUTHBEARER: one source for all clients.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use krafka::auth::{CredentialProvider, OAuthBearerToken};
use krafka::error::KrafkaError;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde_json::{Map, Value};

use super::install_crypto_provider;
use crate::config::definition::Secret;

/// What holds for a token that does not say when it ends.
const USUAL_LIFETIME: Duration = Duration::from_secs(300);
const MAX_ANSWER: usize = 1024 * 1024;

/// A token as both clients need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: Secret,
    pub principal: String,
    /// Milliseconds since 1970.
    pub expires_ms: i64,
}

/// Why there is no token. Never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The endpoint does not answer as it should; it may later.
    #[error("token endpoint {url}: {cause}")]
    Later { url: String, cause: String },
    /// It refuses these credentials.
    #[error("token endpoint {url} refuses the client: {cause}")]
    Refused { url: String, cause: String },
}

/// Where tokens come from. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSource(Arc<Kind>);

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Endpoint(Endpoint),
    Unsecured(Unsecured),
}

/// An endpoint of OAuth 2.0, asked by client credentials.
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

/// Tokens that nobody signed, for brokers that are set up for tests.
#[derive(PartialEq, Eq)]
pub(super) struct Unsecured {
    pub(super) claims: Map<String, Value>,
    pub(super) lifetime: Duration,
}

/// Names of claims only: their values came with a login.
impl fmt::Debug for Unsecured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.claims.keys()).finish()
    }
}

impl TokenSource {
    pub(super) fn endpoint(endpoint: Endpoint) -> Self {
        Self(Arc::new(Kind::Endpoint(endpoint)))
    }

    pub(super) fn unsecured(unsecured: Unsecured) -> Self {
        Self(Arc::new(Kind::Unsecured(unsecured)))
    }

    /// A new token. The clients keep it and ask again ahead of its end.
    pub async fn fetch(&self) -> Result<Token, TokenError> {
        match &*self.0 {
            Kind::Endpoint(endpoint) => endpoint.fetch().await,
            Kind::Unsecured(unsecured) => Ok(unsecured.make(now())),
        }
    }

    /// The same for a thread outside of any runtime. Blocks.
    pub fn fetch_blocking(&self) -> Result<Token, TokenError> {
        match &*self.0 {
            Kind::Unsecured(unsecured) => Ok(unsecured.make(now())),
            Kind::Endpoint(endpoint) => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| endpoint.later(error.to_string()))?;
                runtime.block_on(endpoint.fetch())
            }
        }
    }
}

impl Endpoint {
    async fn fetch(&self) -> Result<Token, TokenError> {
        // A client a fetch: its connections belong to the runtime that asks,
        // and tokens are fetched minutes apart.
        let answer = self
            .client()
            .map_err(|error| self.later(text_of(&error)))?
            .post(self.url.clone())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(AUTHORIZATION, self.credentials.authorization())
            .body(self.credentials.form())
            .send()
            .await
            .map_err(|error| self.later(text_of(&error)))?;
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
                Err(error) => return Err(self.later(text_of(&error))),
            }
        }
    }

    fn later(&self, cause: String) -> TokenError {
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

/// Innermost cause first: the outer ones only say that sending failed.
fn text_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
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

/// The claims of a JWT; null for any other token, which need not be one.
fn claims_of(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let decoded = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&decoded).unwrap_or_default()
}

impl Unsecured {
    fn make(&self, now: Duration) -> Token {
        let expires = now + self.lifetime;
        let mut claims = self.claims.clone();
        claims.insert("iat".to_owned(), Value::from(now.as_secs()));
        claims.insert("exp".to_owned(), Value::from(expires.as_secs()));
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        let principal = claims["sub"].as_str().unwrap_or_default().to_owned();
        let payload = URL_SAFE_NO_PAD.encode(Value::Object(claims).to_string());
        Token {
            text: Secret::new(format!("{header}.{payload}.")),
            principal,
            expires_ms: millis(expires),
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The source as krafka asks it.
pub(super) struct KrafkaTokens(TokenSource);

impl KrafkaTokens {
    pub(super) const fn new(source: TokenSource) -> Self {
        Self(source)
    }
}

impl CredentialProvider<OAuthBearerToken> for KrafkaTokens {
    async fn credentials(&self) -> krafka::error::Result<OAuthBearerToken> {
        let token = self.0.fetch().await.map_err(|error| match error {
            // krafka tries again after errors of the network.
            TokenError::Later { .. } => {
                KrafkaError::network(std::io::Error::other(error.to_string()))
            }
            TokenError::Refused { .. } => KrafkaError::auth(error.to_string()),
        })?;
        Ok(OAuthBearerToken::new(token.text.reveal()).with_lifetime_ms(token.expires_ms))
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn an_unsecured_token_is_a_jwt_that_nobody_signed() {
        let claims = Map::from_iter([("sub".to_owned(), Value::from("alice"))]);
        let lifetime = Duration::from_secs(60);
        let token = Unsecured { claims, lifetime }.make(NOW);
        assert!(token.text.reveal().ends_with('.'));
        assert_eq!(token.principal, "alice");
        let claims = claims_of(token.text.reveal());
        assert_eq!(claims["exp"], 1_700_000_060);
        assert_eq!(token.expires_ms, 1_700_000_060_000);
    }
}
