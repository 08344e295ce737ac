//! What the http sink is told.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::config::definition::Reader;
use crate::sinks::http::auth::Authorization;
use crate::sinks::http::body::{Batching, Format};
use crate::sinks::http::client::ClientSettings;
use crate::sinks::http::headers::{Forward, IdempotencyKey, additional};
use crate::sinks::http::items::Items;
use crate::sinks::http::scrub::Secrets;
use crate::sinks::http::status::Classes;
use crate::sinks::http::template::Template;
use crate::sinks::http::{keys, tls};

/// What becomes of records without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tombstones {
    Ignore,
    Fail,
    Delete,
}

/// What a request looks like.
pub(super) struct RequestSettings {
    pub(super) template: Template,
    pub(super) method: Method,
    pub(super) format: Format,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) headers: HeaderMap,
    pub(super) forward: Forward,
    pub(super) idempotency_key: Option<IdempotencyKey>,
    pub(super) batching: Option<Batching>,
    pub(super) tombstones: Tombstones,
}

/// What an answer means.
pub(super) struct AnswerSettings {
    pub(super) classes: Classes,
    pub(super) items: Option<Items>,
    pub(super) retry_after_max: Duration,
    pub(super) secrets: Secrets,
}

/// An HTTP sink's settings.
pub struct HttpConfig {
    /// `None` after a fault.
    pub(super) request: Option<RequestSettings>,
    pub(super) answer: AnswerSettings,
    pub(super) authorization: Authorization,
    /// `None` after a fault.
    pub(super) client: Option<ClientSettings>,
    /// Requests at once, for each task.
    pub(super) in_flight: usize,
}

impl HttpConfig {
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let mut secrets = Secrets::default();
        let authorization = Authorization::read(reader, &mut secrets);
        let request = RequestSettings::read(reader, &mut secrets);
        let in_flight = usize::try_from(reader.int(keys::IN_FLIGHT)).unwrap_or(1);
        Self {
            request,
            answer: AnswerSettings {
                classes: Classes::read(reader),
                items: Items::read(reader),
                retry_after_max: reader.duration(keys::RETRY_AFTER_MAX),
                secrets,
            },
            authorization,
            client: client(reader),
            in_flight,
        }
    }
}

impl RequestSettings {
    fn read(reader: &mut Reader<'_>, secrets: &mut Secrets) -> Option<Self> {
        let headers = additional(reader, secrets);
        let batching = Batching::read(reader);
        let tombstones = match reader.choice(keys::TOMBSTONES) {
            keys::FAIL => Tombstones::Fail,
            keys::DELETE => Tombstones::Delete,
            _ => Tombstones::Ignore,
        };
        let forward = Forward::read(reader);
        let idempotency_key = IdempotencyKey::read(reader);
        let method = method(reader.choice(keys::METHOD));
        let format = Format::read(reader);
        let content_type = content_type(reader);
        if batching.is_some() && forward.is_any() {
            let message = format!(
                "cannot be used with {}: a header of one record would stand for all",
                keys::BATCHING
            );
            reader.fault(keys::FORWARD, message);
        }
        let template = template(reader)?;
        template.add_secrets(secrets);
        let settings = Self {
            template,
            method,
            format,
            content_type,
            headers,
            forward,
            idempotency_key,
            batching,
            tombstones,
        };
        settings.check_key(reader);
        Some(settings)
    }

    fn check_key(&self, reader: &mut Reader<'_>) {
        let has_key = self.template.has_key();
        if self.tombstones == Tombstones::Delete && !has_key {
            let message = format!("delete needs ${{key}} in {}: what to delete", keys::URL);
            reader.fault(keys::TOMBSTONES, message);
        }
        if self.batching.is_some() && has_key {
            let message = format!(
                "has ${{key}}, but with {} a request has no one key",
                keys::BATCHING
            );
            reader.fault(keys::URL, message);
        }
    }
}

fn template(reader: &mut Reader<'_>) -> Option<Template> {
    let text = reader.optional_text(keys::URL)?;
    Template::parse(&text)
        .map_err(|message| reader.fault(keys::URL, message))
        .ok()
}

fn method(choice: &str) -> Method {
    match choice {
        "PUT" => Method::PUT,
        "PATCH" => Method::PATCH,
        "DELETE" => Method::DELETE,
        _ => Method::POST,
    }
}

fn content_type(reader: &mut Reader<'_>) -> Option<HeaderValue> {
    let text = reader.optional_text(keys::CONTENT_TYPE)?;
    HeaderValue::from_str(&text)
        .map_err(|_| {
            let message = format!("{text:?} cannot be the value of a header");
            reader.fault(keys::CONTENT_TYPE, message);
        })
        .ok()
}

fn client(reader: &mut Reader<'_>) -> Option<ClientSettings> {
    Some(ClientSettings {
        connect_timeout: reader.positive_duration(keys::CONNECT_TIMEOUT),
        request_timeout: reader.positive_duration(keys::REQUEST_TIMEOUT),
        follow_redirects: reader.boolean(keys::FOLLOW),
        tls: tls::read(reader)?,
    })
}
