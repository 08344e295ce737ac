//! What OAUTHBEARER is told: an endpoint with a client's credentials, or the
//! claims of an unsecured token.

use std::time::Duration;

use serde_json::{Map, Number, Value};

use super::endpoint::Endpoint;
use super::jaas::Login;
use super::keys::{
    CALLBACK, CLIENT_ID, CLIENT_SECRET, CONNECT_TIMEOUT, ENCODED, JAAS, KEYS, READ_TIMEOUT, SCOPE,
    TOKEN_URL,
};
use super::token::{TokenSource, Unsecured};
use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Secret};
use crate::http_client::client_credentials::{ClientCredentials, Sent};

const STRING_CLAIM: &str = "unsecuredLoginStringClaim_";
const NUMBER_CLAIM: &str = "unsecuredLoginNumberClaim_";
const LIFETIME: &str = "unsecuredLoginLifetimeSeconds";
const UNSECURED_LIFETIME: Duration = Duration::from_secs(3600);

const SECURED_HANDLER: &str = "OAuthBearerLoginCallbackHandler";
const UNSECURED_HANDLER: &str = "OAuthBearerUnsecuredLoginCallbackHandler";

/// Where tokens come from. Without an endpoint they are made here, unsecured,
/// as Kafka's clients do.
pub(super) fn read(
    properties: &ClientProperties,
    login: &Login,
    faults: &mut Faults,
) -> Option<TokenSource> {
    let url = properties.get(TOKEN_URL);
    check_handler(properties, url.is_some(), faults);
    let source = match url {
        Some(url) => endpoint(properties, url, login, faults).map(TokenSource::endpoint),
        None => unsecured(properties, login).map(TokenSource::unsecured),
    };
    source
        .map_err(|(name, message)| faults.add(properties.key(name), message))
        .ok()
}

type Flaw = (&'static str, String);

fn check_handler(properties: &ClientProperties, has_url: bool, faults: &mut Faults) {
    let Some(class) = properties.get(CALLBACK) else {
        return;
    };
    let message = match class.rsplit('.').next().unwrap_or_default() {
        SECURED_HANDLER if !has_url => format!("needs {TOKEN_URL}, which is not set"),
        UNSECURED_HANDLER if has_url => format!("makes its own tokens, but {TOKEN_URL} is set"),
        SECURED_HANDLER | UNSECURED_HANDLER => return,
        _ => format!(
            "cannot be honoured: Java classes are not loaded; {SECURED_HANDLER} and \
             {UNSECURED_HANDLER} are known"
        ),
    };
    faults.add(properties.key(CALLBACK), message);
}

fn endpoint(
    properties: &ClientProperties,
    url: &str,
    login: &Login,
    faults: &mut Faults,
) -> Result<Endpoint, Flaw> {
    let known = ["clientId", "clientSecret", "scope"];
    refuse_others(login, |name| known.contains(&name))?;
    let url = read_url(url).map_err(|message| (TOKEN_URL, message))?;
    let given = |name: &str, option: &str| {
        let option = || login.option(option).cloned();
        properties.get(name).map(Secret::new).or_else(option)
    };
    let missing = |option: &str, name: &str| {
        (
            JAAS,
            format!("has no {option}, and {name} is not set either"),
        )
    };
    let id = given(CLIENT_ID, "clientId").ok_or_else(|| missing("clientId", CLIENT_ID))?;
    let secret = given(CLIENT_SECRET, "clientSecret")
        .ok_or_else(|| missing("clientSecret", CLIENT_SECRET))?;
    let (is_encoded, connect_timeout, read_timeout) = properties.read(KEYS, faults, |reader| {
        (
            reader.boolean(ENCODED),
            reader.duration(CONNECT_TIMEOUT),
            reader.duration(READ_TIMEOUT),
        )
    });
    Ok(Endpoint {
        credentials: ClientCredentials {
            url,
            id: id.reveal().to_owned(),
            secret,
            scope: given(SCOPE, "scope").map(|scope| scope.reveal().to_owned()),
            // Joined as they are unless asked for, as Kafka does.
            sent: match is_encoded {
                true => Sent::EncodedHeader,
                false => Sent::Header,
            },
            property: "access_token".to_owned(),
        },
        connect_timeout,
        read_timeout,
    })
}

/// Secrets do not travel in clear, except within this host.
fn read_url(text: &str) -> Result<reqwest::Url, String> {
    let url = reqwest::Url::parse(text).map_err(|_| "is not an address such as https://...")?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user in it; give clientId and clientSecret in sasl.jaas.config".into());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        "http" => Err("would send the client's secret in clear; use https".into()),
        _ => Err("is neither https nor http".into()),
    }
}

fn unsecured(properties: &ClientProperties, login: &Login) -> Result<Unsecured, Flaw> {
    refuse_others(login, |name| {
        name == LIFETIME || name.starts_with(STRING_CLAIM) || name.starts_with(NUMBER_CLAIM)
    })?;
    if let Some(name) = [CLIENT_ID, CLIENT_SECRET, SCOPE]
        .into_iter()
        .find(|name| properties.get(name).is_some())
    {
        return Err((TOKEN_URL, format!("is not set, though {name} is")));
    }
    let mut claims = Map::new();
    for (name, value) in login.options() {
        if let Some(claim) = name.strip_prefix(STRING_CLAIM) {
            claims.insert(claim.to_owned(), Value::from(value.reveal()));
        } else if let Some(claim) = name.strip_prefix(NUMBER_CLAIM) {
            let number = number(value).ok_or((JAAS, format!("{name} is not a number")))?;
            claims.insert(claim.to_owned(), Value::Number(number));
        }
    }
    if !claims.get("sub").is_some_and(Value::is_string) {
        let message = format!(
            "has no {STRING_CLAIM}sub for an unsecured token; for a token from an endpoint set \
             {TOKEN_URL}"
        );
        return Err((JAAS, message));
    }
    let lifetime = match login.option(LIFETIME) {
        None => UNSECURED_LIFETIME,
        Some(text) => {
            let seconds = text.reveal().parse().ok().filter(|seconds| *seconds > 0);
            let seconds = seconds.ok_or((JAAS, format!("{LIFETIME} is no number of seconds")))?;
            Duration::from_secs(seconds)
        }
    };
    Ok(Unsecured { claims, lifetime })
}

fn number(text: &Secret) -> Option<Number> {
    serde_json::from_str(text.reveal()).ok()
}

fn refuse_others(login: &Login, is_known: impl Fn(&str) -> bool) -> Result<(), Flaw> {
    match login.options().find(|(name, _)| !is_known(name)) {
        None => Ok(()),
        Some((name, _)) => Err((
            JAAS,
            format!("has the option {name}, which cannot be honoured"),
        )),
    }
}
