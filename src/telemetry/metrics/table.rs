//! The one table of metrics. The exposition and the reference are both made of
//! it.

use super::metric::Metric;
use super::{make, process, sink_task, sluice, task, traces, worker};

/// All metrics, in the order of the reference.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let counted = sink_task::COUNTED.into_iter().flatten();
    let others = [
        sink_task::SINK_TASK,
        task::TASK_ERROR,
        task::CONNECTOR_TASK,
        make::MAKE,
        worker::WORKER,
        sluice::SLUICE,
        traces::TRACES,
        process::PROCESS,
    ];
    counted.chain(others.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::telemetry::metrics::Kind;

    #[test]
    fn names_are_unique_and_of_their_kind() {
        let names: BTreeSet<String> = all().map(Metric::exported).collect();
        assert_eq!(names.len(), all().count());
        for metric in all() {
            let is_total =
                metric.name.contains("total") && metric.name != "connector-total-task-count";
            // Connect's names of counters without the word.
            let is_counter = is_total || metric.name.starts_with("deadletterqueue-produce-");
            assert_eq!(is_counter, metric.kind == Kind::Counter, "{}", metric.name);
            assert!(
                !metric.doc.ends_with('.'),
                "the exporter adds it: {}",
                metric.name
            );
        }
    }

    #[test]
    fn what_means_nothing_here_is_not_there() {
        for metric in all() {
            for gone in [
                "partition-count",
                "offset-commit",
                "offset-seq",
                "paused-task",
                "destroyed-task",
            ] {
                assert!(!metric.name.contains(gone), "{}", metric.name);
            }
        }
    }
}
