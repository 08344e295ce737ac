//! What a collector gets, and what becomes of an export that it does not take.

mod failing;
mod receivers;
mod secured;

use std::time::Duration;

use super::*;
use crate::config::definition::Secret;
use crate::config::otlp::{ClientFiles, OtlpConfig, Protocol};

const PROTOCOLS: [Protocol; 2] = [Protocol::Grpc, Protocol::HttpProtobuf];
const MINUTE: Duration = Duration::from_secs(60);

fn config(protocol: Protocol, endpoint: String) -> OtlpConfig {
    OtlpConfig {
        protocol,
        endpoint,
        headers: vec![("api-key".into(), Secret::new("hush"))],
        timeout: MINUTE,
        is_packed: false,
        certificate: None,
        client: None,
        service_name: "own".into(),
        attributes: Vec::new(),
    }
}

#[test]
fn nobody_else_says_who_tells() {
    let attributes = [
        ("service.name", "another"),
        ("service.instance.id", "i1"),
        ("telemetry.sdk.language", "java"),
        ("team", "a"),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = OtlpConfig {
        attributes: attributes.into(),
        ..config(Protocol::Grpc, String::new())
    };
    let resource = resource(&config);
    let of = |name: &'static str| {
        let value = resource.get(&name.into());
        value.map(|it| it.to_string()).unwrap_or_default()
    };
    assert_eq!(of("service.name"), "own");
    assert_eq!(of("service.instance.id"), "i1");
    assert_eq!(of("service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(of("telemetry.sdk.name"), "opentelemetry");
    assert_eq!(of("telemetry.sdk.language"), "rust");
    assert_eq!(of("team"), "a");
    assert_eq!(resource.len(), 7, "{resource:?}");
}
