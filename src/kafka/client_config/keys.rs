//! The table of a client's properties, and of those that cannot be honoured.

use crate::config::definition::{Key, Kind, Preset, key};

pub(super) const PROTOCOL: &str = "security.protocol";
pub(super) const MECHANISM: &str = "sasl.mechanism";
pub(super) const JAAS: &str = "sasl.jaas.config";
pub(super) const TOKEN_URL: &str = "sasl.oauthbearer.token.endpoint.url";
pub(super) const CLIENT_ID: &str = "sasl.oauthbearer.client.credentials.client.id";
pub(super) const CLIENT_SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";
pub(super) const SCOPE: &str = "sasl.oauthbearer.scope";
pub(super) const ENCODED: &str = "sasl.oauthbearer.header.urlencode";
pub(super) const CALLBACK: &str = "sasl.login.callback.handler.class";
pub(super) const CONNECT_TIMEOUT: &str = "sasl.login.connect.timeout.ms";
pub(super) const READ_TIMEOUT: &str = "sasl.login.read.timeout.ms";

/// Properties that every client takes, by Kafka's names.
pub const KEYS: &[Key] = &[
    key(
        "bootstrap.servers",
        Kind::List,
        Preset::Required,
        "Brokers to begin with, as host:port.",
    ),
    key(
        "client.id",
        Kind::Text,
        Preset::Unset,
        "The name by which brokers log and limit the client.",
    ),
    key(
        "request.timeout.ms",
        Kind::DurationMs,
        Preset::Value("30000"),
        "How long a request may wait for its answer.",
    ),
    key(
        "metadata.max.age.ms",
        Kind::DurationMs,
        Preset::Value("300000"),
        "After what time topics and leaders are looked up again, and settings of the share group.",
    ),
    key(
        "connections.max.idle.ms",
        Kind::DurationMs,
        Preset::Value("540000"),
        "After what time an unused connection is closed.",
    ),
    key(
        "socket.connection.setup.timeout.ms",
        Kind::DurationMs,
        Preset::Value("10000"),
        "How long connecting to a broker may take.",
    ),
    key(
        PROTOCOL,
        Kind::Choice(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
        Preset::Value("PLAINTEXT"),
        "How to speak to the brokers.",
    ),
    key(
        MECHANISM,
        Kind::Text,
        Preset::Value("PLAIN"),
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    ),
    key(
        JAAS,
        Kind::Secret,
        Preset::Unset,
        "The login: module required username=\"...\" password=\"...\"; OAUTHBEARER has clientId, clientSecret and scope.",
    ),
    key(
        TOKEN_URL,
        Kind::Text,
        Preset::Unset,
        "Where OAUTHBEARER tokens come from, by client credentials. https, or http on this host.",
    ),
    key(
        CLIENT_ID,
        Kind::Text,
        Preset::Unset,
        "The client's id, in place of clientId in sasl.jaas.config.",
    ),
    key(
        CLIENT_SECRET,
        Kind::Secret,
        Preset::Unset,
        "The client's secret, in place of clientSecret in sasl.jaas.config.",
    ),
    key(
        SCOPE,
        Kind::Text,
        Preset::Unset,
        "The scope to ask for, in place of scope in sasl.jaas.config.",
    ),
    key(
        ENCODED,
        Kind::Boolean,
        Preset::Value("false"),
        "Whether id and secret are URL-encoded before they are joined in the request for a token.",
    ),
    key(
        CALLBACK,
        Kind::Text,
        Preset::Unset,
        "OAuthBearerLoginCallbackHandler or OAuthBearerUnsecuredLoginCallbackHandler; may be left out.",
    ),
    key(
        CONNECT_TIMEOUT,
        Kind::DurationMs,
        Preset::Value("10000"),
        "How long connecting to the token endpoint may take.",
    ),
    key(
        READ_TIMEOUT,
        Kind::DurationMs,
        Preset::Value("10000"),
        "How long the token endpoint may take to answer.",
    ),
    key(
        "ssl.truststore.type",
        Kind::Text,
        Preset::Unset,
        "PEM or PKCS12; by the file's ending if unset.",
    ),
    key(
        "ssl.truststore.location",
        Kind::Text,
        Preset::Unset,
        "File of the certificates to trust; the public authorities if unset.",
    ),
    key(
        "ssl.truststore.certificates",
        Kind::Text,
        Preset::Unset,
        "The certificates to trust, in place of a file.",
    ),
    key(
        "ssl.truststore.password",
        Kind::Secret,
        Preset::Unset,
        "Opens a PKCS12 store. Not for PEM.",
    ),
    key(
        "ssl.keystore.type",
        Kind::Text,
        Preset::Unset,
        "PEM or PKCS12; by the file's ending if unset.",
    ),
    key(
        "ssl.keystore.location",
        Kind::Text,
        Preset::Unset,
        "File of the client's certificate chain and key.",
    ),
    key(
        "ssl.keystore.key",
        Kind::Secret,
        Preset::Unset,
        "The client's key, in place of a file.",
    ),
    key(
        "ssl.keystore.certificate.chain",
        Kind::Text,
        Preset::Unset,
        "The client's certificate chain, in place of a file.",
    ),
    key(
        "ssl.keystore.password",
        Kind::Secret,
        Preset::Unset,
        "Opens a PKCS12 store. Not for PEM.",
    ),
    key(
        "ssl.key.password",
        Kind::Secret,
        Preset::Unset,
        "Opens the client's key in PEM.",
    ),
    key(
        "ssl.endpoint.identification.algorithm",
        Kind::Text,
        Preset::Unset,
        "https: the certificate must name the host.",
    ),
];

/// Security properties of Kafka that cannot be honoured, and why. A name with
/// a dot at its end stands for all that begin with it.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "sasl.oauthbearer.",
        "tokens are fetched by client credentials; give the endpoint, id, secret and scope only",
    ),
    (
        "sasl.login.refresh.",
        "tokens are refreshed ahead of their end by each client's own rule; remove it",
    ),
    (
        "sasl.login.retry.",
        "a token that cannot be fetched is asked for again by the clients' own back-off; remove it",
    ),
    (
        "sasl.login.class",
        "Java classes are not loaded; give the login in sasl.jaas.config",
    ),
    (
        "sasl.client.callback.handler.class",
        "Java classes are not loaded; give the login in sasl.jaas.config",
    ),
    (
        "sasl.kerberos.",
        "Kerberos is not supported; use SCRAM-SHA-512, PLAIN or a client certificate",
    ),
    (
        "security.providers",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.engine.factory.class",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.provider",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.secure.random.implementation",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.keymanager.algorithm",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.trustmanager.algorithm",
        "Java classes are not loaded; TLS is rustls's",
    ),
    (
        "ssl.protocol",
        "TLS 1.3 and 1.2 are spoken, whichever the broker takes; remove it",
    ),
    (
        "ssl.enabled.protocols",
        "TLS 1.3 and 1.2 are spoken, whichever the broker takes; remove it",
    ),
    ("ssl.cipher.suites", "the ciphers are rustls's; remove it"),
];

/// Why a property is refused, if it is.
#[must_use]
pub fn refusal(name: &str) -> Option<&'static str> {
    if KEYS.iter().any(|key| key.name == name) {
        return None;
    }
    REFUSED
        .iter()
        .find(|(refused, _)| {
            *refused == name || (refused.ends_with('.') && name.starts_with(refused))
        })
        .map(|(_, reason)| *reason)
}
