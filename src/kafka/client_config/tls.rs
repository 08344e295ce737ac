//! `ssl.*`: how to speak TLS.

use krafka::auth::TlsConfig;

use super::stores;
use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Secret};

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The public authorities.
    Public,
    File(String),
    Inline(String),
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// One file with chain and key.
    File(String),
    Inline {
        chain: String,
        key: Secret,
    },
}

/// How to speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) key_password: Option<Secret>,
}

impl Tls {
    pub(super) fn read(properties: &ClientProperties, faults: &mut Faults) -> Self {
        stores::read(properties, faults)
    }

    pub(super) fn to_krafka(&self) -> TlsConfig {
        let mut tls = TlsConfig::new();
        tls = match &self.trust {
            Trust::Public => tls,
            Trust::File(path) => tls.with_ca_cert(path),
            Trust::Inline(pem) => tls.with_ca_cert_pem(pem.as_str()),
        };
        tls = match &self.identity {
            None => tls,
            Some(Identity::File(path)) => tls.with_client_cert(path, path),
            Some(Identity::Inline { chain, key }) => {
                tls.with_client_cert_pem(chain.as_str(), key.reveal().as_bytes().to_vec())
            }
        };
        match &self.key_password {
            None => tls,
            Some(password) => tls.with_client_key_password(password.reveal()),
        }
    }

    pub(super) fn to_librdkafka(&self, config: &mut rdkafka::ClientConfig) {
        match &self.trust {
            Trust::Public => config.set("ssl.ca.location", "probe"),
            Trust::File(path) => config.set("ssl.ca.location", path),
            Trust::Inline(pem) => config.set("ssl.ca.pem", pem),
        };
        match &self.identity {
            None => {}
            Some(Identity::File(path)) => {
                config.set("ssl.certificate.location", path);
                config.set("ssl.key.location", path);
            }
            Some(Identity::Inline { chain, key }) => {
                config.set("ssl.certificate.pem", chain);
                config.set("ssl.key.pem", key.reveal());
            }
        }
        if let Some(password) = &self.key_password {
            config.set("ssl.key.password", password.reveal());
        }
    }
}
