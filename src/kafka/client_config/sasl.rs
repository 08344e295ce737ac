//! `sasl.*`: who we are to a broker that asks.

use krafka::auth::AuthConfig;

use super::jaas::{self, Login};
use super::keys::{JAAS, MECHANISM};
use super::oauth;
use super::token::{KrafkaTokens, TokenSource};
use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Secret};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sasl {
    Password {
        mechanism: Mechanism,
        username: String,
        password: Secret,
    },
    Token(TokenSource),
}

/// Mechanisms with a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// What `sasl.mechanism` may say.
#[derive(Clone, Copy)]
enum Named {
    Password(Mechanism),
    OAuthBearer,
}

impl Mechanism {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Named {
    const fn login_module(self) -> &'static str {
        match self {
            Self::Password(Mechanism::Plain) => "PlainLoginModule",
            Self::Password(_) => "ScramLoginModule",
            Self::OAuthBearer => "OAuthBearerLoginModule",
        }
    }
}

impl Sasl {
    pub(super) fn read(properties: &ClientProperties, faults: &mut Faults) -> Option<Self> {
        let named = read_mechanism(properties, faults);
        let login = read_login(properties, named, faults);
        match (named?, login?) {
            (Named::Password(mechanism), login) => password(mechanism, &login)
                .map_err(|message| faults.add(properties.key(JAAS), message))
                .ok(),
            (Named::OAuthBearer, login) => oauth::read(properties, &login, faults).map(Self::Token),
        }
    }

    pub(super) const fn token_source(&self) -> Option<&TokenSource> {
        match self {
            Self::Password { .. } => None,
            Self::Token(source) => Some(source),
        }
    }

    pub(super) fn to_krafka(&self) -> AuthConfig {
        match self {
            Self::Token(source) => {
                AuthConfig::sasl_oauthbearer_provider(KrafkaTokens::new(source.clone()))
            }
            Self::Password {
                mechanism,
                username,
                password,
            } => {
                let (username, password) = (username.as_str(), password.reveal());
                match mechanism {
                    Mechanism::Plain => AuthConfig::sasl_plain(username, password),
                    Mechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(username, password),
                    Mechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(username, password),
                }
            }
        }
    }

    /// A token is handed over by the client's context.
    pub(super) fn to_librdkafka(&self, config: &mut rdkafka::ClientConfig) {
        match self {
            Self::Token(_) => config.set("sasl.mechanism", "OAUTHBEARER"),
            Self::Password {
                mechanism,
                username,
                password,
            } => config
                .set("sasl.mechanism", mechanism.name())
                .set("sasl.username", username)
                .set("sasl.password", password.reveal()),
        };
    }
}

fn password(mechanism: Mechanism, login: &Login) -> Result<Sasl, &'static str> {
    let username = login.option("username").ok_or("has no username")?;
    let password = login.option("password").ok_or("has no password")?;
    Ok(Sasl::Password {
        mechanism,
        username: username.reveal().to_owned(),
        password: password.clone(),
    })
}

fn read_login(
    properties: &ClientProperties,
    named: Option<Named>,
    faults: &mut Faults,
) -> Option<Login> {
    let Some(text) = properties.get(JAAS) else {
        let example = match named {
            Some(Named::OAuthBearer) => {
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"...\" clientSecret=\"...\";"
            }
            _ => "a login module, required, username=\"...\" password=\"...\";",
        };
        faults.add(
            properties.key(JAAS),
            format!("is required with SASL: {example}"),
        );
        return None;
    };
    let login = jaas::parse(text)
        .map_err(|message| faults.add(properties.key(JAAS), message))
        .ok()?;
    let expected = named?.login_module();
    if login.module != expected {
        let mechanism = properties.get(MECHANISM).unwrap_or("PLAIN");
        faults.add(
            properties.key(JAAS),
            format!("its login module does not go with {MECHANISM}={mechanism}; use {expected}"),
        );
        return None;
    }
    Some(login)
}

fn read_mechanism(properties: &ClientProperties, faults: &mut Faults) -> Option<Named> {
    let name = properties
        .get(MECHANISM)
        .unwrap_or("PLAIN")
        .to_ascii_uppercase();
    let why = match name.as_str() {
        "PLAIN" => return Some(Named::Password(Mechanism::Plain)),
        "SCRAM-SHA-256" => return Some(Named::Password(Mechanism::ScramSha256)),
        "SCRAM-SHA-512" => return Some(Named::Password(Mechanism::ScramSha512)),
        "OAUTHBEARER" => return Some(Named::OAuthBearer),
        "GSSAPI" => "Kerberos is not supported",
        _ => "is not a known mechanism",
    };
    let message = format!("{why}; use SCRAM-SHA-512, SCRAM-SHA-256, OAUTHBEARER or PLAIN");
    faults.add(properties.key(MECHANISM), message);
    None
}
