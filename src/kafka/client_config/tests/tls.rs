//! PEM and PKCS12.

use std::fs;

use super::super::pkcs12::tests::pkcs12;
use super::*;

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
