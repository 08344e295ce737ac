//! Certificates for the brokers' TLS listener, made anew for each cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The files of one authority: its certificate, and a key followed by its
/// certificate for the server and for one client.
#[derive(Debug, Clone)]
pub struct Certificates {
    pub ca: PathBuf,
    pub server: PathBuf,
    pub client: PathBuf,
}

impl Certificates {
    /// Makes an authority and writes its files into `folder`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        let mut params = named("Sluice test authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?;
        let issuer = Issuer::new(params, key);

        let server = named("localhost", &["localhost", "127.0.0.1"])?;
        let server = signed(server, ExtendedKeyUsagePurpose::ServerAuth, &issuer)?;
        let client = named("sluice", &[])?;
        let client = signed(client, ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
        Ok(Self {
            ca: write(folder.join("ca.pem"), &authority.pem())?,
            server: write(folder.join("server.pem"), &server)?,
            client: write(folder.join("client.pem"), &client)?,
        })
    }

    /// A server that asks clients for a certificate of the same authority.
    ///
    /// # Errors
    /// If the files are gone.
    pub fn server_config(&self) -> Result<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(&self.ca)? {
            roots.add(authority?)?;
        }
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let chain = CertificateDer::pem_file_iter(&self.server)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.build()?)
            .with_single_cert(
                chain.collect::<Result<_, _>>()?,
                PrivateKeyDer::from_pem_file(&self.server)?,
            )?;
        Ok(config)
    }
}

fn named(common_name: &str, alternatives: &[&str]) -> Result<CertificateParams> {
    let alternatives: Vec<String> = alternatives.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(alternatives)?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    Ok(params)
}

fn signed(
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<String> {
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(key.serialize_pem() + &certificate.pem())
}

fn write(path: PathBuf, pem: &str) -> Result<PathBuf> {
    std::fs::write(&path, pem).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
