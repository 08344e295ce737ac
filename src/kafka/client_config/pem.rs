//! Whether PEM holds what it should. Messages never show any of it.

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::Document;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const LOCKED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const LOCKED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// How OpenSSL locked keys of the old form.
const LOCKED_OLD: &str = "Proc-Type: 4,ENCRYPTED";
const LOCK_ANEW: &str = "lock it anew with `openssl pkcs8 -topk8 -v2 aes256`";

pub(super) fn check_certificates(pem: &[u8]) -> Result<(), String> {
    match CertificateDer::pem_slice_iter(pem).next() {
        Some(Ok(_)) => Ok(()),
        _ => Err("holds no PEM certificate".into()),
    }
}

/// What is wrong: the key itself, or its password.
pub(super) enum KeyFlaw {
    Key(String),
    Password(String),
}

pub(super) fn check_key(pem: &[u8], password: Option<&str>) -> Result<(), KeyFlaw> {
    let text = String::from_utf8_lossy(pem);
    if text.contains(LOCKED_OLD) {
        let message = format!("holds a key that is locked in OpenSSL's old way; {LOCK_ANEW}");
        return Err(KeyFlaw::Key(message));
    }
    if let Some(locked) = locked_section(&text) {
        return unlock(locked, password);
    }
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(_) => Ok(()),
        Err(_) => Err(KeyFlaw::Key("holds no PEM private key".into())),
    }
}

fn locked_section(text: &str) -> Option<&str> {
    let section = &text[text.find(LOCKED_BEGIN)?..];
    let end = section.find(LOCKED_END)? + LOCKED_END.len();
    Some(&section[..end])
}

fn unlock(locked: &str, password: Option<&str>) -> Result<(), KeyFlaw> {
    let Some(password) = password else {
        let message = "is not set, and the key is locked".to_owned();
        return Err(KeyFlaw::Password(message));
    };
    let unreadable = || {
        KeyFlaw::Key(format!(
            "holds a locked key that cannot be read; {LOCK_ANEW}"
        ))
    };
    let (_, document) = Document::from_pem(locked).map_err(|_| unreadable())?;
    let key = EncryptedPrivateKeyInfo::try_from(document.as_bytes()).map_err(|_| unreadable())?;
    match key.decrypt(password) {
        Ok(_) => Ok(()),
        Err(_) => Err(KeyFlaw::Password("does not open the key".into())),
    }
}
