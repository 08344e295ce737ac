//! OAuth2 tokens by client credentials: one at a time for all tasks, asked for
//! anew before it expires.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, Request};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config::definition::Secret;
use crate::sinks::http::auth::ClientCredentials;
use crate::sinks::http::client::{read_up_to, told};
use crate::sinks::http::scrub::Secrets;
use crate::sinks::http::template::percent_encoded;

/// A token that ends sooner than this is not used any more.
const MARGIN: Duration = Duration::from_secs(30);
/// A short-lived one is used for this part of its life.
const SHARE: f64 = 0.8;
const ANSWER_LIMIT: usize = 64 * 1024;

#[derive(Clone, Debug)]
struct Token {
    value: Secret,
    /// `None`: until it is refused.
    renew_at: Option<Instant>,
}

/// Where requests get their token from.
#[derive(Debug)]
pub(super) struct Tokens {
    credentials: ClientCredentials,
    current: Mutex<Option<Token>>,
}

impl Tokens {
    pub(super) fn new(credentials: ClientCredentials) -> Self {
        Self {
            credentials,
            current: Mutex::new(None),
        }
    }

    /// The current token, or a new one. Who comes meanwhile waits for it.
    pub(super) async fn get(&self, client: &Client, secrets: &Secrets) -> Result<Secret, String> {
        let mut current = self.current.lock().await;
        if let Some(token) = &*current
            && token.renew_at.is_none_or(|at| Instant::now() < at)
        {
            return Ok(token.value.clone());
        }
        *current = None;
        let token = self.fetch(client, secrets).await.map_err(|cause| {
            let origin = self.credentials.url.origin().ascii_serialization();
            format!("no OAuth2 token from {origin}: {cause}")
        })?;
        Ok(current.insert(token).value.clone())
    }

    /// Forgets a token that was refused, unless another has taken its place.
    pub(super) async fn refuse(&self, refused: &Secret) {
        let mut current = self.current.lock().await;
        if current
            .as_ref()
            .is_some_and(|token| token.value == *refused)
        {
            *current = None;
        }
    }

    async fn fetch(&self, client: &Client, secrets: &Secrets) -> Result<Token, String> {
        let answer = client
            .execute(self.request())
            .await
            .map_err(|it| told(&it))?;
        let (status, asked_at) = (answer.status(), Instant::now());
        let body = read_up_to(answer, ANSWER_LIMIT)
            .await
            .map_err(|it| told(&it))?;
        if !status.is_success() {
            return Err(format!("{status} {}", secrets.excerpt(&body, None)));
        }
        self.read(&body, asked_at)
    }

    fn request(&self) -> Request {
        let credentials = &self.credentials;
        let mut form = "grant_type=client_credentials".to_owned();
        let mut parameter = |name: &str, value: &str| {
            form.push_str(&format!("&{name}={}", percent_encoded(value)));
        };
        if let Some(scope) = &credentials.scope {
            parameter("scope", scope);
        }
        if credentials.in_body {
            parameter("client_id", &credentials.id);
            parameter("client_secret", credentials.secret.reveal());
        }
        let mut request = Request::new(Method::POST, credentials.url.clone());
        let headers = request.headers_mut();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        if !credentials.in_body {
            headers.insert(AUTHORIZATION, self.basic());
        }
        *request.body_mut() = Some(form.into());
        request
    }

    /// Base64 fits into any header.
    fn basic(&self) -> HeaderValue {
        let (id, secret) = (&self.credentials.id, self.credentials.secret.reveal());
        let pair = STANDARD.encode(format!("{id}:{secret}"));
        let value = HeaderValue::from_str(&format!("Basic {pair}"));
        let mut value = value.unwrap_or(HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    fn read(&self, body: &[u8], asked_at: Instant) -> Result<Token, String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|_| "the answer is no JSON".to_owned())?;
        let property = &self.credentials.property;
        let value = answer[property.as_str()]
            .as_str()
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("the answer has no text {property:?}"))?;
        let lasts = match &answer["expires_in"] {
            Value::Number(seconds) => seconds.as_f64(),
            Value::String(seconds) => seconds.parse().ok(),
            _ => None,
        };
        let lasts = lasts.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Token {
            value: Secret::new(value),
            renew_at: lasts.and_then(|lasts| asked_at.checked_add(used_for(lasts))),
        })
    }
}

fn used_for(lasts: Duration) -> Duration {
    lasts
        .saturating_sub(MARGIN)
        .max(lasts.mul_f64(SHARE).min(MARGIN))
}
