//! The one place that turns Kafka's property names into a client's settings.

mod credentials;
mod endpoint;
mod jaas;
mod keys;
mod librdkafka;
mod oauth;
mod pkcs12;
mod sasl;
mod stores;
#[cfg(test)]
mod tests;
mod tls;
mod token;

use std::sync::Arc;
use std::time::Duration;

use krafka::auth::AuthConfig;
use krafka::{Kafka, KafkaBuilder};

use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Reader};
use crate::config::secrets::{address, scrub};

pub use credentials::Credentials;
use keys::PROTOCOL;
pub use keys::{KEYS, REFUSED, refusal};
use sasl::Sasl;
pub use tls::Tls;
pub use token::{Token, TokenError, TokenSource};

/// Said to everyone who begins without.
const NO_SERVERS: &str = "is required and not set: where Kafka is, as host:port; give it in the \
    worker's file, as SLUICE_BOOTSTRAP_SERVERS or by --set bootstrap.servers=HOST:PORT. Without a \
    Kafka, see `sluice demo`, or take a broker inside the worker by `sluice run --embedded-broker`";

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
            .then(|| Sasl::read(properties, faults))
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

    /// Where tokens for OAUTHBEARER come from, if that is how we log in.
    #[must_use]
    pub fn token_source(&self) -> Option<TokenSource> {
        self.sasl.as_ref().and_then(Sasl::token_source).cloned()
    }

    /// What connections authenticate with anew before their credentials end.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        match self.token_source() {
            Some(source) => Credentials::Tokens(source),
            None => Credentials::Constant(Arc::new(self.auth())),
        }
    }

    #[must_use]
    pub fn auth(&self) -> AuthConfig {
        let auth = match &self.sasl {
            None => AuthConfig::plaintext(),
            Some(sasl) => sasl.to_krafka(),
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
    // What is missing is told here, with the ways to get it.
    let servers = if reader.is_set(name) {
        reader.list(name)
    } else {
        Vec::new()
    };
    if servers.is_empty() {
        reader.fault(name, NO_SERVERS);
    }
    let is_address = |server: &&String| {
        server.rsplit_once(':').is_some_and(|(host, port)| {
            let is_host = !host.is_empty() && !host.contains('/');
            is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        })
    };
    if let Some(server) = servers.iter().find(|server| !is_address(server)) {
        let message = format!("{:?} is not host:port", scrub(&address(server)));
        reader.fault(name, message);
    }
    servers
}
