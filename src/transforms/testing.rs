//! Transforms as a configuration makes them, and records for them.

use std::sync::Arc;

use sluice_actors::ports::converter::ConvertError;
use sluice_actors::ports::transform::Transform;
use sluice_actors::record::{SinkRecord, SourcePartition, TimestampType, TopicId};
use sluice_actors::value::Datum;

use super::aliased::Aliased;
use super::registry;
use crate::config::connector::{PredicateConfig, TransformConfig};
use crate::config::definition::{Faults, Properties};

/// A transform called `it`, its keys without their prefix.
pub(super) fn build(class: &str, settings: &[(&str, &str)]) -> Arc<dyn Transform> {
    let mut faults = Faults::default();
    let config = [config(class)];
    let chain = registry::chain(&config, &below("transforms.it.", settings), &mut faults);
    assert_eq!(faults.to_string(), "");
    chain.unwrap().remove(0)
}

/// The same for records for which a predicate holds, or does not.
pub(super) fn build_for(
    (predicate, settings): (&str, &[(&str, &str)]),
    negate: bool,
    class: &str,
) -> Arc<dyn Transform> {
    let mut config = config(class);
    config.predicate = Some(PredicateConfig {
        alias: "when".into(),
        class: predicate.into(),
        negate,
    });
    let properties = below("predicates.when.", settings);
    let chain = registry::chain(&[config], &properties, &mut Faults::default());
    chain.unwrap().remove(0)
}

fn config(class: &str) -> TransformConfig {
    TransformConfig {
        alias: "it".into(),
        class: class.into(),
        predicate: None,
    }
}

fn below(prefix: &str, settings: &[(&str, &str)]) -> Properties {
    let settings = settings.iter();
    let whole = settings.map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned()));
    whole.collect()
}

/// What is wrong with such settings.
pub(super) fn faults(kind: Aliased, class: &str, settings: &[(&str, &str)]) -> String {
    let mut faults = Faults::default();
    let properties = below(&kind.prefix("it"), settings);
    registry::check(kind, "it", class, &properties, &mut faults);
    faults.to_string()
}

/// `orders-3@42`, of 2023-11-14T22:13:20Z.
pub(super) fn record(key: Datum, value: Datum) -> SinkRecord {
    SinkRecord {
        partition: Arc::new(SourcePartition {
            topic: "orders".into(),
            topic_id: TopicId::default(),
            partition: 3,
        }),
        offset: 42,
        delivery_count: 1,
        acquisition: 1,
        topic: "orders".into(),
        timestamp: Some(1_700_000_000_000),
        timestamp_type: TimestampType::CreateTime,
        key,
        value,
        headers: Vec::new(),
        original: None,
        parked: None,
        life: None,
    }
}

/// What a transform that drops nothing makes of a record.
pub(super) fn applied(transform: &Arc<dyn Transform>, record: SinkRecord) -> SinkRecord {
    transform.apply(record).unwrap().unwrap()
}

pub(super) fn error(transform: &Arc<dyn Transform>, record: SinkRecord) -> String {
    let ConvertError(message) = transform.apply(record).unwrap_err();
    message
}
