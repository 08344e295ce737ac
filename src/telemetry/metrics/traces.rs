//! How much is traced.

use super::metric::{Group, Kind, Metric, Value, metric};

pub(super) const TRACES: &[Metric] = &[
    metric(
        Group::Sluice,
        Kind::Counter,
        "trace-deliveries-total",
        "Deliveries of records that were traced",
        Value::Worker(|worker| Some(worker.traces.deliveries as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "trace-deliveries-left-out-total",
        "Deliveries that were to be traced and were too many: more than trace.max.records.per.second, or too many spans wait for the collector",
        Value::Worker(|worker| Some(worker.traces.left_out as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "trace-spans-exported-total",
        "Spans that the collector has taken",
        Value::Worker(|worker| Some(worker.traces.exported as f64)),
    ),
    metric(
        Group::Sluice,
        Kind::Counter,
        "trace-spans-dropped-total",
        "Spans that the collector has not taken",
        Value::Worker(|worker| Some(worker.traces.dropped as f64)),
    ),
];
