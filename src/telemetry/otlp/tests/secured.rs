//! Collectors with TLS.

use std::fs;

use opentelemetry_sdk::trace::SpanExporter as _;
use sluice_test_support::tls::Certificates;

use super::receivers::Secured;
use super::*;

struct Bench {
    _folder: tempfile::TempDir,
    certificates: Certificates,
    collector: Secured,
    config: OtlpConfig,
}

/// A collector that wants to see a certificate, and a configuration that has
/// all it takes.
async fn bench(protocol: Protocol) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::create(folder.path()).unwrap();
    let collector = Secured::start(protocol, &certificates).await;
    let config = OtlpConfig {
        certificate: Some(certificates.ca.clone()),
        client: Some(ClientFiles {
            certificate: certificates.client.clone(),
            key: certificates.client.clone(),
        }),
        ..config(protocol, collector.url())
    };
    Bench {
        _folder: folder,
        certificates,
        collector,
        config,
    }
}

/// An export of nothing, which has a resource and headers all the same.
async fn export(config: &OtlpConfig) -> Result<(), String> {
    let exporter = SpanExporter::new(config)?;
    let exported = exporter.export(Vec::new()).await;
    exported.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_gets_the_headers_that_are_set_and_no_others() {
    for protocol in PROTOCOLS {
        let bench = bench(protocol).await;
        export(&bench.config).await.unwrap();
        let packed = OtlpConfig {
            is_packed: true,
            ..bench.config.clone()
        };
        export(&packed).await.unwrap();
        let exports = bench.collector.exports();
        assert_eq!(exports.len(), 2);
        let packing = match protocol {
            Protocol::Grpc => "grpc-encoding",
            Protocol::HttpProtobuf => "content-encoding",
        };
        for ((headers, _), is_packed) in exports.iter().zip([false, true]) {
            let of = |name: &str| Some(headers.get(name)?.to_str().unwrap().to_owned());
            assert_eq!(of("api-key").as_deref(), Some("hush"));
            assert_eq!(of(packing).as_deref(), is_packed.then_some("gzip"));
            assert!(of("user-agent").unwrap().starts_with("sluice/"));
            let known = ["api-key", "user-agent", "accept", "host", "te", packing];
            let others = headers.keys().map(|it| it.as_str());
            let mut others = others.filter(|it| !known.contains(it));
            assert!(
                others.all(|it| it.starts_with("content-") || it.starts_with("grpc-")),
                "{headers:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_known_authorities_are_trusted_and_the_worker_shows_its_certificate() {
    for protocol in PROTOCOLS {
        let bench = bench(protocol).await;
        // No time to try again: what fails is told.
        let short = Duration::from_secs(5);
        let distrusting = OtlpConfig {
            certificate: None,
            timeout: short,
            ..bench.config.clone()
        };
        let told = export(&distrusting).await.unwrap_err();
        assert!(told.contains("certificate"), "{protocol:?}: {told}");
        let nobody = OtlpConfig {
            client: None,
            timeout: short,
            ..bench.config.clone()
        };
        export(&nobody).await.unwrap_err();
        assert!(bench.collector.exports().is_empty(), "{protocol:?}");
        export(&bench.config).await.unwrap();
        assert_eq!(bench.collector.exports().len(), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_file_that_holds_something_else_is_named() {
    let bench = bench(Protocol::HttpProtobuf).await;
    let empty = bench.certificates.ca.with_file_name("empty");
    fs::write(&empty, "").unwrap();
    for protocol in PROTOCOLS {
        let sound = OtlpConfig {
            protocol,
            ..bench.config.clone()
        };
        let client = sound.client.clone().unwrap();
        let of_client = |certificate, key| OtlpConfig {
            client: Some(ClientFiles { certificate, key }),
            ..sound.clone()
        };
        for (config, flaw) in [
            (
                OtlpConfig {
                    certificate: Some(empty.clone()),
                    ..sound.clone()
                },
                "holds no PEM certificate",
            ),
            (
                of_client(empty.clone(), client.key.clone()),
                "holds no PEM certificate",
            ),
            (
                of_client(client.certificate.clone(), empty.clone()),
                "holds no PEM private key",
            ),
        ] {
            let told = SpanExporter::new(&config).unwrap_err();
            assert_eq!(told, format!("{} {flaw}", empty.display()));
        }
    }
}
