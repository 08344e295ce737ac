//! The process, by the names that Prometheus' own clients use.

use super::metric::{Group, Kind, Metric, Value, metric};

pub(super) const PROCESS: &[Metric] = &[
    metric(
        Group::Process,
        Kind::Counter,
        "cpu-seconds-total",
        "CPU time of the worker, user and system, in seconds",
        Value::Worker(|worker| Some(worker.process?.cpu_seconds)),
    ),
    metric(
        Group::Process,
        Kind::Gauge,
        "resident-memory-bytes",
        "Memory of the worker",
        Value::Worker(|worker| Some(worker.process?.resident_bytes as f64)),
    ),
    metric(
        Group::Process,
        Kind::Gauge,
        "virtual-memory-bytes",
        "Address space of the worker",
        Value::Worker(|worker| Some(worker.process?.virtual_bytes as f64)),
    ),
    metric(
        Group::Process,
        Kind::Gauge,
        "threads",
        "Threads of the worker",
        Value::Worker(|worker| Some(worker.process?.threads as f64)),
    ),
    metric(
        Group::Process,
        Kind::Gauge,
        "open-fds",
        "Files and sockets that the worker has open",
        Value::Worker(|worker| Some(worker.process?.open_files as f64)),
    ),
    metric(
        Group::Process,
        Kind::Gauge,
        "start-time-seconds",
        "When the worker was started, in seconds since 1970",
        Value::Worker(|worker| Some(worker.process?.started)),
    ),
];
