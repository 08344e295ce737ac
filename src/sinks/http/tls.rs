//! TLS for https: whom to trust, and who we are.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::config::definition::Reader;
use crate::sinks::http::keys;
use crate::{http_client, pem, small_file};

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// HTTP's versions in the order of preference, as TLS names them.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// `None` after a fault.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<ClientConfig> {
    let roots = match reader.optional_text(keys::TRUST) {
        None => http_client::public_roots(),
        Some(path) => from_file(reader, keys::TRUST, &path, roots)?,
    };
    let identity = match reader.optional_text(keys::IDENTITY) {
        None => None,
        Some(path) => Some(from_file(reader, keys::IDENTITY, &path, identity)?),
    };
    config(roots, identity)
        .map_err(|error| reader.fault(keys::IDENTITY, format!("cannot be used: {error}")))
        .ok()
}

fn config(roots: RootCertStore, identity: Option<Identity>) -> Result<ClientConfig, rustls::Error> {
    let builder = http_client::tls(roots)?;
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(config)
}

fn from_file<T>(
    reader: &mut Reader<'_>,
    key: &str,
    path: &str,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Option<T> {
    small_file::read(path)
        .and_then(|pem| parse(&pem))
        .map_err(|message| reader.fault(key, format!("{path} {message}")))
        .ok()
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(pem)?);
    if roots.is_empty() {
        return Err("holds no certificate of an authority".into());
    }
    Ok(roots)
}

fn identity(pem: &[u8]) -> Result<Identity, String> {
    let key = pem::key(pem, None).map_err(|_| {
        "holds no unlocked private key in PEM; `openssl pkey` unlocks one".to_owned()
    })?;
    Ok((certificates(pem)?, key))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    pem::certificates(pem).map_err(|flaw| {
        format!(
            "{flaw}; Java's stores are converted with `openssl pkcs12` or `keytool -exportcert \
             -rfc`"
        )
    })
}
