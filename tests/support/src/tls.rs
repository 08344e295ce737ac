//! Certificates for the brokers' TLS listener, made anew for each cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

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
