//! Settings by layer: what comes later wins, and where each value came from
//! is remembered.

use std::collections::BTreeMap;
use std::fmt;

use config::{Config, ConfigError, Map, Source, Value};

use super::definition::{Key, Preset, Properties};

/// The origin of values that nobody gave.
pub const DEFAULT: &str = "default";
/// The origin of values given by `--set`.
pub const COMMAND_LINE: &str = "command line";
/// Where a layer's keys lie for the `config` crate.
const TABLE: &str = "settings";

#[derive(Clone)]
struct Entry {
    value: String,
    origin: String,
}

/// What one place says: a file, the environment, the command line.
#[derive(Clone, Default)]
pub struct Layer(BTreeMap<String, Entry>);

impl Layer {
    /// The presets of a table.
    #[must_use]
    pub fn defaults(keys: &[Key]) -> Self {
        let mut layer = Self::default();
        for key in keys {
            if let Preset::Value(value) = key.preset {
                layer.put(key.name, value, DEFAULT);
            }
        }
        layer
    }

    /// What one origin says.
    #[must_use]
    pub fn of(properties: Properties, origin: &str) -> Self {
        let mut layer = Self::default();
        for (key, value) in properties {
            layer.put(key, value, origin);
        }
        layer
    }

    pub fn put(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        origin: impl Into<String>,
    ) {
        let entry = Entry {
            value: value.into(),
            origin: origin.into(),
        };
        self.0.insert(key.into(), entry);
    }

    /// Whether it said anything about that key; now it does not.
    pub fn remove(&mut self, key: &str) -> bool {
        self.0.remove(key).is_some()
    }

    /// Adds what another layer says about keys that this one does not speak of.
    pub fn or(&mut self, lower: Self) {
        for (key, entry) in lower.0 {
            self.0.entry(key).or_insert(entry);
        }
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|entry| entry.value.as_str())
    }

    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives keys other names, values and origins stay.
    #[must_use]
    pub fn renamed(self, name: impl Fn(String) -> String) -> Self {
        let entries = self.0.into_iter();
        Self(entries.map(|(key, entry)| (name(key), entry)).collect())
    }
}

/// Origins and keys only: a layer holds secrets before anyone knows which.
impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins = self.0.iter().map(|(key, entry)| (key, &entry.origin));
        f.debug_map().entries(origins).finish()
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    /// One table below one name. The crate takes the dots of top-level keys
    /// for paths, so that `key.converter` would make way for
    /// `key.converter.schemas.enable`; keys inside a table stay whole.
    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let entries = self.0.iter().map(|(key, entry)| {
            let value = Value::new(Some(&entry.origin), entry.value.clone());
            (key.clone(), value)
        });
        let table: Map<String, Value> = entries.collect();
        Ok(Map::from([(TABLE.to_owned(), table.into())]))
    }
}

/// Settings after all layers: keys whole, each value with its origin.
#[derive(Clone, Default)]
pub struct Settings {
    properties: Properties,
    origins: BTreeMap<String, String>,
    /// Values in which config providers have filled in something, as they were
    /// before.
    written: BTreeMap<String, String>,
}

