//! PKCS12 stores to PEM, for clients that read only that.

use openssl::pkcs12::Pkcs12;
use openssl::x509::X509;

use crate::config::definition::Secret;

/// What a store holds, in PEM.
#[derive(Debug)]
pub(super) struct Opened {
    /// The key's own certificate first; then its chain, or those to trust.
    pub(super) certificates: String,
    pub(super) key: Option<Secret>,
}

/// Why a store does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreFlaw {
    NotAStore,
    /// The password, or a cipher of old that is not read any more.
    Locked,
}

pub(super) fn open_pkcs12(bytes: &[u8], password: &str) -> Result<Opened, StoreFlaw> {
    let store = Pkcs12::from_der(bytes).map_err(|_| StoreFlaw::NotAStore)?;
    if password.contains('\0') {
        return Err(StoreFlaw::Locked);
    }
    let parsed = store.parse2(password).map_err(|_| StoreFlaw::Locked)?;
    let others = parsed.ca.into_iter().flatten();
    let certificates: Result<String, StoreFlaw> = parsed
        .cert
        .into_iter()
        .chain(others)
        .map(|it| pem(&it))
        .collect();
    let key = match parsed.pkey {
        None => None,
        Some(key) => {
            let pem = key.private_key_to_pem_pkcs8();
            let pem = pem.map_err(|_| StoreFlaw::NotAStore)?;
            Some(Secret::new(String::from_utf8_lossy(&pem)))
        }
    };
    Ok(Opened {
        certificates: certificates?,
        key,
    })
}

fn pem(certificate: &X509) -> Result<String, StoreFlaw> {
    let pem = certificate.to_pem().map_err(|_| StoreFlaw::NotAStore)?;
    Ok(String::from_utf8_lossy(&pem).into_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use openssl::pkey::PKey;
    use openssl::stack::Stack;

    use super::*;

    /// A store with these, in PEM; the password is `hush`.
    pub(in super::super) fn pkcs12(certificate: &str, key: Option<&str>) -> Vec<u8> {
        let certificate = X509::from_pem(certificate.as_bytes()).unwrap();
        let mut builder = Pkcs12::builder();
        match key {
            Some(key) => {
                let key = PKey::private_key_from_pem(key.as_bytes()).unwrap();
                builder.pkey(&key).cert(&certificate);
            }
            None => {
                let mut trusted = Stack::new().unwrap();
                trusted.push(certificate).unwrap();
                builder.ca(trusted);
            }
        }
        builder.build2("hush").unwrap().to_der().unwrap()
    }

    #[test]
    fn a_wrong_password_and_a_wrong_file_are_told_apart() {
        let pair = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
        let store = pkcs12(&pair.cert.pem(), Some(&pair.signing_key.serialize_pem()));
        let flaw = |bytes, password| open_pkcs12(bytes, password).unwrap_err();
        assert_eq!(flaw(&store, "no"), StoreFlaw::Locked);
        assert_eq!(flaw(&store, "nu\0l"), StoreFlaw::Locked);
        assert_eq!(flaw(b"hush", "hush"), StoreFlaw::NotAStore);
    }
}
