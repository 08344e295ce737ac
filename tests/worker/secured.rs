//! Source and sink log in by every way that there is, and nothing shows a secret.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use openssl::pkcs12::Pkcs12;
use openssl::pkey::PKey;
use openssl::x509::X509;
use serde_json::{Value, json};
use sluice_test_support::consume::read_topic;
use sluice_test_support::counting::Tally;
use sluice_test_support::kafka::{Kafka, KafkaOptions};
use sluice_test_support::produce::{ids, json_records, produce};
use sluice_test_support::token_server::TokenServer;
use sluice_test_support::worker::{Worker, WorkerOptions};
use tempfile::TempDir;

use crate::stage::{BINARY, wait_for_status};
use crate::surfaces::Surfaces;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDS: usize = 200;
const PASSWORD: &str = "hush-password-1";
const STORE_PASSWORD: &str = "hush-store-2";
const CLIENT_SECRET: &str = "hush-client-3";
const PROXY_PASSWORD: &str = "hush-proxy-4";
/// No secret.
const CLIENT: &str = "no-secret-5";
const STRING: &str = "org.apache.kafka.connect.storage.StringConverter";
const MODULES: &str = "org.apache.kafka.common.security";

type Properties = Vec<(&'static str, String)>;

/// Where nobody listens: only a proxy leads to the token endpoint.
const BEHIND_PROXY: &str = "http://localhost:1/token";

/// The token endpoint as a proxy that wants a password.
fn proxy(tokens: &TokenServer) -> String {
    let address = tokens.url().trim_start_matches("http://");
    format!("http://proxy:{PROXY_PASSWORD}@{address}")
}

/// A cluster with a listener for each way in.
async fn cluster() -> Result<Kafka> {
    let options = KafkaOptions::new()
        .user("alice", PASSWORD)
        .plain_user("bob", PASSWORD)
        .client_certificates();
    Kafka::start(options).await
}

fn properties(servers: &str, more: &[(&'static str, &str)]) -> Properties {
    let servers = ("bootstrap.servers", servers);
    let all = std::iter::once(&servers).chain(more);
    all.map(|(key, value)| (*key, (*value).to_owned()))
        .collect()
}

/// The private key's text in a PEM file, without its frame.
fn key_text(pem: &str) -> String {
    let inside = pem.split("PRIVATE KEY-----").nth(1).unwrap_or_default();
    inside.lines().nth(1).unwrap_or_default().to_owned()
}

/// Carries records from one topic to another, and looks for secrets.
async fn carries(
    kafka: &Kafka,
    name: &str,
    login: &Properties,
    tokens: Option<&TokenServer>,
) -> Result<()> {
    let copy = format!("copy-of-{name}");
    let admin = kafka.admin().await?;
    admin.create_topic(name, 2).await?;
    admin.create_topic(&copy, 2).await?;
    let plain = kafka.bootstrap_servers();
    produce(plain, name, json_records(RECORDS, 2, 100)).await?;
    let connector = json!({
        "name": name,
        "connector.class": "kafka",
        "tasks.max": "2",
        "topics": name,
        "topic": "copy-of-${topic}",
        "key.converter": STRING,
        "value.converter": STRING,
        "consumer.override.group.protocol": "share",
        "consumer.override.client.id": CLIENT,
    });
    let mut options = WorkerOptions::new(BINARY)
        .property("log.format", "json")
        .property("log.level", "trace")
        .property("status.log.interval.ms", "50")
        .connector(name, &connector);
    for (key, value) in login {
        options = options.property(key, value);
    }
    if let Some(tokens) = tokens {
        options = options.environment("HTTP_PROXY", &proxy(tokens));
    }
    let worker = Worker::start(&options)?;
    let all = |status: &Value| status["accepted"] == RECORDS;
    wait_for_status(&worker, name, MINUTE, all).await?;
    let mut surfaces = Surfaces::of(&worker, &[name], &[]).await?;
    assert_eq!(worker.stop(MINUTE).await?.code(), Some(0));
    surfaces.printed(&worker)?;
    show_no_secret(&surfaces, name, kafka, tokens)?;
    let received = read_topic(plain, &copy).await?;
    let values = received.iter().filter_map(|it| it.value.as_deref());
    Tally::from_json_values(values, "/id").exactly_once(ids(RECORDS))
}

fn show_no_secret(
    surfaces: &Surfaces,
    name: &str,
    kafka: &Kafka,
    tokens: Option<&TokenServer>,
) -> Result<()> {
    let key = key_text(&fs::read_to_string(kafka.client_certificate_file())?);
    ensure!(key.len() > 20, "no key in the client's file");
    surfaces.hide(&[
        PASSWORD,
        STORE_PASSWORD,
        CLIENT_SECRET,
        PROXY_PASSWORD,
        &key,
    ])?;
    let issued = tokens.map(TokenServer::issued).unwrap_or_default();
    ensure!(
        tokens.is_none() || !issued.is_empty(),
        "no token was issued"
    );
    for token in issued {
        surfaces.hide(&[&token])?;
    }
    // What is no secret is found by the same means.
    let config = format!("GET /connectors/{name}/config");
    surfaces.show(CLIENT, &[&config, "sluice check"])?;
    surfaces.show("copy-of-", &[&config, "sluice check"])?;
    surfaces.show(
        name,
        &["GET /metrics", "sluice status --json", "standard error"],
    )
}

/// Stores as Java makes them: `trust.p12` and `client.p12`.
fn stores(kafka: &Kafka) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let trust = folder.path().join("trust.p12");
    let imported = Command::new("keytool")
        .args(["-importcert", "-noprompt", "-alias", "ca"])
        .args(["-storetype", "PKCS12", "-storepass", STORE_PASSWORD])
        .arg("-file")
        .arg(kafka.ca_file())
        .arg("-keystore")
        .arg(&trust)
        .output()?;
    ensure!(imported.status.success(), "keytool: {imported:?}");
    let pem = fs::read(kafka.client_certificate_file())?;
    let (key, certificate) = (PKey::private_key_from_pem(&pem)?, X509::from_pem(&pem)?);
    let mut store = Pkcs12::builder();
    let store = store.name("client").pkey(&key).cert(&certificate);
    let store = store.build2(STORE_PASSWORD)?.to_der()?;
    fs::write(folder.path().join("client.p12"), store)?;
    Ok(folder)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_or_a_certificate_lets_source_and_sink_in() -> Result<()> {
    let kafka = cluster().await?;
    let plain = format!(
        "{MODULES}.plain.PlainLoginModule required username=\"bob\" password=\"{PASSWORD}\";"
    );
    let scram = format!(
        "{MODULES}.scram.ScramLoginModule required username=\"alice\" password=\"{PASSWORD}\";"
    );
    let authority = shown(kafka.ca_file());
    let client = shown(kafka.client_certificate_file());
    let stores = stores(&kafka)?;
    let store = |name: &str| shown(&stores.path().join(name));
    let pem = fs::read_to_string(kafka.client_certificate_file())?;
    let (key, chain) = pem.split_at(pem.find("-----BEGIN CERTIFICATE").unwrap_or_default());
    for (name, login) in [
        (
            "plain",
            properties(
                kafka.plain_bootstrap_servers()?,
                &[
                    ("security.protocol", "SASL_PLAINTEXT"),
                    ("sasl.mechanism", "PLAIN"),
                    ("sasl.jaas.config", &plain),
                ],
            ),
        ),
        (
            "scram",
            properties(
                kafka.secure_bootstrap_servers()?,
                &[
                    ("security.protocol", "SASL_SSL"),
                    ("sasl.mechanism", "SCRAM-SHA-512"),
                    ("sasl.jaas.config", &scram),
                    ("ssl.truststore.location", &authority),
                ],
            ),
        ),
        (
            "pem-files",
            properties(
                kafka.ssl_bootstrap_servers()?,
                &[
                    ("security.protocol", "SSL"),
                    ("ssl.truststore.location", &authority),
                    ("ssl.keystore.location", &client),
                ],
            ),
        ),
        (
            "pem-inline",
            properties(
                kafka.ssl_bootstrap_servers()?,
                &[
                    ("security.protocol", "SSL"),
                    (
                        "ssl.truststore.certificates",
                        &fs::read_to_string(kafka.ca_file())?,
                    ),
                    ("ssl.keystore.key", key),
                    ("ssl.keystore.certificate.chain", chain),
                ],
            ),
        ),
        (
            "pkcs12",
            properties(
                kafka.ssl_bootstrap_servers()?,
                &[
                    ("security.protocol", "SSL"),
                    ("ssl.truststore.location", &store("trust.p12")),
                    ("ssl.truststore.password", STORE_PASSWORD),
                    ("ssl.keystore.location", &store("client.p12")),
                    ("ssl.keystore.password", STORE_PASSWORD),
                ],
            ),
        ),
    ] {
        carries(&kafka, name, &login, None).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lets_source_and_sink_in() -> Result<()> {
    let kafka = cluster().await?;
    let tokens = TokenServer::start("sluice", CLIENT_SECRET, Duration::from_secs(120)).await?;
    let module = format!("{MODULES}.oauthbearer.OAuthBearerLoginModule required");
    let unsecured = format!("{module} unsecuredLoginStringClaim_sub=\"sluice\";");
    let secured =
        format!("{module} clientId=\"sluice\" clientSecret=\"{CLIENT_SECRET}\" scope=\"kafka\";");
    let base = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "OAUTHBEARER"),
    ];
    let servers = kafka.plain_bootstrap_servers()?;
    let login = [&base[..], &[("sasl.jaas.config", unsecured.as_str())]].concat();
    carries(
        &kafka,
        "unsecured-token",
        &properties(servers, &login),
        None,
    )
    .await?;
    let login = [
        &base[..],
        &[
            ("sasl.jaas.config", secured.as_str()),
            ("sasl.oauthbearer.token.endpoint.url", BEHIND_PROXY),
        ],
    ]
    .concat();
    carries(
        &kafka,
        "token-endpoint",
        &properties(servers, &login),
        Some(&tokens),
    )
    .await
}
