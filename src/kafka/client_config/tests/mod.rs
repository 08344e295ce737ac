mod oauth;
mod tls;

use krafka::auth::{SaslMechanism, SecurityProtocol};

use super::*;
use crate::config::layers::{Layer, Settings};

fn read(pairs: &[(&str, &str)]) -> (ClientConfig, String) {
    let base = [("bootstrap.servers", "kafka:9092")];
    let pairs = base.iter().chain(pairs);
    let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let settings = Settings::merge([Layer::of(pairs.collect(), "file")]).unwrap();
    let properties = ClientProperties::new("").with(&settings, "", |_| true);
    let mut faults = Faults::default();
    let client = ClientConfig::read(&properties, "sluice", &mut faults);
    (client, faults.to_string())
}

fn auth(pairs: &[(&str, &str)]) -> AuthConfig {
    let (client, faults) = read(pairs);
    assert_eq!(faults, "");
    client.auth()
}

/// A CA and a client's chain and key, in PEM.
struct Pems {
    certificate: String,
    key: String,
}

fn pems() -> Pems {
    let certified = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
    Pems {
        certificate: certified.cert.pem(),
        key: certified.signing_key.serialize_pem(),
    }
}

const JAAS_PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"alice\" password=\"hush\";";
const JAAS_SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"alice\" password=\"hush\";";

#[test]
fn nothing_set_is_plaintext() {
    assert_eq!(auth(&[]).security_protocol(), &SecurityProtocol::Plaintext);
}

#[test]
fn each_protocol_and_mechanism_reaches_the_client() {
    use SecurityProtocol::{SaslPlaintext, SaslSsl, Ssl};
    for (protocol, mechanism, jaas, expected, sasl) in [
        ("SSL", None, None, Ssl, None),
        (
            "SASL_PLAINTEXT",
            None,
            Some(JAAS_PLAIN),
            SaslPlaintext,
            Some(SaslMechanism::Plain),
        ),
        (
            "sasl_ssl",
            Some("PLAIN"),
            Some(JAAS_PLAIN),
            SaslSsl,
            Some(SaslMechanism::Plain),
        ),
        (
            "SASL_SSL",
            Some("SCRAM-SHA-256"),
            Some(JAAS_SCRAM),
            SaslSsl,
            Some(SaslMechanism::ScramSha256),
        ),
        (
            "SASL_SSL",
            Some("SCRAM-SHA-512"),
            Some(JAAS_SCRAM),
            SaslSsl,
            Some(SaslMechanism::ScramSha512),
        ),
    ] {
        let mut pairs = vec![("security.protocol", protocol)];
        pairs.extend(mechanism.map(|it| ("sasl.mechanism", it)));
        pairs.extend(jaas.map(|it| ("sasl.jaas.config", it)));
        let auth = auth(&pairs);
        assert_eq!(auth.security_protocol(), &expected, "{protocol}");
        assert_eq!(auth.sasl_mechanism(), sasl.as_ref(), "{protocol}");
    }
    let auth = auth(&[
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.jaas.config", JAAS_PLAIN),
    ]);
    let credentials = auth.plain_credentials().unwrap();
    assert_eq!(
        (credentials.username.as_str(), credentials.password.as_str()),
        ("alice", "hush")
    );
}

#[test]
fn a_login_that_cannot_work_is_refused() {
    let sasl = ("security.protocol", "SASL_SSL");
    for (pairs, start) in [
        (&[sasl][..], "sasl.jaas.config: is required with SASL"),
        (
            &[sasl, ("sasl.jaas.config", "hush")],
            "sasl.jaas.config: has no control flag",
        ),
        (
            &[
                sasl,
                ("sasl.mechanism", "SCRAM-SHA-512"),
                ("sasl.jaas.config", JAAS_PLAIN),
            ],
            "sasl.jaas.config: its login module does not go with sasl.mechanism=SCRAM-SHA-512; use ScramLoginModule",
        ),
        (
            &[
                sasl,
                ("sasl.mechanism", "GSSAPI"),
                ("sasl.jaas.config", JAAS_PLAIN),
            ],
            "sasl.mechanism: Kerberos is not supported",
        ),
    ] {
        let (_, faults) = read(pairs);
        assert!(faults.starts_with(start), "{faults}");
        assert_eq!(faults.lines().count(), 1, "{faults}");
        assert!(!faults.contains("hush"), "{faults}");
    }
}

#[test]
fn librdkafka_gets_the_same_security() {
    let pems = pems();
    let (client, faults) = read(&[
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.jaas.config", JAAS_SCRAM),
        ("ssl.truststore.certificates", &pems.certificate),
        ("request.timeout.ms", "900000000"),
    ]);
    assert_eq!(faults, "");
    let config = client.librdkafka();
    for (name, value) in [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "alice"),
        ("sasl.password", "hush"),
        ("ssl.ca.pem", pems.certificate.trim_end()),
        ("bootstrap.servers", "kafka:9092"),
    ] {
        assert_eq!(config.get(name), Some(value), "{name}");
    }
    config.create_native_config().unwrap();
}

#[test]
fn security_that_would_not_happen_is_refused() {
    let (_, faults) = read(&[("sasl.jaas.config", JAAS_PLAIN)]);
    assert!(
        faults.starts_with("security.protocol: is not set, so that connections would be PLAINTEXT"),
        "{faults}"
    );
    // Said outright, it is meant.
    auth(&[
        ("security.protocol", "PLAINTEXT"),
        ("sasl.jaas.config", JAAS_PLAIN),
    ]);
}

#[test]
fn what_cannot_be_honoured_is_an_error() {
    for name in [
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.class",
        "sasl.kerberos.service.name",
    ] {
        let (_, faults) = read(&[("security.protocol", "SSL"), (name, "x")]);
        assert!(
            faults.starts_with(&format!("{name}: cannot be honoured: ")),
            "{faults}"
        );
    }
    for value in ["", "LDAPS"] {
        let (_, faults) = read(&[
            ("security.protocol", "SSL"),
            ("ssl.endpoint.identification.algorithm", value),
        ]);
        assert!(
            faults.starts_with(
                "ssl.endpoint.identification.algorithm: host names are always checked"
            ),
            "{faults}"
        );
    }
}

#[test]
fn brokers_are_host_and_port() {
    for bad in [
        "kafka",
        "kafka:",
        ":9092",
        "kafka:0",
        "kafka:x",
        "PLAINTEXT://kafka:9092",
    ] {
        let (_, faults) = read(&[("bootstrap.servers", bad)]);
        assert_eq!(
            faults,
            format!("bootstrap.servers: {bad:?} is not host:port")
        );
    }
    let (client, faults) = read(&[("bootstrap.servers", "a:1, [::1]:2")]);
    assert_eq!(
        (faults.as_str(), client.bootstrap_servers.as_slice()),
        ("", &["a:1".to_owned(), "[::1]:2".to_owned()][..])
    );
}

#[test]
fn no_secret_is_in_the_debug_form() {
    let pems = pems();
    let (client, faults) = read(&[
        ("security.protocol", "SASL_SSL"),
        ("sasl.jaas.config", JAAS_PLAIN),
        ("ssl.keystore.key", &pems.key),
        ("ssl.keystore.certificate.chain", &pems.certificate),
        ("ssl.key.password", "hush"),
    ]);
    assert_eq!(faults, "");
    let credentials = client.credentials();
    let printed = format!("{client:?} {:?} {credentials:?}", client.builder());
    assert!(
        !printed.contains("hush") && !printed.contains("PRIVATE KEY"),
        "{printed}"
    );
}
