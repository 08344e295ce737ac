//! How requests are authorized.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;

use crate::config::definition::{Reader, Secret};
use crate::http_client::client_credentials::{ClientCredentials, Sent};
use crate::sinks::http::keys;
use crate::sinks::http::scrub::Secrets;
use crate::sinks::http::template::checked;

pub(super) enum Authorization {
    None,
    /// The same header for ever.
    Header(HeaderValue),
    /// A token that is asked for.
    Oauth2(ClientCredentials),
}

/// Which keys belong to which type.
const OWNERS: [(&str, &[&str]); 3] = [
    (keys::STATIC, &[keys::AUTHORIZATION_HEADER]),
    (keys::BASIC, &[keys::USER, keys::PASSWORD]),
    (
        keys::OAUTH2,
        &[
            keys::TOKEN_URL,
            keys::CLIENT_ID,
            keys::CLIENT_SECRET,
            keys::SCOPE,
        ],
    ),
];

impl Authorization {
    pub(super) fn read(reader: &mut Reader<'_>, secrets: &mut Secrets) -> Self {
        let kind = reader.choice(keys::AUTHORIZATION);
        refuse_useless(reader, kind);
        match kind {
            keys::STATIC => required_secret(reader, keys::AUTHORIZATION_HEADER)
                .map_or(Self::None, |value| fixed(reader, secrets, value.reveal())),
            keys::BASIC => {
                let user = required(reader, keys::USER);
                let password = required_secret(reader, keys::PASSWORD).unwrap_or_default();
                secrets.add(password.reveal());
                let pair = STANDARD.encode(format!("{user}:{}", password.reveal()));
                fixed(reader, secrets, &format!("Basic {pair}"))
            }
            keys::OAUTH2 => client_credentials(reader, secrets).map_or(Self::None, Self::Oauth2),
            _ => Self::None,
        }
    }
}

fn client_credentials(reader: &mut Reader<'_>, secrets: &mut Secrets) -> Option<ClientCredentials> {
    let url = required(reader, keys::TOKEN_URL);
    let id = required(reader, keys::CLIENT_ID);
    let secret = required_secret(reader, keys::CLIENT_SECRET)?;
    secrets.add(secret.reveal());
    secrets.add(STANDARD.encode(format!("{id}:{}", secret.reveal())));
    let url = checked(&url)
        .map_err(|message| reader.fault(keys::TOKEN_URL, message))
        .ok()?;
    secrets.add_address(url.path(), &url);
    let sent = match reader.choice(keys::CLIENT_MODE) {
        keys::IN_BODY => Sent::Form,
        _ => Sent::Header,
    };
    Some(ClientCredentials {
        url,
        id,
        secret,
        scope: reader.optional_text(keys::SCOPE),
        sent,
        property: reader.text(keys::TOKEN_PROPERTY),
    })
}

fn fixed(reader: &mut Reader<'_>, secrets: &mut Secrets, value: &str) -> Authorization {
    secrets.add_header(value);
    match HeaderValue::from_str(value) {
        Ok(mut value) => {
            value.set_sensitive(true);
            Authorization::Header(value)
        }
        Err(_) => {
            reader.fault(
                keys::AUTHORIZATION_HEADER,
                "has characters that a header cannot have",
            );
            Authorization::None
        }
    }
}

/// Credentials that nothing uses are a mistake: requests would go without.
fn refuse_useless(reader: &mut Reader<'_>, kind: &str) {
    for (owner, names) in OWNERS {
        for name in names.iter().filter(|_| owner != kind) {
            if reader.secret(name).is_some() {
                reader.fault(
                    name,
                    format!(
                        "has no use with {}={kind}; set that to {owner} or remove this",
                        keys::AUTHORIZATION
                    ),
                );
            }
        }
    }
}

fn required(reader: &mut Reader<'_>, name: &'static str) -> String {
    let text = reader.optional_text(name).unwrap_or_default();
    if text.is_empty() {
        let message = needed_by(reader);
        reader.fault(name, message);
    }
    text
}

fn required_secret(reader: &mut Reader<'_>, name: &'static str) -> Option<Secret> {
    let secret = reader
        .secret(name)
        .filter(|secret| !secret.reveal().is_empty());
    if secret.is_none() {
        let message = needed_by(reader);
        reader.fault(name, message);
    }
    secret
}

fn needed_by(reader: &mut Reader<'_>) -> String {
    let kind = reader.choice(keys::AUTHORIZATION);
    format!(
        "is required with {}={kind} and not set",
        keys::AUTHORIZATION
    )
}
