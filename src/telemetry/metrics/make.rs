//! What connectors are made of: Connect's `connector-metrics`, and the classes
//! and versions of its `connector-task-metrics` and of transforms.

use super::metric::{Group, Kind, Metric, Value, metric};
use crate::plugins::VERSION;
use crate::telemetry::make::Chained;

/// A gauge that is always 1, with the text in a label of its own name, as JMX
/// exporters have it.
macro_rules! told {
    ($group:expr, $name:literal, $label:literal, $doc:literal, $read:expr) => {
        metric(
            $group,
            Kind::Gauge,
            $name,
            $doc,
            Value::Make(&["connector", $label], |make| {
                let read: fn(&crate::telemetry::make::Make) -> &str = $read;
                vec![vec![read(make).to_owned()]]
            }),
        )
    };
}

/// The same for each transform or predicate.
macro_rules! told_of_each {
    ($group:expr, $name:literal, $each:literal, $label:literal, $doc:literal, $all:ident, $read:expr) => {
        metric(
            $group,
            Kind::Gauge,
            $name,
            $doc,
            Value::Make(&["connector", $each, $label], |make| {
                let read: fn(&Chained) -> &str = $read;
                let each = make.$all.iter();
                each.map(|it| vec![it.alias.clone(), read(it).to_owned()])
                    .collect()
            }),
        )
    };
}

pub(super) const MAKE: &[Metric] = &[
    metric(
        Group::Connector,
        Kind::Gauge,
        "status",
        "The connector's state, in lower case in the label status",
        Value::ConnectorStatus,
    ),
    told!(
        Group::Connector,
        "connector-class",
        "connector_class",
        "1; the label has the class of the sink",
        |make| &make.sink
    ),
    told!(
        Group::Connector,
        "connector-type",
        "connector_type",
        "1; the label is sink",
        |_| "sink"
    ),
    told!(
        Group::Connector,
        "connector-version",
        "connector_version",
        "1; the label has the version of the sink, which is that of the program",
        |_| VERSION
    ),
    told!(
        Group::ConnectorTask,
        "connector-class",
        "connector_class",
        "1; the label has the class of the sink",
        |make| &make.sink
    ),
    told!(
        Group::ConnectorTask,
        "connector-type",
        "connector_type",
        "1; the label is sink",
        |_| "sink"
    ),
    told!(
        Group::ConnectorTask,
        "connector-version",
        "connector_version",
        "1; the label has the version of the sink",
        |_| VERSION
    ),
    told!(
        Group::ConnectorTask,
        "task-class",
        "task_class",
        "1; the label has the class of the sink, whose tasks have none of their own",
        |make| &make.sink
    ),
    told!(
        Group::ConnectorTask,
        "task-version",
        "task_version",
        "1; the label has the version of the sink",
        |_| VERSION
    ),
    told!(
        Group::ConnectorTask,
        "key-converter-class",
        "key_converter_class",
        "1; the label has the class of the converter of keys",
        |make| &make.key_converter
    ),
    told!(
        Group::ConnectorTask,
        "key-converter-version",
        "key_converter_version",
        "1; the label has its version",
        |_| VERSION
    ),
    told!(
        Group::ConnectorTask,
        "value-converter-class",
        "value_converter_class",
        "1; the label has the class of the converter of values",
        |make| &make.value_converter
    ),
    told!(
        Group::ConnectorTask,
        "value-converter-version",
        "value_converter_version",
        "1; the label has its version",
        |_| VERSION
    ),
    told!(
        Group::ConnectorTask,
        "header-converter-class",
        "header_converter_class",
        "1; the label has the class of the converter of headers",
        |make| &make.header_converter
    ),
    told!(
        Group::ConnectorTask,
        "header-converter-version",
        "header_converter_version",
        "1; the label has its version",
        |_| VERSION
    ),
    told_of_each!(
        Group::Transform,
        "transform-class",
        "transform",
        "transform_class",
        "1; the label has the class of the transform",
        transforms,
        |it| &it.class
    ),
    told_of_each!(
        Group::Transform,
        "transform-version",
        "transform",
        "transform_version",
        "1; the label has its version",
        transforms,
        |_| VERSION
    ),
    told_of_each!(
        Group::Predicate,
        "predicate-class",
        "predicate",
        "predicate_class",
        "1; the label has the class of the predicate",
        predicates,
        |it| &it.class
    ),
    told_of_each!(
        Group::Predicate,
        "predicate-version",
        "predicate",
        "predicate_version",
        "1; the label has its version",
        predicates,
        |_| VERSION
    ),
];
