//! Where trust and identity lie: PEM in files or in the settings, or PKCS12
//! stores.

use super::pkcs12::{Opened, StoreFlaw, open_pkcs12};
use super::tls::{Identity, Tls, Trust};
use crate::config::client_properties::ClientProperties;
use crate::config::definition::{Faults, Secret};
use crate::pem::{self, KeyFlaw};
use crate::small_file;

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

/// Reads all that TLS is told.
pub(super) fn read(properties: &ClientProperties, faults: &mut Faults) -> Tls {
    let mut stores = Stores { properties, faults };
    let trust = stores.trust();
    let identity = stores.identity();
    stores.check_host_names();
    let is_unlocked = stores.format(&IDENTITY) == Format::Pkcs12;
    let key_password = properties.get(KEY_PASSWORD).filter(|_| !is_unlocked);
    Tls {
        trust,
        identity,
        key_password: key_password.map(Secret::new),
    }
}

/// A store of Java's, and the commands that make PEM of it.
struct Store {
    location: &'static str,
    type_name: &'static str,
    password: &'static str,
    from_jks: &'static str,
    /// For PKCS12 that was locked with ciphers of old.
    lock_anew: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
    Jks,
    Unknown,
}

/// Where the store's path goes in a command.
const PATH: &str = "STORE";

const LOCK_ANEW: &str =
    "keytool -importkeystore -srckeystore STORE -destkeystore new.p12 -deststoretype PKCS12";

const TRUST: Store = Store {
    location: TRUST_LOCATION,
    type_name: TRUST_TYPE,
    password: TRUST_PASSWORD,
    from_jks: "keytool -importkeystore -srckeystore STORE -destkeystore truststore.p12 -deststoretype PKCS12",
    lock_anew: LOCK_ANEW,
};

