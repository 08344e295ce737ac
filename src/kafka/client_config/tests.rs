use std::fs;

use krafka::auth::{SaslMechanism, SecurityProtocol};

use super::store::tests::pkcs12;
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

const OAUTH: (&str, &str) = ("sasl.mechanism", "OAUTHBEARER");
const TOKEN_URL: &str = "sasl.oauthbearer.token.endpoint.url";

fn oauth_jaas(options: &str) -> String {
    format!(
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {options};"
    )
}

#[test]
fn oauthbearer_has_one_source_for_both_clients() {
    let jaas = oauth_jaas(r#"clientId="c" clientSecret="hush" scope="kafka""#);
    let pairs = [
        ("security.protocol", "SASL_SSL"),
        OAUTH,
        ("sasl.jaas.config", jaas.as_str()),
        (TOKEN_URL, "https://idp/token"),
        (
            "sasl.login.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        ),
    ];
    let (client, faults) = read(&pairs);
    assert_eq!(faults, "");
    assert_eq!(
        client.auth().sasl_mechanism(),
        Some(&SaslMechanism::OAuthBearer)
    );
    assert_eq!(
        client.librdkafka().get("sasl.mechanism"),
        Some("OAUTHBEARER")
    );
    assert!(client.token_source().is_some());
    let printed = format!("{client:?} {:?}", client.auth());
    assert!(!printed.contains("hush"), "{printed}");

    // Kafka's newer names for the same.
    let (newer, faults) = read(&[
        pairs[0],
        OAUTH,
        ("sasl.jaas.config", &oauth_jaas("")),
        pairs[3],
        ("sasl.oauthbearer.client.credentials.client.id", "c"),
        ("sasl.oauthbearer.client.credentials.client.secret", "hush"),
        ("sasl.oauthbearer.scope", "kafka"),
    ]);
    assert_eq!(faults, "");
    assert_eq!(newer.token_source(), client.token_source());
}

#[test]
fn an_unsecured_token_needs_a_subject_and_no_endpoint() {
    let with = |jaas: &str, more: &[(&str, &str)]| {
        let jaas = oauth_jaas(jaas);
        let base = [
            ("security.protocol", "SASL_PLAINTEXT"),
            OAUTH,
            ("sasl.jaas.config", &jaas),
        ];
        read(&base.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let (client, faults) = with(r#"unsecuredLoginStringClaim_sub="alice""#, &[]);
    assert_eq!(faults, "");
    let token = client.token_source().unwrap().fetch_blocking().unwrap();
    assert_eq!(token.principal, "alice");
    for (jaas, more, fault) in [
        (
            "",
            &[][..],
            "sasl.jaas.config: has no unsecuredLoginStringClaim_sub",
        ),
        (
            r#"unsecuredLoginStringClaim_sub="a" extension_x="hush""#,
            &[],
            "sasl.jaas.config: has the option extension_x, which cannot be honoured",
        ),
        (
            r#"clientId="c""#,
            &[(TOKEN_URL, "https://idp/token")],
            "sasl.jaas.config: has no clientSecret, and sasl.oauthbearer.client.credentials.client.secret is not set either",
        ),
        (
            r#"clientId="c" clientSecret="hush""#,
            &[(TOKEN_URL, "http://idp/token")],
            "sasl.oauthbearer.token.endpoint.url: would send the client's secret in clear; use https",
        ),
        (
            r#"unsecuredLoginStringClaim_sub="a""#,
            &[("sasl.login.callback.handler.class", "com.example.Mine")],
            "sasl.login.callback.handler.class: cannot be honoured: Java classes are not loaded",
        ),
    ] {
        let (_, faults) = with(jaas, more);
        assert!(faults.starts_with(fault), "{faults}");
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
fn pem_from_files_and_inline_makes_a_working_tls_configuration() {
    let pems = pems();
    let folder = tempfile::tempdir().unwrap();
    let trust = folder.path().join("ca.pem");
    let identity = folder.path().join("client.pem");
    fs::write(&trust, &pems.certificate).unwrap();
    fs::write(&identity, format!("{}{}", pems.certificate, pems.key)).unwrap();
    let from_files = [
        ("security.protocol", "SSL"),
        ("ssl.truststore.location", trust.to_str().unwrap()),
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", identity.to_str().unwrap()),
        ("ssl.endpoint.identification.algorithm", "https"),
    ];
    let inline = [
        ("security.protocol", "SSL"),
        ("ssl.truststore.certificates", &*pems.certificate),
        ("ssl.keystore.key", &*pems.key),
        ("ssl.keystore.certificate.chain", &*pems.certificate),
    ];
    for pairs in [&from_files[..], &inline] {
        let auth = auth(pairs);
        let tls = auth.tls_config().unwrap();
        assert!(tls.verify_server_cert());
        assert!(!format!("{tls:?}").contains("PRIVATE KEY"));
        builds(tls).unwrap();
    }
}

/// Whether krafka can make something of it.
fn builds(tls: &krafka::auth::TlsConfig) -> Result<(), String> {
    install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let patience = Duration::from_secs(1);
    let built = runtime.block_on(krafka::__private::tls::build_tls_config(tls, patience));
    built.map(drop).map_err(|error| error.to_string())
}

/// A certificate and its key; the key's password is `hush`.
const LOCKED_CHAIN: &str = "-----BEGIN CERTIFICATE-----
MIIBbjCCARWgAwIBAgIUP3atqUssGfqlcwETgo83ZKUyBFswCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBYzAgFw0yNjExMzAwNTU0MjdaGA8yMTI2MTEwNjA1NTQyN1ow
DDEKMAgGA1UEAwwBYzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPO7pCD9fHYw
iAUtj2GtoklcaqocI+OevebCzEN2UHgggdrJiVC1pzg3W/YaJGCKEECOheHUpKIx
4NmiS/M8YEqjUzBRMB0GA1UdDgQWBBQBhiWb1IiRXPllMDeC9c7cPRtAXTAfBgNV
HSMEGDAWgBQBhiWb1IiRXPllMDeC9c7cPRtAXTAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0cAMEQCIFvIqa6AJ/5YsLgyb4DDQMmH2vfn+z75LUfdF0OJ7Lpa
AiBn/s8Y3A0OH8RfMlY4uyNf0o8rw3uwGxB7kDSUfLErlg==
-----END CERTIFICATE-----";
const LOCKED_KEY: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg0IQd4KazXzQICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEPUhDLzCDkw5vI11wX0ymQsEgZDX
apRvn8ydiDyctsIFJyIHWklp4yDBjmFYYBbhdjw4RIyXaSWdslGjlRsKZTsQQv3r
3QEXN9csSxPa13CfqsRJpVdXdnQ3DP6zXOY80w43RLRz+csgd5PRlS6aFouW8dsh
Yu568WECLiUbIDmzOD5XI7RenQS0MVQu6Fjhdqii1ZFpSDp4shZLLGpWCnw8o90=
-----END ENCRYPTED PRIVATE KEY-----";

#[test]
fn a_locked_key_is_opened_with_its_password() {
    let with = |password| {
        read(&[
            ("security.protocol", "SSL"),
            ("ssl.keystore.certificate.chain", LOCKED_CHAIN),
            ("ssl.keystore.key", LOCKED_KEY),
            ("ssl.key.password", password),
        ])
    };
    let (client, faults) = with("hush");
    assert_eq!(faults, "");
    assert_eq!(builds(client.auth().tls_config().unwrap()), Ok(()));
    assert_eq!(with("no").1, "ssl.key.password: does not open the key");
    assert_eq!(
        with("").1,
        "ssl.key.password: is not set, and the key is locked"
    );
}

#[test]
fn a_key_that_is_locked_in_a_way_not_read_comes_with_the_command() {
    let old =
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n-----END RSA PRIVATE KEY-----";
    let broken = LOCKED_KEY.replace("MIHs", "MIHt");
    for (key, words) in [(old, "old way"), (broken.as_str(), "cannot be read")] {
        let (_, faults) = read(&[
            ("security.protocol", "SSL"),
            ("ssl.keystore.certificate.chain", LOCKED_CHAIN),
            ("ssl.keystore.key", key),
            ("ssl.key.password", "hush"),
        ]);
        assert!(faults.starts_with("ssl.keystore.key: "), "{faults}");
        assert!(
            faults.contains(words) && faults.contains("`openssl pkcs8"),
            "{faults}"
        );
    }
}

#[test]
fn stores_of_java_are_refused_with_the_command_that_converts_them() {
    for (kind, path, name) in [
        ("truststore", "/t.jks", "truststore.p12"),
        ("keystore", "/k.store", "keystore.p12"),
    ] {
        let location = format!("ssl.{kind}.location");
        let (_, faults) = read(&[("security.protocol", "SSL"), (&location, path)]);
        assert_eq!(
            faults,
            format!(
                "ssl.{kind}.type: JKS stores are not read; convert it with `keytool -importkeystore -srckeystore {path} -destkeystore {name} -deststoretype PKCS12` and set ssl.{kind}.type=PKCS12"
            )
        );
    }
}

/// A folder with `trust.p12` and `client.p12`.
fn stores(pems: &Pems) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let trust = pkcs12(&pems.certificate, None);
    let identity = pkcs12(&pems.certificate, Some(&pems.key));
    fs::write(folder.path().join("trust.p12"), trust).unwrap();
    fs::write(folder.path().join("client.p12"), identity).unwrap();
    folder
}

#[test]
fn pkcs12_stores_are_opened_for_both_clients() {
    let pems = pems();
    let folder = stores(&pems);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (client, faults) = read(&[
        ("security.protocol", "SSL"),
        ("ssl.truststore.location", &path("trust.p12")),
        ("ssl.truststore.password", "hush"),
        ("ssl.keystore.type", "PKCS12"),
        ("ssl.keystore.location", &path("client.p12")),
        ("ssl.keystore.password", "hush"),
        ("ssl.key.password", "hush"),
    ]);
    assert_eq!(faults, "");
    assert_eq!(builds(client.auth().tls_config().unwrap()), Ok(()));
    let config = client.librdkafka();
    assert_eq!(config.get("ssl.ca.pem"), Some(&*pems.certificate));
    assert_eq!(config.get("ssl.certificate.pem"), Some(&*pems.certificate));
    assert!(
        config
            .get("ssl.key.pem")
            .unwrap()
            .starts_with("-----BEGIN PRIVATE KEY")
    );
    assert_eq!(config.get("ssl.key.password"), None);
}

#[test]
fn a_store_that_does_not_open_is_named_with_its_key() {
    let folder = stores(&pems());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (trust, identity) = (path("trust.p12"), path("client.p12"));
    for (pairs, fault) in [
        (
            &[("ssl.truststore.location", trust.as_str())][..],
            "ssl.truststore.password: is not set, and ",
        ),
        (
            &[
                ("ssl.truststore.location", &trust),
                ("ssl.truststore.password", "no"),
            ],
            "ssl.truststore.password: does not open ",
        ),
        (
            &[
                ("ssl.keystore.location", &trust),
                ("ssl.keystore.password", "hush"),
            ],
            "ssl.keystore.location: ",
        ),
        (
            &[
                ("ssl.keystore.location", &identity),
                ("ssl.keystore.password", "hush"),
                ("ssl.key.password", "other"),
            ],
            "ssl.key.password: differs from ssl.keystore.password",
        ),
    ] {
        let ssl = ("security.protocol", "SSL");
        let pairs: Vec<_> = std::iter::once(ssl).chain(pairs.iter().copied()).collect();
        let (_, faults) = read(&pairs);
        assert!(faults.starts_with(fault), "{faults}");
        assert_eq!(faults.lines().count(), 1, "{faults}");
        assert!(!faults.contains("hush"), "{faults}");
    }
}

#[test]
fn half_an_identity_is_refused() {
    let pems = pems();
    let ssl = ("security.protocol", "SSL");
    for (pairs, fault) in [
        (
            &[("ssl.keystore.key", &*pems.key)][..],
            "ssl.keystore.certificate.chain: is not set, though ssl.keystore.key is",
        ),
        (
            &[("ssl.keystore.certificate.chain", &*pems.certificate)],
            "ssl.keystore.key: is not set, though ssl.keystore.certificate.chain is",
        ),
        (
            &[("ssl.key.password", "hush")],
            "ssl.key.password: has no key to open; give ssl.keystore.location or ssl.keystore.key",
        ),
        (
            &[("ssl.truststore.certificates", "hush")],
            "ssl.truststore.certificates: holds no PEM certificate",
        ),
        (
            &[
                ("ssl.keystore.key", "hush"),
                ("ssl.keystore.certificate.chain", &*pems.certificate),
            ],
            "ssl.keystore.key: holds no PEM private key",
        ),
        (
            &[
                ("ssl.truststore.certificates", &*pems.certificate),
                ("ssl.truststore.password", "hush"),
            ],
            "ssl.truststore.password: cannot be used: PEM certificates have no password; remove it",
        ),
    ] {
        let pairs: Vec<_> = std::iter::once(ssl).chain(pairs.iter().copied()).collect();
        assert_eq!(read(&pairs).1, fault);
    }
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let (_, faults) = read(&[
        ("security.protocol", "SSL"),
        ("ssl.truststore.location", "/nowhere/ca.pem"),
    ]);
    assert!(
        faults.starts_with("ssl.truststore.location: /nowhere/ca.pem cannot be read"),
        "{faults}"
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
    let printed = format!("{client:?} {:?} {:?}", client.auth(), client.builder());
    assert!(
        !printed.contains("hush") && !printed.contains("PRIVATE KEY"),
        "{printed}"
    );
}
