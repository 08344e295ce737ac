//! The reference of metrics, printed from their table.

use std::io::{self, Write};

use super::metrics::{Group, Kind, Metric, all};

const INTRODUCTION: &str = "\
# Metrics

Printed by `sluice reference metrics`. `GET /metrics` serves them to Prometheus, on the address of
`listeners`.

Where Kafka Connect has a metric, it has Connect's name, with the prefix that JMX exporters give it. What
a share group tells (acquired, acknowledged, released, rejected) belongs to the worker's member of the
group, which all tasks of a connector share, and so has no task. Counters of a connector begin at zero when
it is restarted. Connect's `partition-count`, `offset-commit-*` and `offset-seq-number` mean nothing to a
share group and are not there, nor are those of rebalances, which do not happen, nor
`connector-paused-task-count` and `connector-destroyed-task-count`: REST pauses no task, and a task that is
gone is listed no more, so both would always be 0. In sums over states, give those `or vector(0)`. What is not
known (yet) has no sample. Classes and versions are the same for all tasks of a connector, and have no task either.
";

/// Prints everything in Markdown.
pub fn print(out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{INTRODUCTION}")?;
    for group in Group::ALL {
        let title = group.title();
        writeln!(out, "\n## {title}\n")?;
        writeln!(
            out,
            "| Metric | Kind | Labels | Meaning |\n|---|---|---|---|"
        )?;
        for metric in all().filter(|metric| metric.group == group) {
            print_row(metric, out)?;
        }
    }
    Ok(())
}

fn print_row(metric: &Metric, out: &mut dyn Write) -> io::Result<()> {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let labels = metric.value.labels().join(", ");
    let (name, doc) = (metric.exported(), metric.doc);
    writeln!(out, "| `{name}` | {kind} | {labels} | {doc}. |")
}