const IDENTITY: Store = Store {
    location: IDENTITY_LOCATION,
    type_name: IDENTITY_TYPE,
    password: IDENTITY_PASSWORD,
    from_jks: "keytool -importkeystore -srckeystore STORE -destkeystore keystore.p12 -deststoretype PKCS12",
    lock_anew: LOCK_ANEW,
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
        match (self.format(&TRUST), location) {
            (Format::Pem, _) => {}
            (Format::Pkcs12, Some(path)) if inline.is_none() => {
                return self.trust_of_store(path).unwrap_or(Trust::Public);
            }
            _ => {
                self.refuse_format(&TRUST, inline.map(|_| TRUST_INLINE));
                return Trust::Public;
            }
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
                if let Err(message) = pem::certificates(pem.as_bytes()) {
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
        match (self.format(&IDENTITY), location) {
            (Format::Pem, _) => {}
            (Format::Pkcs12, Some(path)) if key.is_none() && chain.is_none() => {
                return self.identity_of_store(path);
            }
            _ => {
                let inline = chain.map(|_| IDENTITY_CHAIN).or(key.map(|_| IDENTITY_KEY));
                self.refuse_format(&IDENTITY, inline);
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
        match small_file::read(path) {
            Err(message) => self.fault(IDENTITY_LOCATION, format!("{path} {message}")),
            Ok(pem) => {
                if let Err(message) = pem::certificates(&pem) {
                    self.fault(IDENTITY_LOCATION, format!("{path} {message}"));
                }
                self.check_key(&pem, IDENTITY_LOCATION);
            }
        }
    }

    fn check_inline(&mut self, chain: &str, key: &str) {
        if let Err(message) = pem::certificates(chain.as_bytes()) {
            self.fault(IDENTITY_CHAIN, message);
        }
        self.check_key(key.as_bytes(), IDENTITY_KEY);
    }

    fn check_key(&mut self, key: &[u8], name: &str) {
        match pem::key(key, self.properties.get(KEY_PASSWORD)) {
            Ok(_) => {}
            Err(KeyFlaw::Key(message)) => self.fault(name, message),
            Err(KeyFlaw::Password(message)) => self.fault(KEY_PASSWORD, message),
        }
    }

    /// By the type's key; without one by the file's ending, and as Kafka has
    /// it (JKS) if that says nothing.
    fn format(&self, store: &Store) -> Format {
        let location = self.properties.get(store.location);
        match (self.properties.get(store.type_name), location) {
            (Some(given), _) => match given.to_ascii_uppercase().as_str() {
                "PEM" => Format::Pem,
                "PKCS12" => Format::Pkcs12,
                "JKS" => Format::Jks,
                _ => Format::Unknown,
            },
            (None, None) => Format::Pem,
            (None, Some(path)) => match path.rsplit('.').next() {
                Some("pem" | "crt" | "cer") => Format::Pem,
                Some("p12" | "pfx" | "pkcs12") => Format::Pkcs12,
                _ => Format::Jks,
            },
        }
    }

    /// A store that is not read, with the command that makes one of it that
    /// is; or one that stands beside what is given in its place.
    fn refuse_format(&mut self, store: &Store, inline: Option<&str>) {
        let type_name = store.type_name;
        let location = self.properties.get(store.location).unwrap_or(PATH);
        let command = store.from_jks.replace(PATH, location);
        match (self.format(store), inline) {
            (Format::Pkcs12, Some(inline)) => self.fault(
                type_name,
                format!("PKCS12 does not go with {inline}, which is PEM"),
            ),
            (Format::Jks, _) => self.fault(
                type_name,
                format!("JKS stores are not read; convert it with `{command}` and set {type_name}=PKCS12"),
            ),
            _ => self.fault(type_name, "is not a known type of store; PEM and PKCS12 are taken"),
        }
    }

    fn trust_of_store(&mut self, path: &str) -> Option<Trust> {
        let opened = self.open(&TRUST, path)?;
        if opened.certificates.is_empty() {
            self.fault(TRUST_LOCATION, format!("{path} holds no certificate"));
            return None;
        }
        Some(Trust::Inline(opened.certificates))
    }

    fn identity_of_store(&mut self, path: &str) -> Option<Identity> {
        let password = self.properties.get(IDENTITY_PASSWORD);
        let key_password = self.properties.get(KEY_PASSWORD);
        if key_password.is_some() && key_password != password {
            self.fault(
                KEY_PASSWORD,
                format!("differs from {IDENTITY_PASSWORD}; the key in a PKCS12 store has the store's password"),
            );
            return None;
        }
        match self.open(&IDENTITY, path)? {
            Opened {
                certificates,
                key: Some(key),
            } if !certificates.is_empty() => Some(Identity::Inline {
                chain: certificates,
                key,
            }),
            _ => {
                let message = format!("{path} holds no key with its certificate");
                self.fault(IDENTITY_LOCATION, message);
                None
            }
        }
    }

    fn open(&mut self, store: &Store, path: &str) -> Option<Opened> {
        let bytes = match small_file::read(path) {
            Ok(bytes) => bytes,
            Err(message) => {
                self.fault(store.location, format!("{path} {message}"));
                return None;
            }
        };
        let password = self.properties.get(store.password);
        match open_pkcs12(&bytes, password.unwrap_or_default()) {
            Ok(opened) => return Some(opened),
            Err(StoreFlaw::NotAStore) => {
                self.fault(store.location, format!("{path} is no PKCS12 store"));
            }
            Err(StoreFlaw::Locked) if password.is_none() => {
                self.fault(store.password, format!("is not set, and {path} is locked"));
            }
            Err(StoreFlaw::Locked) => {
                let command = store.lock_anew.replace(PATH, path);
                self.fault(
                    store.password,
                    format!("does not open {path}; if it is right, the store has an old cipher: lock it anew with `{command}`"),
                );
            }
        }
        None
    }

    fn check_trust_file(&mut self, path: &str) {
        let checked = small_file::read(path)
            .and_then(|pem| pem::certificates(&pem).map(drop).map_err(str::to_owned));
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
