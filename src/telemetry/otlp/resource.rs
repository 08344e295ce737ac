//! Who it is that tells.

use std::sync::LazyLock;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use uuid::Uuid;

use crate::config::otlp::OtlpConfig;

/// Workers of one name count apart, also behind a restart.
static INSTANCE: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// What comes later wins: version and instance may be set as attributes, the
/// service has a setting of its own, and which SDK it is nobody may set.
pub(in crate::telemetry) fn resource(config: &OtlpConfig) -> Resource {
    let attributes = config.attributes.iter();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("service.instance.id", INSTANCE.clone()))
        .with_attributes(attributes)
        .with_attribute(KeyValue::new("service.name", config.service_name.clone()))
        .with_detector(Box::new(TelemetryResourceDetector))
        .build()
}
