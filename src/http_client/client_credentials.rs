//! OAuth 2.0: a token for a client's credentials (RFC 6749, 4.4).

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, Request, StatusCode, Url};
use serde_json::Value;

use super::{origin, percent_encoded, read_up_to, told};
use crate::config::definition::Secret;

const ANSWER_LIMIT: usize = 1024 * 1024;

/// How the client's id and secret are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// As basic authorization, joined as they are.
    Header,
    /// The same, encoded before they are joined.
    EncodedHeader,
    /// As parameters of the form.
    Form,
}

/// What a token is asked for with, and where.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ClientCredentials {
    pub(crate) url: Url,
    pub(crate) id: String,
    pub(crate) secret: Secret,
    pub(crate) scope: Option<String>,
    pub(crate) sent: Sent,
    /// The member of the answer that has the token.
    pub(crate) property: String,
}

/// A token, and for how long it is good, if that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) token: Secret,
    pub(crate) lasts: Option<Duration>,
}

/// Why there is no token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Nothing came that could be used. Shows no secret.
    NoAnswer(String),
    /// The body may repeat what was sent.
    Refused(StatusCode, Bytes),
}

impl ClientCredentials {
    pub(crate) async fn fetch(&self, client: &Client) -> Result<Grant, Denial> {
        let no_answer = |error: reqwest::Error| Denial::NoAnswer(told(&error));
        let answer = client.execute(self.request()).await.map_err(no_answer)?;
        let status = answer.status();
        let body = read_up_to(answer, ANSWER_LIMIT).await.map_err(no_answer)?;
        match status.is_success() {
            true => self.granted(&body).map_err(Denial::NoAnswer),
            false => Err(Denial::Refused(status, body)),
        }
    }

    fn request(&self) -> Request {
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(authorization) = self.authorization() {
            headers.insert(AUTHORIZATION, authorization);
        }
        *request.body_mut() = Some(self.form().into());
        request
    }

    /// The header, unless the credentials are in the form. Base64 fits into
    /// any.
    fn authorization(&self) -> Option<HeaderValue> {
        let (id, secret) = (&self.id, self.secret.reveal());
        let pair = match self.sent {
            Sent::Header => format!("{id}:{secret}"),
            Sent::EncodedHeader => format!("{}:{}", percent_encoded(id), percent_encoded(secret)),
            Sent::Form => return None,
        };
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    fn form(&self) -> String {
        let mut form = "grant_type=client_credentials".to_owned();
        let mut parameter = |name: &str, value: &str| {
            form.push_str(&format!("&{name}={}", percent_encoded(value)));
        };
        if let Some(scope) = &self.scope {
            parameter("scope", scope);
        }
        if self.sent == Sent::Form {
            parameter("client_id", &self.id);
            parameter("client_secret", self.secret.reveal());
        }
        form
    }

    fn granted(&self, body: &[u8]) -> Result<Grant, String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|_| "the answer is no JSON".to_owned())?;
        let property = &self.property;
        let token = answer[property.as_str()]
            .as_str()
            .filter(|token| !token.is_empty())
            .ok_or_else(|| format!("the answer has no text {property:?}"))?;
        let lasts = match &answer["expires_in"] {
            Value::Number(seconds) => seconds.as_f64(),
            Value::String(seconds) => seconds.parse().ok(),
            _ => None,
        };
        Ok(Grant {
            token: Secret::new(token),
            lasts: lasts.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        })
    }
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials")
            .field("url", &origin(&self.url))
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(sent: Sent) -> ClientCredentials {
        ClientCredentials {
            url: Url::parse("https://idp:8443/hush?hush").unwrap(),
            id: "a:b".to_owned(),
            secret: Secret::new("hush d/\u{e9}"),
            scope: Some("kafka write".to_owned()),
            sent,
            property: "access_token".to_owned(),
        }
    }

    #[test]
    fn credentials_are_sent_as_asked_for() {
        let plain = STANDARD.encode("a:b:hush d/\u{e9}");
        let encoded = STANDARD.encode("a%3Ab:hush%20d%2F%C3%A9");
        for (sent, expected) in [(Sent::Header, plain), (Sent::EncodedHeader, encoded)] {
            let credentials = credentials(sent);
            let header = credentials.authorization().unwrap();
            assert_eq!(header.to_str().unwrap(), format!("Basic {expected}"));
            assert_eq!(
                credentials.form(),
                "grant_type=client_credentials&scope=kafka%20write"
            );
        }
        let credentials = credentials(Sent::Form);
        assert_eq!(credentials.authorization(), None);
        assert!(
            credentials
                .form()
                .ends_with("&client_id=a%3Ab&client_secret=hush%20d%2F%C3%A9")
        );
    }

    #[test]
    fn a_token_lasts_as_long_as_the_answer_says() {
        let credentials = credentials(Sent::Header);
        for (lasts, seconds) in [
            (r#","expires_in":30"#, Some(30)),
            (r#","expires_in":"30""#, Some(30)),
            (r#","expires_in":-1"#, None),
            ("", None),
        ] {
            let body = format!(r#"{{"access_token":"t"{lasts}}}"#);
            let grant = credentials.granted(body.as_bytes()).unwrap();
            assert_eq!(grant.token, Secret::new("t"));
            assert_eq!(grant.lasts, seconds.map(Duration::from_secs), "{body}");
        }
    }

    #[test]
    fn an_answer_without_a_token_is_told_without_repeating_it() {
        let credentials = credentials(Sent::Header);
        for (body, cause) in [
            ("hush", "the answer is no JSON"),
            (r#"{"x":"hush"}"#, "the answer has no text \"access_token\""),
            (
                r#"{"access_token":""}"#,
                "the answer has no text \"access_token\"",
            ),
        ] {
            let told = credentials.granted(body.as_bytes()).unwrap_err();
            assert_eq!(told, cause);
        }
    }

    #[test]
    fn neither_secret_nor_path_is_in_the_debug_form() {
        let credentials = credentials(Sent::Header);
        let request = credentials.request();
        let shown = format!("{credentials:?} {:?}", request.headers());
        assert!(shown.contains("https://idp:8443"), "{shown}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(
            !shown.contains(&STANDARD.encode("a:b:hush")[..8]),
            "{shown}"
        );
    }
}
