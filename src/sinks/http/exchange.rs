//! A request, its answer, and what that means for the records.

use std::time::SystemTime;

use reqwest::header::{AUTHORIZATION, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Request, Response, StatusCode};
use sluice_actors::error_log::INCLUDE_MESSAGES;
use sluice_actors::outcome::Cause;
use std::time::Duration;

use crate::config::definition::Secret;
use crate::http_client::{read_up_to, told};
use crate::sinks::http::auth::Authorization;
use crate::sinks::http::config::AnswerSettings;
use crate::sinks::http::items::Item;
use crate::sinks::http::keys;
use crate::sinks::http::pause::retry_after;
use crate::sinks::http::scrub::READ_LIMIT;
use crate::sinks::http::status::{Class, is_about_the_address};
use crate::sinks::http::token::Tokens;

/// What to mend when no record can get through.
const ADDRESS_HINT: &str = " (http.url and request.method are the same for all records)";

/// Results of many records; what is larger is no answer to a batch.
const RESULTS_LIMIT: usize = 64 * 1024 * 1024;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Delivered,
    /// For each record.
    Each(Vec<One>),
    /// Those behind them wait for so long, if that was asked for.
    Retry(Cause, Option<Duration>),
    /// All of them, or one of them, can never be delivered.
    Reject(Cause),
    /// Nobody is to blame; for so long, if that is known.
    Unavailable(Cause, Option<Duration>),
}

/// What became of one record of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum One {
    Delivered,
    Retry(Cause),
    Reject(Cause),
}

/// Who requests are signed by.
pub(super) enum Signer {
    Nobody,
    Header(HeaderValue),
    Tokens(Box<Tokens>),
}

impl From<Authorization> for Signer {
    fn from(authorization: Authorization) -> Self {
        match authorization {
            Authorization::None => Self::Nobody,
            Authorization::Header(value) => Self::Header(value),
            Authorization::Oauth2(credentials) => Self::Tokens(Box::new(Tokens::new(credentials))),
        }
    }
}

/// Sends requests and reads answers, for all tasks of a connector.
pub(super) struct Exchange {
    pub(super) client: Client,
    pub(super) signer: Signer,
    pub(super) settings: AnswerSettings,
    /// For causes.
    pub(super) origin: String,
    /// Whether all records have the same address.
    pub(super) has_fixed_address: bool,
    pub(super) request_timeout: Duration,
}

impl Exchange {
    /// Sends a request with so many records. One whose token is refused goes
    /// out once more with a new one.
    pub(super) async fn send(&self, mut request: Request, records: usize) -> Verdict {
        // Nothing in it, nothing to tell of: a tombstone's DELETE.
        let records = request.body().map(|_| records);
        let again = match self.signer {
            Signer::Tokens(_) => request.try_clone(),
            Signer::Nobody | Signer::Header(_) => None,
        };
        let token = match self.sign(&mut request).await {
            Ok(token) => token,
            Err(cause) => return Verdict::Unavailable(cause.into(), None),
        };
        let answer = match self.client.execute(request).await {
            Ok(answer) => answer,
            Err(error) => return self.failed(&error),
        };
        let (Some(mut again), Signer::Tokens(tokens), Some(refused), StatusCode::UNAUTHORIZED) =
            (again, &self.signer, &token, answer.status())
        else {
            return self.read(answer, records, token.as_ref()).await;
        };
        tokens.refuse(refused).await;
        let token = match self.sign(&mut again).await {
            Ok(token) => token,
            Err(cause) => return Verdict::Unavailable(cause.into(), None),
        };
        match self.client.execute(again).await {
            Ok(answer) => self.read(answer, records, token.as_ref()).await,
            Err(error) => self.failed(&error),
        }
    }

