//! All plugins of this program, as `sluice plugins` lists them.

use std::io::{self, Write};

use serde_json::json;

use crate::config::definition::Key;
use crate::converters::part::Part;
use crate::{converters, sinks, transforms};

/// What a plugin is. The names are those of Connect's `GET /connector-plugins`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginType {
    Sink,
    Converter,
    HeaderConverter,
    Transformation,
    Predicate,
}

impl PluginType {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Converter => "converter",
            Self::HeaderConverter => "header_converter",
            Self::Transformation => "transformation",
            Self::Predicate => "predicate",
        }
    }
}

/// A plugin by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub kind: PluginType,
    pub class: &'static str,
    /// Other names that a configuration may use.
    pub aliases: Vec<&'static str>,
    /// Its own keys, below the prefix that its place in a configuration has.
    pub keys: &'static [Key],
}

impl Plugin {
    /// Whether a configuration may call it so.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.class == name || self.aliases.contains(&name)
    }
}

const TYPE: &str = "TYPE";
const CLASS: &str = "CLASS";

/// Plugins have the version of the program that they are built into.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Every plugin there is. A converter of keys and values converts headers too,
/// and is then listed as both, as Connect does.
#[must_use]
pub fn all() -> Vec<Plugin> {
    let sinks = sinks::registry::all().iter().map(|sink| Plugin {
        kind: PluginType::Sink,
        class: sink.class,
        aliases: sink.aliases.to_vec(),
        keys: sink.keys,
    });
    let converters = converters_of(Part::Value, PluginType::Converter);
    let headers = converters_of(Part::Header, PluginType::HeaderConverter);
    let transforms = transforms::registry::transforms().map(|it| Plugin {
        kind: PluginType::Transformation,
        class: it.class,
        aliases: vec![it.simple_name()],
        keys: it.keys,
    });
    let predicates = transforms::registry::predicates().map(|it| Plugin {
        kind: PluginType::Predicate,
        class: it.class,
        aliases: vec![it.simple_name()],
        keys: it.keys,
    });
    let conversions = converters.chain(headers);
    let changes = transforms.chain(predicates);
    sinks.chain(conversions).chain(changes).collect()
}

fn converters_of(part: Part, kind: PluginType) -> impl Iterator<Item = Plugin> {
    let entries = converters::registry::all().iter();
    let serving = entries.filter(move |entry| entry.serves(part));
    serving.map(move |entry| Plugin {
        kind,
        class: entry.class,
        aliases: vec![entry.alias, entry.simple_name()],
        keys: entry.keys,
    })
}

/// Prints a table: type, class, other names.
pub fn print_table(plugins: &[Plugin], out: &mut dyn Write) -> io::Result<()> {
    let widest = |title: &str, of: fn(&Plugin) -> &str| {
        let cells = plugins.iter().map(|it| of(it).len());
        cells.fold(title.len(), usize::max)
    };
    let kinds = widest(TYPE, |it| it.kind.name());
    let classes = widest(CLASS, |it| it.class);
    writeln!(out, "{TYPE:kinds$}  {CLASS:classes$}  ALIASES")?;
    for plugin in plugins {
        let (kind, class) = (plugin.kind.name(), plugin.class);
        let line = format!(
            "{kind:kinds$}  {class:classes$}  {}",
            plugin.aliases.join(", ")
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Prints them as Connect's `GET /connector-plugins` does.
pub fn print_json(plugins: &[Plugin], out: &mut dyn Write) -> io::Result<()> {
    let objects = plugins
        .iter()
        .map(|it| json!({"class": it.class, "type": it.kind.name(), "version": VERSION}));
    serde_json::to_writer_pretty(&mut *out, &objects.collect::<Vec<_>>())?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(class: &str) -> Vec<&'static str> {
        let plugins = all().into_iter();
        let named = plugins.filter(|it| it.is_called(class));
        named.map(|it| it.kind.name()).collect()
    }

    #[test]
    fn every_registry_is_in_the_list() {
        assert_eq!(kinds("FileStreamSink"), ["sink"]);
        assert_eq!(kinds("json"), ["converter", "header_converter"]);
        assert_eq!(kinds("SimpleHeaderConverter"), ["header_converter"]);
        assert_eq!(kinds("InsertField$Key"), ["transformation"]);
        assert_eq!(kinds("RecordIsTombstone"), ["predicate"]);
    }

    #[test]
    fn the_table_is_aligned() {
        let plugins = [
            Plugin {
                kind: PluginType::Sink,
                class: "null",
                aliases: Vec::new(),
                keys: &[],
            },
            Plugin {
                kind: PluginType::Predicate,
                class: "a.Yes",
                aliases: vec!["Yes", "y"],
                keys: &[],
            },
        ];
        let mut out = Vec::new();
        print_table(&plugins, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "TYPE       CLASS  ALIASES\n\
             sink       null\n\
             predicate  a.Yes  Yes, y\n"
        );
    }
}
