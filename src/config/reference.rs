//! The reference of keys, printed from the tables that are read.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::kafka::client_config;

use super::definition::{Key, Preset};
use super::{
    connector, known_keys, metrics, otlp, overrides, producer_keys, providers, traces, worker,
};

const INTRODUCTION: &str = "\
# Configuration

Printed by `sluice reference`. Where Kafka Connect or Kafka's clients have a key, it has their name.

A worker and its connectors are told by, the later ones winning: defaults, files, the environment,
`--set`. In the environment `SLUICE_<KEY>` is a worker's key and `SLUICE_SINK_<ALIAS>_<KEY>` a
connector's, with `_` for a dot, `__` for a dash, `___` for an underscore; `CONNECT_<KEY>` is read
too and gives way. A variable that ends in `_FILE` names a file that holds a secret or an address. An
unknown key is refused with the nearest known one; `sluice check` tells all faults at once, by key.
";

/// A table of keys under a title.
#[derive(Clone, Debug)]
pub struct Table {
    pub title: Cow<'static, str>,
    /// What stands between title and table.
    pub text: Cow<'static, str>,
    pub keys: &'static [Key],
}

const fn table(title: &'static str, text: &'static str, keys: &'static [Key]) -> Table {
    Table {
        title: Cow::Borrowed(title),
        text: Cow::Borrowed(text),
        keys,
    }
}

/// The tables of the service itself; plugins have theirs.
pub const TABLES: &[Table] = &[
    table(
        "Worker",
        "Converters that a worker names serve connectors that name none, each with its own keys.",
        worker::KEYS,
    ),
    table(
        "OpenTelemetry",
        "In the worker, for traces and metrics alike. OpenTelemetry's variables are read by their \
         own names, without `SLUICE_`: `OTEL_EXPORTER_OTLP_ENDPOINT` is \
         `otel.exporter.otlp.endpoint`.",
        otlp::KEYS,
    ),
    table("Tracing", "See docs/tracing.md.", traces::KEYS),
    table("Metrics by OTLP", "See docs/operations.md.", metrics::KEYS),
    table(
        "Kafka clients",
        "In the worker as they stand, also below `consumer.`, `producer.` and `admin.`; in \
         connectors below `consumer.override.` and `producer.override.`.",
        client_config::KEYS,
    ),
    table(
        "Share consumers",
        "In the worker below `consumer.`, in connectors below `consumer.override.`.",
        overrides::CONSUMER_KEYS,
    ),
    table(
        "Producers",
        "In the worker below `producer.`, in connectors whose sink writes to Kafka below \
         `producer.override.`.",
        producer_keys::PRODUCER_KEYS,
    ),
    table(
        "Config providers",
        "In the worker below `config.providers.NAME.`, for each that `config.providers` names.",
        providers::KEYS,
    ),
    table("Connector", "", connector::KEYS),
];

/// Prints everything in Markdown: key, type, default, meaning.
pub fn print<'a>(
    tables: impl IntoIterator<Item = &'a Table>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "{INTRODUCTION}")?;
    for table in tables {
        print_table(table, out)?;
    }
    let inert =
        |table: &'static [known_keys::Inert]| table.iter().map(|inert| (inert.name, inert.reason));
    for (title, keys) in [
        ("Worker keys of Connect without effect", known_keys::WORKER),
        (
            "Connector keys of Connect without effect",
            known_keys::CONNECTOR,
        ),
        ("Consumer keys without effect", overrides::INERT),
        ("Producer keys without effect", producer_keys::INERT),
    ] {
        print_reasons(title, inert(keys), out)?;
    }
    for (title, refused) in [
        ("Consumer keys that are refused", overrides::REFUSED),
        ("Producer keys that are refused", producer_keys::REFUSED),
    ] {
        print_reasons(title, refused.iter().copied(), out)?;
    }
    Ok(())
}

fn print_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n## {}", table.title)?;
    if !table.text.is_empty() {
        writeln!(out, "\n{}", table.text)?;
    }
    if table.keys.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n| Key | Type | Default | Meaning |\n|---|---|---|---|"
    )?;
    for key in table.keys {
        let preset = match key.preset {
            Preset::Required => "required",
            Preset::Unset => "",
            Preset::Value(value) => value,
        };
        let (kind, doc) = (cell(&key.kind.name()), cell(key.doc));
        writeln!(out, "| `{}` | {kind} | {preset} | {doc} |", key.name)?;
    }
    Ok(())
}

/// Names with a reason each; a name with a dot at its end stands for all that
/// begin with it.
fn print_reasons<'a>(
    title: &str,
    reasons: impl Iterator<Item = (&'a str, &'a str)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n## {title}\n\n| Key | Why |\n|---|---|")?;
    for (name, reason) in reasons {
        let all = if name.ends_with('.') { "*" } else { "" };
        writeln!(out, "| `{name}{all}` | {} |", cell(reason))?;
    }
    Ok(())
}

/// Text that does not end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_stands_once_in_its_table_with_its_meaning() {
        for table in TABLES {
            let names: BTreeSet<_> = table.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), table.keys.len(), "{}", table.title);
            for key in table.keys {
                assert!(key.doc.ends_with(['.', ';']), "{} has no doc", key.name);
            }
        }
    }

    #[test]
    fn type_default_and_meaning_are_printed() {
        let mut out = Vec::new();
        print(TABLES, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("| `tasks.max` | int, 1 to 10000 | 1 | How many tasks"),
            "{text}"
        );
        assert!(
            text.contains("| `share.retriable` | hold \\| release | hold | "),
            "{text}"
        );
        assert!(
            text.contains("| `bootstrap.servers` | list | required | "),
            "{text}"
        );
        assert!(
            text.contains("| `config.storage.*` | connectors come from files"),
            "{text}"
        );
    }
}
