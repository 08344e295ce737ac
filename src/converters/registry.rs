//! The converters by name, and how each is built.

use std::sync::Arc;

use bytes::Bytes;
use sluice_actors::ports::converter::{ConvertError, Converter, HeaderConverter};
use sluice_actors::value::Datum;

use super::bytes::ByteArrayConverter;
use super::json::{self, JsonConverter, Settings};
use super::part::Part;
use super::primitive::PrimitiveConverter;
use super::simple_header::SimpleHeaderConverter;
use super::string::{self, StringConverter};
use crate::config::definition::{Faults, Key, Properties, Reader};
use crate::config::nearest::unknown_class;
use crate::config::reference::Table;

/// A converter that can be named in a configuration.
#[derive(Debug)]
pub struct Entry {
    /// Connect's class.
    pub class: &'static str,
    /// A short name.
    pub alias: &'static str,
    /// Its own keys, below the prefix of the part that it is for.
    pub keys: &'static [Key],
    build: Build,
}

#[derive(Clone, Copy, Debug)]
enum Build {
    /// For keys, values and headers.
    Record(fn(&mut Reader<'_>, Part) -> Arc<dyn Converter>),
    /// For headers only.
    Header(fn() -> Arc<dyn HeaderConverter>),
}

const NO_KEYS: &[Key] = &[];

static ENTRIES: &[Entry] = &[
    Entry {
        class: "org.apache.kafka.connect.converters.ByteArrayConverter",
        alias: "bytes",
        keys: NO_KEYS,
        build: Build::Record(|_, _| Arc::new(ByteArrayConverter)),
    },
    Entry {
        class: "org.apache.kafka.connect.storage.StringConverter",
        alias: "string",
        keys: string::KEYS,
        build: Build::Record(|reader, part| Arc::new(StringConverter::read(reader, part))),
    },
    Entry {
        class: "org.apache.kafka.connect.json.JsonConverter",
        alias: "json",
        keys: json::KEYS,
        build: Build::Record(|reader, part| {
            Arc::new(JsonConverter::new(Settings::read(reader), part))
        }),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.BooleanConverter",
        alias: "boolean",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::boolean(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.ShortConverter",
        alias: "short",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::short(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.IntegerConverter",
        alias: "integer",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::integer(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.LongConverter",
        alias: "long",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::long(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.FloatConverter",
        alias: "float",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::float(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.converters.DoubleConverter",
        alias: "double",
        keys: NO_KEYS,
        build: Build::Record(|_, part| Arc::new(PrimitiveConverter::double(part))),
    },
    Entry {
        class: "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        alias: "simple",
        keys: NO_KEYS,
        build: Build::Header(|| Arc::new(SimpleHeaderConverter)),
    },
];

impl Entry {
    /// The class without its package.
    #[must_use]
    pub fn simple_name(&self) -> &'static str {
        self.class.rsplit('.').next().unwrap_or(self.class)
    }

    #[must_use]
    pub const fn serves(&self, part: Part) -> bool {
        matches!(
            (&self.build, part),
            (Build::Record(_), _) | (_, Part::Header)
        )
    }

    fn names(&self) -> [&'static str; 3] {
        [self.alias, self.simple_name(), self.class]
    }
}

/// Every converter there is.
#[must_use]
pub fn all() -> &'static [Entry] {
    ENTRIES
}

/// What the reference says of each converter.
#[must_use]
pub fn tables() -> Vec<Table> {
    let table = |entry: &Entry| {
        let [alias, simple, class] = entry.names();
        let parts = match entry.build {
            Build::Record(_) => "keys, values and headers",
            Build::Header(_) => "headers only",
        };
        let keys = if entry.keys.is_empty() {
            "It has no keys of its own."
        } else {
            "Its keys stand below `key.converter.`, `value.converter.` or `header.converter.`."
        };
        Table {
            title: format!("Converter {alias}").into(),
            text: format!("`{alias}`, `{simple}` or `{class}`, for {parts}. {keys}").into(),
            keys: entry.keys,
        }
    };
    ENTRIES.iter().map(table).collect()
}

/// The keys of a converter, by any of its names.
#[must_use]
pub fn keys(class: &str) -> Option<&'static [Key]> {
    find(class).map(|entry| entry.keys)
}

/// Builds the converter of keys or values. An unknown class is a fault and
/// gives `None`; a fault of a setting is noted, and building goes on.
pub fn converter(
    class: &str,
    part: Part,
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Arc<dyn Converter>> {
    let entry = lookup(class, part, faults)?;
    match entry.build {
        Build::Record(build) => {
            let mut reader = Reader::new(properties, part.prefix(), entry.keys, faults);
            Some(build(&mut reader, part))
        }
        Build::Header(_) => None,
    }
}

/// Builds the converter of headers; any converter can be one.
pub fn header_converter(
    class: &str,
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Arc<dyn HeaderConverter>> {
    let entry = lookup(class, Part::Header, faults)?;
    match entry.build {
        Build::Header(build) => Some(build()),
        Build::Record(_) => converter(entry.class, Part::Header, properties, faults)
            .map(|converter| Arc::new(OfHeaders(converter)) as Arc<dyn HeaderConverter>),
    }
}

fn find(class: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.names().contains(&class))
}

fn lookup(class: &str, part: Part, faults: &mut Faults) -> Option<&'static Entry> {
    match find(class) {
        Some(entry) if entry.serves(part) => Some(entry),
        Some(entry) => {
            let name = entry.simple_name();
            faults.add(part.class_key(), format!("{name} converts headers only"));
            None
        }
        None => {
            faults.add(part.class_key(), unknown(class, part));
            None
        }
    }
}

fn unknown(class: &str, part: Part) -> String {
    let serving = || ENTRIES.iter().filter(move |entry| entry.serves(part));
    let names = serving().flat_map(Entry::names);
    unknown_class(
        "converter",
        class,
        names,
        serving().map(|entry| entry.alias),
    )
}

/// A converter of values, for headers.
struct OfHeaders(Arc<dyn Converter>);

impl HeaderConverter for OfHeaders {
    fn to_datum(
        &self,
        topic: &str,
        header: &str,
        bytes: Option<&Bytes>,
    ) -> Result<Datum, ConvertError> {
        let datum = self.0.to_datum(topic, bytes);
        datum.map_err(|error| ConvertError(format!("header {header}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::value::Value;

    use super::*;

    #[test]
    fn each_converter_goes_by_class_simple_name_and_alias() {
        for entry in all() {
            for name in entry.names() {
                assert_eq!(find(name).unwrap().class, entry.class);
                assert_eq!(keys(name), Some(entry.keys));
                let mut faults = Faults::default();
                let none = Properties::new();
                let value = converter(name, Part::Value, &none, &mut faults);
                assert_eq!(value.is_some(), entry.serves(Part::Value), "{name}");
                let header = header_converter(name, &none, &mut Faults::default());
                assert!(header.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn no_two_converters_share_a_name() {
        let mut names: Vec<&str> = all().iter().flat_map(Entry::names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn an_unknown_class_is_refused_with_the_key_and_the_nearest_class() {
        let json = "org.apache.kafka.connect.json.JsonConverter";
        let string = "org.apache.kafka.connect.storage.StringConverter";
        for (wrong, right) in [
            ("org.apache.kafka.connect.json.JsonConvertor", json),
            ("org.apache.kafka.connect.StringConverter", string),
            ("jsn", "json"),
            (
                "ByteArray",
                "org.apache.kafka.connect.converters.ByteArrayConverter",
            ),
        ] {
            let mut faults = Faults::default();
            assert!(converter(wrong, Part::Key, &Properties::new(), &mut faults).is_none());
            let fault = faults.iter().next().unwrap();
            assert_eq!(fault.key, "key.converter");
            assert!(fault.message.contains(wrong), "{fault}");
            let hint = format!("Did you mean {right:?}?");
            assert!(fault.message.ends_with(&hint), "{fault}");
            assert!(!fault.message.contains("simple"), "not for keys: {fault}");
        }
    }

    #[test]
    fn a_header_converter_is_refused_for_values() {
        let mut faults = Faults::default();
        assert!(converter("simple", Part::Value, &Properties::new(), &mut faults).is_none());
        let fault = faults.iter().next().unwrap();
        assert_eq!(
            fault.to_string(),
            "value.converter: SimpleHeaderConverter converts headers only"
        );
    }

    #[test]
    fn settings_are_read_below_the_prefix_of_the_part() {
        let properties = Properties::from([
            (
                "value.converter.schemas.enable".to_owned(),
                "false".to_owned(),
            ),
            (
                "key.converter.schemas.enable".to_owned(),
                "perhaps".to_owned(),
            ),
        ]);
        let mut faults = Faults::default();
        let value = converter("json", Part::Value, &properties, &mut faults).unwrap();
        assert!(faults.is_empty(), "{faults}");
        let datum = value
            .to_datum("t", Some(&Bytes::from_static(b"7")))
            .unwrap();
        assert_eq!(datum, Datum::schemaless(Value::Int64(7)));
        converter("json", Part::Key, &properties, &mut faults);
        assert_eq!(
            faults.iter().next().unwrap().key,
            "key.converter.schemas.enable"
        );
    }

    #[test]
    fn a_header_that_does_not_convert_is_named() {
        let none = Properties::new();
        let headers = header_converter("integer", &none, &mut Faults::default()).unwrap();
        let error = headers
            .to_datum("t", "trace", Some(&Bytes::from_static(b"x")))
            .unwrap_err();
        assert!(error.to_string().starts_with("header trace: "), "{error}");
    }

    /// Malformed to each of them that can fail, and of no length that is asked for.
    const UNFIT: [&[u8]; 4] = [
        b"hush",
        b"{\"hush\": hush}",
        b"{\"schema\": {\"type\": \"hush\"}, \"payload\": \"hush\"}",
        b"hush \xff hush",
    ];

    #[test]
    fn no_error_quotes_what_does_not_convert() {
        let mut errors = Vec::new();
        for alias in all().iter().map(|entry| entry.alias) {
            let none = Properties::new();
            let part = converter(alias, Part::Value, &none, &mut Faults::default());
            let header = header_converter(alias, &none, &mut Faults::default()).unwrap();
            for bytes in UNFIT.map(Bytes::from_static) {
                let value = part.as_ref().map(|it| it.to_datum("t", Some(&bytes)));
                let header = header.to_datum("t", "trace", Some(&bytes));
                errors.extend(
                    [value, Some(header)]
                        .into_iter()
                        .flatten()
                        .filter_map(Result::err),
                );
            }
        }
        assert!(errors.len() > UNFIT.len(), "{errors:?}");
        for error in errors {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hush"), "{shown}");
        }
    }
}
