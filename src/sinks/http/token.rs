//! OAuth2 tokens: one at a time for all tasks, asked for anew before it
//! expires.

use std::time::Duration;

use reqwest::Client;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::config::definition::Secret;
use crate::http_client::client_credentials::{ClientCredentials, Denial};
use crate::http_client::origin;
use crate::sinks::http::scrub::Secrets;

/// A token that ends sooner than this is not used any more.
const MARGIN: Duration = Duration::from_secs(30);
/// A short-lived one is used for this part of its life.
const SHARE: f64 = 0.8;

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
        let token = self.fetch(client).await.map_err(|denial| {
            let cause = match denial {
                Denial::NoAnswer(cause) => cause,
                Denial::Refused(status, body) => {
                    format!("{status} {}", secrets.excerpt(&body, None))
                }
            };
            let origin = origin(&self.credentials.url);
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

    async fn fetch(&self, client: &Client) -> Result<Token, Denial> {
        let asked_at = Instant::now();
        let grant = self.credentials.fetch(client).await?;
        let used_for = grant.lasts.map(used_for);
        Ok(Token {
            value: grant.token,
            renew_at: used_for.and_then(|time| asked_at.checked_add(time)),
        })
    }
}

fn used_for(lasts: Duration) -> Duration {
    lasts
        .saturating_sub(MARGIN)
        .max(lasts.mul_f64(SHARE).min(MARGIN))
}
