//! Certificates and keys in PEM. Messages never show any of it.

use pkcs8::EncryptedPrivateKeyInfo;
use pkcs8::der::Document;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const LOCKED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const LOCKED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// How OpenSSL locked keys of the old form.
const LOCKED_OLD: &str = "Proc-Type: 4,ENCRYPTED";
const LOCK_ANEW: &str = "lock it anew with `openssl pkcs8 -topk8 -v2 aes256`";

/// All certificates, of which there is at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err("holds no PEM certificate"),
        Err(_) => Err("holds a PEM certificate that cannot be read"),
    }
}

/// What is wrong: the key itself, or its password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyFlaw {
    Key(String),
    Password(String),
}

/// The private key, opened by its password if it is locked.
pub(crate) fn key(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, KeyFlaw> {
    let text = String::from_utf8_lossy(pem);
    if text.contains(LOCKED_OLD) {
        let message = format!("holds a key that is locked in OpenSSL's old way; {LOCK_ANEW}");
        return Err(KeyFlaw::Key(message));
    }
    if let Some(locked) = locked_section(&text) {
        return unlocked(locked, password);
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyFlaw::Key("holds no PEM private key".into()))
}

fn locked_section(text: &str) -> Option<&str> {
    let section = &text[text.find(LOCKED_BEGIN)?..];
    let end = section.find(LOCKED_END)? + LOCKED_END.len();
    Some(&section[..end])
}

fn unlocked(locked: &str, password: Option<&str>) -> Result<PrivateKeyDer<'static>, KeyFlaw> {
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
        Ok(key) => Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into()),
        Err(_) => Err(KeyFlaw::Password("does not open the key".into())),
    }
}

#[cfg(test)]
mod tests {
    use openssl::pkey::PKey;
    use openssl::symm::Cipher;

    use super::*;

    fn pair() -> (String, String) {
        let pair = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
        (pair.cert.pem(), pair.signing_key.serialize_pem())
    }

    #[test]
    fn a_key_is_the_same_locked_and_unlocked() {
        let (_, plain) = pair();
        let key_of_openssl = PKey::private_key_from_pem(plain.as_bytes()).unwrap();
        let locked = key_of_openssl
            .private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), b"hush")
            .unwrap();
        let opened = key(plain.as_bytes(), None).unwrap();
        assert_eq!(key(&locked, Some("hush")).unwrap(), opened);
        let flaw = |message: &str| Err(KeyFlaw::Password(message.to_owned()));
        assert_eq!(key(&locked, Some("no")), flaw("does not open the key"));
        assert_eq!(
            key(&locked, None),
            flaw("is not set, and the key is locked")
        );
    }

    #[test]
    fn certificates_are_all_read_or_none() {
        let (certificate, key) = pair();
        let two = format!("{certificate}{key}{certificate}");
        assert_eq!(certificates(two.as_bytes()).unwrap().len(), 2);
        assert_eq!(
            certificates(key.as_bytes()),
            Err("holds no PEM certificate")
        );
        let torn = format!("{certificate}-----BEGIN CERTIFICATE-----\n?\n");
        assert_eq!(
            certificates(torn.as_bytes()),
            Err("holds a PEM certificate that cannot be read")
        );
    }
}
