//! Certificates and keys for the way to a collector, as PEM.

use std::fs;
use std::path::Path;

use reqwest::Url;
use rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::config::otlp::OtlpConfig;
use crate::http_client::{public_roots, tls};
use crate::pem::{self, KeyFlaw};

/// Checked: whoever gets it may rely on what it holds.
pub(super) struct Pems {
    authorities: Option<Vec<u8>>,
    /// Certificate and key.
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Pems {
    pub(super) fn read(config: &OtlpConfig) -> Result<Self, String> {
        let certificates = |path: &Path| {
            let pem = read(path)?;
            let checked = pem::certificates(&pem).map(drop);
            checked.map_err(|flaw| format!("{} {flaw}", path.display()))?;
            Ok::<_, String>(pem)
        };
        let client = config.client.as_ref().map(|files| {
            let pem = read(&files.key)?;
            let checked = pem::key(&pem, None).map(drop);
            checked.map_err(|flaw| match flaw {
                KeyFlaw::Key(flaw) => format!("{} {flaw}", files.key.display()),
                KeyFlaw::Password(_) => {
                    format!("{} is locked; give one that is not", files.key.display())
                }
            })?;
            Ok::<_, String>((certificates(&files.certificate)?, pem))
        });
        let authorities = config.certificate.as_deref();
        Ok(Self {
            authorities: authorities.map(certificates).transpose()?,
            client: client.transpose()?,
        })
    }

    pub(super) fn for_grpc(self) -> ClientTlsConfig {
        let tls = ClientTlsConfig::new();
        let tls = match self.authorities {
            Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            None => tls.with_webpki_roots(),
        };
        match self.client {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        }
    }

    pub(super) fn for_http(self) -> Result<ClientConfig, String> {
        let roots = match &self.authorities {
            Some(pem) => roots(pem)?,
            None => public_roots(),
        };
        let tls = tls(roots).map_err(|error| error.to_string())?;
        let Some((certificate, key)) = &self.client else {
            return Ok(tls.with_no_client_auth());
        };
        let key = pem::key(key, None).map_err(|_| "the key cannot be read")?;
        tls.with_client_auth_cert(pem::certificates(certificate)?, key)
            .map_err(|error| error.to_string())
    }
}

/// Whether the collector's address wants TLS.
pub(super) fn is_wanted(endpoint: &Url) -> bool {
    endpoint.scheme() == "https"
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(pem)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}
