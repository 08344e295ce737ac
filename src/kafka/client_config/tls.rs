//! `ssl.*`: trust and identity in PEM.

use std::fs;

use krafka::auth::TlsConfig;

use super::pem::{self, KeyFlaw};
use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Secret};

const TRUST_LOCATION: &str = "ssl.truststore.location";
const TRUST_INLINE: &str = "ssl.truststore.certificates";
const TRUST_TYPE: &str = "ssl.truststore.type";
const TRUST_PASSWORD: &str = "ssl.truststore.password";
const IDENTITY_LOCATION: &str = "ssl.keystore.location";
const IDENTITY_KEY: &str = "ssl.keystore.key";
const IDENTITY_CHAIN: &str = "ssl.keystore.certificate.chain";
const IDENTITY_TYPE: &str = "ssl.keystore.type";
const IDENTITY_PASSWORD: &str = "ssl.keystore.password";
const KEY_PASSWORD: &str = "ssl.key.password";
const HOST_CHECK: &str = "ssl.endpoint.identification.algorithm";

/// Whom to trust.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trust {
    /// The public authorities.
    Public,
    File(String),
    Inline(String),
}

/// Who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
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
    trust: Trust,
    identity: Option<Identity>,
    key_password: Option<Secret>,
}

impl Tls {
    pub(super) fn read(properties: &ClientProperties, faults: &mut Faults) -> Self {
        let mut stores = Stores { properties, faults };
        let trust = stores.trust();
        let identity = stores.identity();
        stores.check_host_names();
        Self {
            trust,
            identity,
            key_password: properties.get(KEY_PASSWORD).map(Secret::new),
        }
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
}

impl Tls {
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

/// A store of Java's, and the commands that make PEM of it.
struct Store {
    type_name: &'static str,
    from_pkcs12: &'static str,
    from_jks: &'static str,
}

/// Where the store's path goes in a command.
const PATH: &str = "STORE";

const TRUST: Store = Store {
    type_name: TRUST_TYPE,
    from_pkcs12: "openssl pkcs12 -in STORE -nokeys -out truststore.pem",
    from_jks: "keytool -list -rfc -keystore STORE > truststore.pem",
};

const IDENTITY: Store = Store {
    type_name: IDENTITY_TYPE,
    from_pkcs12: "openssl pkcs12 -in STORE -out keystore.pem",
    from_jks: "keytool -importkeystore -srckeystore STORE -destkeystore keystore.p12 -deststoretype PKCS12 && openssl pkcs12 -in keystore.p12 -out keystore.pem",
};

struct Stores<'a> {
    properties: &'a ClientProperties,
    faults: &'a mut Faults,
}

impl Stores<'_> {
    fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.faults.add(self.properties.key(name), message);
    }

    fn trust(&mut self) -> Trust {
        let location = self.properties.get(TRUST_LOCATION);
        let inline = self.properties.get(TRUST_INLINE);
        if location.is_none() && inline.is_none() {
            return Trust::Public;
        }
        if !self.is_pem(&TRUST, location) {
            return Trust::Public;
        }
        if self.properties.get(TRUST_PASSWORD).is_some() {
            self.fault(
                TRUST_PASSWORD,
                "cannot be used: PEM certificates have no password; remove it",
            );
        }
        match (location, inline) {
            (Some(_), Some(_)) => {
                self.fault(
                    TRUST_INLINE,
                    format!("excludes {TRUST_LOCATION}; give one of them"),
                );
                Trust::Public
            }
            (Some(path), None) => {
                self.check_trust_file(path);
                Trust::File(path.to_owned())
            }
            (None, inline) => {
                let pem = inline.unwrap_or_default();
                if let Err(message) = pem::check_certificates(pem.as_bytes()) {
                    self.fault(TRUST_INLINE, message);
                }
                Trust::Inline(pem.to_owned())
            }
        }
    }

    fn identity(&mut self) -> Option<Identity> {
        let location = self.properties.get(IDENTITY_LOCATION);
        let key = self.properties.get(IDENTITY_KEY);
        let chain = self.properties.get(IDENTITY_CHAIN);
        if location.is_none() && key.is_none() && chain.is_none() {
            if self.properties.get(KEY_PASSWORD).is_some() {
                self.fault(
                    KEY_PASSWORD,
                    format!("has no key to open; give {IDENTITY_LOCATION} or {IDENTITY_KEY}"),
                );
            }
            return None;
        }
        if !self.is_pem(&IDENTITY, location) {
            return None;
        }
        if self.properties.get(IDENTITY_PASSWORD).is_some() {
            self.fault(
                IDENTITY_PASSWORD,
                format!("cannot be used with PEM; the key's password is {KEY_PASSWORD}"),
            );
        }
        match (location, key, chain) {
            (Some(path), None, None) => {
                self.check_identity_file(path);
                Some(Identity::File(path.to_owned()))
            }
            (None, Some(key), Some(chain)) => {
                self.check_inline(chain, key);
                Some(Identity::Inline {
                    chain: chain.to_owned(),
                    key: Secret::new(key),
                })
            }
            (None, Some(_), None) => {
                self.fault(
                    IDENTITY_CHAIN,
                    format!("is not set, though {IDENTITY_KEY} is"),
                );
                None
            }
            (None, None, _) => {
                self.fault(
                    IDENTITY_KEY,
                    format!("is not set, though {IDENTITY_CHAIN} is"),
                );
                None
            }
            (Some(_), ..) => {
                self.fault(
                    IDENTITY_LOCATION,
                    format!("excludes {IDENTITY_KEY} and {IDENTITY_CHAIN}; give one or the others"),
                );
                None
            }
        }
    }

    fn check_identity_file(&mut self, path: &str) {
        match fs::read(path) {
            Err(error) => self.fault(IDENTITY_LOCATION, format!("{path} cannot be read: {error}")),
            Ok(pem) => {
                if let Err(message) = pem::check_certificates(&pem) {
                    self.fault(IDENTITY_LOCATION, format!("{path} {message}"));
                }
                self.check_key(&pem, IDENTITY_LOCATION);
            }
        }
    }

    fn check_inline(&mut self, chain: &str, key: &str) {
        if let Err(message) = pem::check_certificates(chain.as_bytes()) {
            self.fault(IDENTITY_CHAIN, message);
        }
        self.check_key(key.as_bytes(), IDENTITY_KEY);
    }

    fn check_key(&mut self, key: &[u8], name: &str) {
        match pem::check_key(key, self.properties.get(KEY_PASSWORD)) {
            Ok(()) => {}
            Err(KeyFlaw::Key(message)) => self.fault(name, message),
            Err(KeyFlaw::Password(message)) => self.fault(KEY_PASSWORD, message),
        }
    }

    /// Whether it is PEM, by the type's key; without one by the file's ending,
    /// and as Kafka has it (JKS) if that says nothing. Otherwise a fault with
    /// the command that makes PEM of it.
    fn is_pem(&mut self, store: &Store, location: Option<&str>) -> bool {
        let format = match (self.properties.get(store.type_name), location) {
            (Some(given), _) => given.to_ascii_uppercase(),
            (None, None) => "PEM".to_owned(),
            (None, Some(path)) => match path.rsplit('.').next() {
                Some("pem" | "crt" | "cer") => "PEM".to_owned(),
                Some("p12" | "pfx") => "PKCS12".to_owned(),
                _ => "JKS".to_owned(),
            },
        };
        let command = match format.as_str() {
            "PEM" => return true,
            "PKCS12" => store.from_pkcs12,
            "JKS" => store.from_jks,
            _ => {
                let message = format!("{format:?} is not a known type of store; PEM is taken");
                self.fault(store.type_name, message);
                return false;
            }
        };
        let command = command.replace(PATH, location.unwrap_or(PATH));
        let type_name = store.type_name;
        self.fault(
            type_name,
            format!("{format} stores are not read; convert it to PEM with `{command}` and set {type_name}=PEM"),
        );
        false
    }

    fn check_trust_file(&mut self, path: &str) {
        let checked = match fs::read(path) {
            Ok(pem) => pem::check_certificates(&pem),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        if let Err(message) = checked {
            self.fault(TRUST_LOCATION, format!("{path} {message}"));
        }
    }

    /// rustls always checks the host's name; there is no half way.
    fn check_host_names(&mut self) {
        let key = self.properties.key(HOST_CHECK);
        let is_given = self.properties.names().any(|name| name == HOST_CHECK);
        let value = self.properties.get(HOST_CHECK);
        if is_given && !value.is_some_and(|it| it.eq_ignore_ascii_case("https")) {
            self.faults.add(key, "host names are always checked; set it to https or remove it, and use a certificate that names the host");
        }
    }
}
