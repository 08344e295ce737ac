//! `ssl.*`: trust and identity in PEM.

use std::fs;

use krafka::auth::TlsConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

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

/// What a store is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
    Jks,
}

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
        match self.format(TRUST_TYPE, location) {
            Some(Format::Pem) => {}
            Some(Format::Pkcs12) => {
                self.wants_pem(TRUST_TYPE, location, "PKCS12", |path| {
                    format!("openssl pkcs12 -in {path} -nokeys -out truststore.pem")
                });
                return Trust::Public;
            }
            Some(Format::Jks) => {
                self.wants_pem(TRUST_TYPE, location, "JKS", |path| {
                    format!("keytool -list -rfc -keystore {path} > truststore.pem")
                });
                return Trust::Public;
            }
            None => return Trust::Public,
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
                self.check_file(TRUST_LOCATION, path, has_certificate);
                Trust::File(path.to_owned())
            }
            (None, inline) => {
                let pem = inline.unwrap_or_default();
                if let Err(message) = has_certificate(pem.as_bytes()) {
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
        match self.format(IDENTITY_TYPE, location)? {
            Format::Pem => {}
            Format::Pkcs12 => {
                self.wants_pem(IDENTITY_TYPE, location, "PKCS12", |path| {
                    format!("openssl pkcs12 -in {path} -out keystore.pem")
                });
                return None;
            }
            Format::Jks => {
                self.wants_pem(IDENTITY_TYPE, location, "JKS", |path| {
                    format!(
                        "keytool -importkeystore -srckeystore {path} -destkeystore keystore.p12 -deststoretype PKCS12 && openssl pkcs12 -in keystore.p12 -out keystore.pem"
                    )
                });
                return None;
            }
        }
        if self.properties.get(IDENTITY_PASSWORD).is_some() {
            self.fault(
                IDENTITY_PASSWORD,
                format!("cannot be used with PEM; the key's password is {KEY_PASSWORD}"),
            );
        }
        match (location, key, chain) {
            (Some(path), None, None) => {
                self.check_file(IDENTITY_LOCATION, path, has_chain_and_key);
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

    fn check_inline(&mut self, chain: &str, key: &str) {
        if let Err(message) = has_certificate(chain.as_bytes()) {
            self.fault(IDENTITY_CHAIN, message);
        }
        if let Err(message) = has_key(key.as_bytes()) {
            self.fault(IDENTITY_KEY, message);
        }
    }

    /// The format by its key; without one by the file's ending, and as Kafka
    /// has it (JKS) if that says nothing.
    fn format(&mut self, type_name: &str, location: Option<&str>) -> Option<Format> {
        let Some(given) = self.properties.get(type_name) else {
            let ending = location.map(|path| path.rsplit('.').next().unwrap_or_default());
            return Some(match ending {
                None | Some("pem" | "crt" | "cer") => Format::Pem,
                Some("p12" | "pfx") => Format::Pkcs12,
                Some(_) => Format::Jks,
            });
        };
        let format = match given.to_ascii_uppercase().as_str() {
            "PEM" => Format::Pem,
            "PKCS12" => Format::Pkcs12,
            "JKS" => Format::Jks,
            _ => {
                self.fault(
                    type_name,
                    format!("{given:?} is not a known type of store; PEM is taken"),
                );
                return None;
            }
        };
        Some(format)
    }

    fn wants_pem(
        &mut self,
        type_name: &str,
        location: Option<&str>,
        format: &str,
        command: impl Fn(&str) -> String,
    ) {
        let command = command(location.unwrap_or("STORE"));
        self.fault(type_name, format!("{format} stores are not read; convert it to PEM with `{command}` and set {type_name}=PEM"));
    }

    fn check_file(&mut self, name: &str, path: &str, check: fn(&[u8]) -> Result<(), String>) {
        let checked = match fs::read(path) {
            Ok(pem) => check(&pem),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        if let Err(message) = checked {
            self.fault(name, format!("{path} {message}"));
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

fn has_certificate(pem: &[u8]) -> Result<(), String> {
    match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(_)) => Ok(()),
        _ => Err("holds no PEM certificate".into()),
    }
}

fn has_key(pem: &[u8]) -> Result<(), String> {
    let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    let is_encrypted = pem.windows(encrypted.len()).any(|part| part == encrypted);
    if is_encrypted || PrivateKeyDer::from_pem_slice(pem).is_ok() {
        return Ok(());
    }
    Err("holds no PEM private key".into())
}

fn has_chain_and_key(pem: &[u8]) -> Result<(), String> {
    has_certificate(pem).and_then(|()| has_key(pem))
}