impl Settings {
    /// Lays the layers over each other, the lowest first.
    pub fn merge(layers: impl IntoIterator<Item = Layer>) -> Result<Self, ConfigError> {
        let builder = layers
            .into_iter()
            .fold(Config::builder(), |builder, layer| {
                builder.add_source(layer)
            });
        let mut settings = Self::default();
        let mut tables = builder.build()?.cache.into_table()?;
        let table = tables.remove(TABLE).map(Value::into_table).transpose()?;
        for (key, value) in table.unwrap_or_default() {
            let origin = value.origin().unwrap_or(DEFAULT).to_owned();
            settings.origins.insert(key.clone(), origin);
            settings.properties.insert(key, value.into_string()?);
        }
        Ok(settings)
    }

    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str)
    }

    #[must_use]
    pub fn origin(&self, key: &str) -> &str {
        self.origins.get(key).map_or(DEFAULT, String::as_str)
    }

    /// The value as somebody wrote it, before config providers filled it in.
    #[must_use]
    pub fn as_written(&self, key: &str) -> Option<&str> {
        let written = self.written.get(key).map(String::as_str);
        written.or_else(|| self.get(key))
    }

    /// Whether config providers filled in something.
    #[must_use]
    pub fn is_filled_in(&self, key: &str) -> bool {
        self.written.contains_key(key)
    }

    /// Puts what config providers made of a value in its place.
    pub(super) fn fill_in(&mut self, key: &str, value: String) {
        if let Some(written) = self.properties.insert(key.to_owned(), value) {
            self.written.insert(key.to_owned(), written);
        }
    }

    /// Whether somebody gave it, be it the default's value.
    #[must_use]
    pub fn is_given(&self, key: &str) -> bool {
        self.properties.contains_key(key) && self.origin(key) != DEFAULT
    }

    /// The keys that somebody gave, with their values.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .filter(|(key, _)| self.is_given(key))
    }

    /// These settings as one layer, origins kept, values as they were written.
    #[must_use]
    pub fn as_layer(&self) -> Layer {
        let mut layer = Layer::default();
        for (key, value) in &self.properties {
            let value = self.written.get(key).unwrap_or(value);
            layer.put(key, value, self.origin(key));
        }
        layer
    }

    /// Only what is below a prefix, keys whole.
    #[must_use]
    pub fn below(&self, prefix: &str) -> Self {
        let mut below = Self::default();
        for (key, value) in &self.properties {
            if key.starts_with(prefix) {
                below
                    .origins
                    .insert(key.clone(), self.origin(key).to_owned());
                below.properties.insert(key.clone(), value.clone());
            }
        }
        below
    }

    /// Forgets a key, for one whose other name was given.
    pub fn forget(&mut self, key: &str) {
        self.properties.remove(key);
        self.origins.remove(key);
        self.written.remove(key);
    }
}

/// Origins and keys only: see [`Layer`].
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.origins).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that a path or a lower-casing source would lose.
    const HARD_KEYS: [&str; 3] = [
        "key.converter",
        "key.converter.schemas.enable",
        "transforms.InsertSource.type",
    ];

    fn layer(origin: &str) -> Layer {
        let properties = HARD_KEYS.map(|key| (key.to_owned(), format!("{key} of {origin}")));
        Layer::of(properties.into(), origin)
    }

    #[test]
    fn keys_stay_whole_through_every_layer() {
        let origins = ["default", "file", "environment", "command line"];
        for count in 1..=origins.len() {
            let layers = origins.iter().take(count).map(|origin| layer(origin));
            let settings = Settings::merge(layers).unwrap();
            let last = origins[count - 1];
            for key in HARD_KEYS {
                assert_eq!(settings.get(key), Some(&*format!("{key} of {last}")));
                assert_eq!(settings.origin(key), last);
            }
            assert_eq!(settings.properties().len(), HARD_KEYS.len());
        }
    }

    #[test]
    fn a_layer_overrides_only_what_it_speaks_of() {
        let mut high = Layer::default();
        high.put("a", "2", "high");
        let mut low = Layer::default();
        low.put("a", "1", "low");
        low.put("b", "1", "low");
        let settings = Settings::merge([low, high]).unwrap();
        assert_eq!(
            (settings.get("a"), settings.origin("a")),
            (Some("2"), "high")
        );
        assert_eq!(
            (settings.get("b"), settings.origin("b")),
            (Some("1"), "low")
        );
    }

    #[test]
    fn a_default_is_not_given_though_its_value_may_be() {
        let mut low = Layer::default();
        low.put("a", "1", DEFAULT);
        low.put("b", "1", DEFAULT);
        let mut high = Layer::default();
        high.put("b", "1", "file");
        let settings = Settings::merge([low, high]).unwrap();
        assert!(!settings.is_given("a"));
        assert!(settings.is_given("b"));
    }

    #[test]
    fn values_are_not_in_the_debug_form() {
        let mut layer = Layer::default();
        layer.put("dsn", "hush", "file");
        let settings = Settings::merge([layer.clone()]).unwrap();
        assert!(!format!("{layer:?}{settings:?}").contains("hush"));
    }
}
