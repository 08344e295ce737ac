//! The reference of keys, printed from the tables that are read.

use std::io::{self, Write};

use crate::kafka::client_config;

use super::definition::{Key, Preset};
use super::{connector, overrides, worker};

/// A table of keys under a title.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub title: &'static str,
    pub keys: &'static [Key],
}

/// The tables of the service itself; plugins have theirs.
pub const TABLES: &[Table] = &[
    Table {
        title: "Worker",
        keys: worker::KEYS,
    },
    Table {
        title: "Kafka clients (worker; also below consumer. and admin., in connectors below consumer.override.)",
        keys: client_config::KEYS,
    },
    Table {
        title: "Share consumers (worker: below consumer., in connectors: below consumer.override.)",
        keys: overrides::CONSUMER_KEYS,
    },
    Table {
        title: "Connector",
        keys: connector::KEYS,
    },
];

/// Prints tables in Markdown: key, type, default, meaning.
pub fn print<'a>(
    tables: impl IntoIterator<Item = &'a Table>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for table in tables {
        writeln!(out, "## {}\n", table.title)?;
        writeln!(out, "| Key | Type | Default | Meaning |\n|---|---|---|---|")?;
        for key in table.keys {
            let kind = key.kind.name().replace('|', "\\|");
            let preset = match key.preset {
                Preset::Required => "required",
                Preset::Unset => "",
                Preset::Value(value) => value,
            };
            writeln!(out, "| `{}` | {kind} | {preset} | {} |", key.name, key.doc)?;
        }
        writeln!(out)?;
    }
    Ok(())
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
    }
}