    /// Tells the token, if there is one.
    async fn sign(&self, request: &mut Request) -> Result<Option<Secret>, String> {
        let (value, token) = match &self.signer {
            Signer::Nobody => return Ok(None),
            Signer::Header(value) => (value.clone(), None),
            Signer::Tokens(tokens) => {
                let token = tokens.get(&self.client, &self.settings.secrets).await?;
                let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                    .map_err(|_| "the OAuth2 token cannot be part of a header".to_owned())?;
                (value, Some(token))
            }
        };
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, value);
        if let Some(value) = headers.get_mut(AUTHORIZATION) {
            value.set_sensitive(true);
        }
        Ok(token)
    }

    /// No answer came.
    fn failed(&self, error: &reqwest::Error) -> Verdict {
        let origin = &self.origin;
        if error.is_connect() {
            let cause = format!("cannot connect to {origin}: {}", told(error));
            return Verdict::Unavailable(cause.into(), None);
        }
        if error.is_builder() {
            let cause = format!("no request to {origin} can be made: {}", told(error));
            return Verdict::Reject(cause.into());
        }
        let what = if error.is_timeout() {
            format!("within {} ms", self.request_timeout.as_millis())
        } else {
            format!("({})", told(error))
        };
        let cause = format!("no answer from {origin} {what}; the request may have been taken");
        Verdict::Retry(cause.into(), None)
    }

    /// `records` are those in the request's body, if it has one.
    async fn read(
        &self,
        answer: Response,
        records: Option<usize>,
        token: Option<&Secret>,
    ) -> Verdict {
        let (classes, status) = (&self.settings.classes, answer.status().as_u16());
        let class = match (records, self.has_fixed_address) {
            (None, _) => classes.of_delete(status),
            (Some(_), true) => classes.of_fixed_address(status),
            (Some(_), false) => classes.of(status),
        };
        match class {
            Class::Success => self.read_success(answer, records, token).await,
            class => self.read_failure(class, answer, token).await,
        }
    }

    async fn read_success(
        &self,
        answer: Response,
        records: Option<usize>,
        token: Option<&Secret>,
    ) -> Verdict {
        let (origin, status) = (&self.origin, answer.status());
        // Another status that counts as success (409, say) has no items either.
        let items = self.settings.items.as_ref().zip(records);
        let Some((items, records)) = items.filter(|_| status.is_success()) else {
            // Read for the sake of the connection; what it says is settled.
            let _ = read_up_to(answer, READ_LIMIT).await;
            return Verdict::Delivered;
        };
        let results = match read_up_to(answer, RESULTS_LIMIT).await {
            Ok(body) => items.of(&body, records),
            Err(error) => Err(format!("its body broke off: {}", told(&error))),
        };
        match results {
            Ok(items) => Verdict::Each(items.into_iter().map(|it| self.one(it, token)).collect()),
            Err(cause) => {
                let cause = format!(
                    "{origin} answered {status}, but {cause}; see {}",
                    keys::ITEMS
                );
                Verdict::Retry(cause.into(), None)
            }
        }
    }

    fn one(&self, item: Item, token: Option<&Secret>) -> One {
        let cause = |said: &str, error: &str| {
            let what = format!("{} answered for this record: {said}", self.origin);
            self.quoting(&what, error.as_bytes(), token)
        };
        match item {
            Item::Fine => One::Delivered,
            Item::Failed(error) => One::Reject(cause("error", &error)),
            Item::Status(status, error) => match self.settings.classes.of(status) {
                Class::Success if !is_contradicted(status, &error) => One::Delivered,
                Class::Success | Class::Reject => One::Reject(cause(&status.to_string(), &error)),
                // Others of the request were taken: the endpoint is there.
                Class::Retry | Class::Unavailable => One::Retry(cause(&status.to_string(), &error)),
            },
        }
    }

    async fn read_failure(
        &self,
        class: Class,
        answer: Response,
        token: Option<&Secret>,
    ) -> Verdict {
        let (status, wait) = (answer.status(), self.wait(&answer));
        let elsewhere = status.is_redirection() && answer.headers().contains_key(LOCATION);
        let body = read_up_to(answer, READ_LIMIT).await.unwrap_or_default();
        let hint = match class {
            _ if elsewhere => format!(
                " (a redirection that is not followed, see {})",
                keys::FOLLOW
            ),
            Class::Unavailable if is_about_the_address(status.as_u16()) => ADDRESS_HINT.to_owned(),
            _ => String::new(),
        };
        let what = format!("{} answered {status}{hint}", self.origin);
        let cause = match elsewhere {
            true => what.into(),
            false => self.quoting(&what, &body, token),
        };
        match class {
            Class::Success => Verdict::Delivered,
            Class::Retry => Verdict::Retry(cause, wait),
            Class::Reject => Verdict::Reject(cause),
            Class::Unavailable => Verdict::Unavailable(cause, wait),
        }
    }

    /// A cause with what the endpoint said, which may repeat the record.
    fn quoting(&self, what: &str, said: &[u8], token: Option<&Secret>) -> Cause {
        let length = match said.len() {
            0 => return what.into(),
            READ_LIMIT.. => format!("{READ_LIMIT} bytes or more"),
            length => format!("{length} bytes"),
        };
        let said = self.settings.secrets.excerpt(said, token);
        Cause::quoting(
            format!("{what}, with {length} that {INCLUDE_MESSAGES}=true shows"),
            format!("{what}: {said}"),
        )
    }

    fn wait(&self, answer: &Response) -> Option<Duration> {
        let value = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
        let wait = retry_after(value, SystemTime::now())?;
        Some(wait.min(self.settings.retry_after_max))
    }
}

/// Whether an item's error denies its status. That of a 409 which counts as a
/// success only explains it.
const fn is_contradicted(status: u16, error: &str) -> bool {
    matches!(status, 200..=299) && !error.is_empty()
}
