//! Tokens for OAUTHBEARER: one source for all clients.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use krafka::auth::{CredentialProvider, OAuthBearerToken};
use krafka::error::KrafkaError;
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use crate::config::definition::Secret;

/// A token as both clients need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: Secret,
    pub principal: String,
    /// Milliseconds since 1970.
    pub expires_ms: i64,
}

impl Token {
    pub(super) fn to_krafka(&self) -> OAuthBearerToken {
        OAuthBearerToken::new(self.text.reveal()).with_lifetime_ms(self.expires_ms)
    }
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

/// The claims of a JWT; null for any other token, which need not be one.
pub(super) fn claims_of(token: &str) -> Value {
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

pub(super) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

pub(super) fn millis(time: Duration) -> i64 {
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
        Ok(token.to_krafka())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

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
