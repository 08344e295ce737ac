//! The one place that turns Kafka's property names into a client's settings.

mod jaas;
mod keys;
mod librdkafka;
mod pem;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

use krafka::auth::AuthConfig;
use krafka::{Kafka, KafkaBuilder};

use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Reader, Secret};

use keys::{JAAS, MECHANISM, PROTOCOL};
pub use keys::{KEYS, REFUSED, refusal};
pub use tls::Tls;

/// Who we are to a broker that asks for SASL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sasl {
    mechanism: Mechanism,
    username: String,
    password: Secret,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Mechanism {
    const fn login_module(self) -> &'static str {
        match self {
            Self::Plain => "PlainLoginModule",
            Self::ScramSha256 | Self::ScramSha512 => "ScramLoginModule",
        }
    }
}

/// How to reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    pub bootstrap_servers: Vec<String>,
    pub client_id: String,
    pub request_timeout: Duration,
    pub metadata_max_age: Duration,
    connections_max_idle: Duration,
    connect_timeout: Duration,
    sasl: Option<Sasl>,
    tls: Option<Tls>,
}

impl ClientConfig {
    /// Reads a client's properties. What cannot be honoured is a fault.
    pub fn read(
        properties: &ClientProperties,
        default_client_id: &str,
        faults: &mut Faults,
    ) -> Self {
        let protocol = properties.read(KEYS, faults, |reader| reader.choice(PROTOCOL));
        check_security(properties, faults);
        let tls = protocol
            .ends_with("SSL")
            .then(|| Tls::read(properties, faults));
        let sasl = protocol
            .starts_with("SASL")
            .then(|| read_sasl(properties, faults))
            .flatten();
        properties.read(KEYS, faults, |reader| Self {
            bootstrap_servers: read_servers(reader),
            client_id: reader
                .optional_text("client.id")
                .unwrap_or_else(|| default_client_id.to_owned()),
            request_timeout: reader.duration("request.timeout.ms"),
            metadata_max_age: reader.duration("metadata.max.age.ms"),
            connections_max_idle: reader.duration("connections.max.idle.ms"),
            connect_timeout: reader.duration("socket.connection.setup.timeout.ms"),
            sasl,
            tls,
        })
    }

    /// The client, ready to connect.
    pub fn builder(&self) -> KafkaBuilder {
        install_crypto_provider();
        Kafka::builder(self.bootstrap_servers.join(","))
            .client_id(&self.client_id)
            .request_timeout(self.request_timeout)
            // A request's time includes connecting.
            .connect_timeout(self.connect_timeout.min(self.request_timeout))
            .metadata_max_age(self.metadata_max_age)
            .connections_max_idle(Some(self.connections_max_idle))
            .security(self.auth())
    }

    #[must_use]
    pub fn auth(&self) -> AuthConfig {
        let auth = match &self.sasl {
            None => AuthConfig::plaintext(),
            Some(sasl) => {
                let (username, password) = (sasl.username.as_str(), sasl.password.reveal());
                match sasl.mechanism {
                    Mechanism::Plain => AuthConfig::sasl_plain(username, password),
                    Mechanism::ScramSha256 => AuthConfig::sasl_scram_sha256(username, password),
                    Mechanism::ScramSha512 => AuthConfig::sasl_scram_sha512(username, password),
                }
            }
        };
        match &self.tls {
            None => auth,
            Some(tls) => auth.with_tls(tls.to_krafka()),
        }
    }
}

/// Gives rustls its cryptography. A second call finds the first one's.
pub fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been quicker; theirs does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Security that was meant and would not happen.
fn check_security(properties: &ClientProperties, faults: &mut Faults) {
    for name in properties.names() {
        if let Some(reason) = refusal(name) {
            faults.add(
                properties.key(name),
                format!("cannot be honoured: {reason}"),
            );
        }
    }
    let meant = properties.names().find(|name| {
        let is_security = name.starts_with("ssl.") || name.starts_with("sasl.");
        is_security && refusal(name).is_none()
    });
    if let (Some(name), None) = (meant, properties.get(PROTOCOL)) {
        faults.add(
            properties.key(PROTOCOL),
            format!(
                "is not set, so that connections would be PLAINTEXT though {} is given; set it to SSL, SASL_SSL or SASL_PLAINTEXT (or to PLAINTEXT, if that is meant)",
                properties.key(name)
            ),
        );
    }
}

fn read_servers(reader: &mut Reader<'_>) -> Vec<String> {
    let name = "bootstrap.servers";
    let servers = reader.list(name);
    let is_address = |server: &&String| {
        server.rsplit_once(':').is_some_and(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains('/');
            is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        })
    };
    if let Some(server) = servers.iter().find(|server| !is_address(server)) {
        let message = format!("{server:?} is not host:port");
        reader.fault(name, message);
    }
    servers
}

fn read_sasl(properties: &ClientProperties, faults: &mut Faults) -> Option<Sasl> {
    let mechanism = read_mechanism(properties, faults);
    let Some(text) = properties.get(JAAS) else {
        faults.add(
            properties.key(JAAS),
            "is required with SASL: a login module, required, username=\"...\" password=\"...\";",
        );
        return None;
    };
    let login = match jaas::parse(text) {
        Ok(login) => login,
        Err(message) => {
            faults.add(properties.key(JAAS), message);
            return None;
        }
    };
    let mechanism = mechanism?;
    let expected = mechanism.login_module();
    if login.module != expected {
        faults.add(
            properties.key(JAAS),
            format!(
                "its login module does not go with {MECHANISM}={}; use {expected}",
                properties.get(MECHANISM).unwrap_or("PLAIN")
            ),
        );
    }
    Some(Sasl {
        mechanism,
        username: login.username,
        password: login.password,
    })
}

fn read_mechanism(properties: &ClientProperties, faults: &mut Faults) -> Option<Mechanism> {
    let name = properties
        .get(MECHANISM)
        .unwrap_or("PLAIN")
        .to_ascii_uppercase();
    let why = match name.as_str() {
        "PLAIN" => return Some(Mechanism::Plain),
        "SCRAM-SHA-256" => return Some(Mechanism::ScramSha256),
        "SCRAM-SHA-512" => return Some(Mechanism::ScramSha512),
        "OAUTHBEARER" => "OAUTHBEARER is still to come",
        "GSSAPI" => "Kerberos is not supported",
        _ => "is not a known mechanism",
    };
    let message = format!("{why}; use SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN");
    faults.add(properties.key(MECHANISM), message);
    None
}
