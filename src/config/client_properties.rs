//! One Kafka client's properties by Kafka's names, each with the key that
//! gave it, so that faults name what the user wrote.

use std::collections::BTreeMap;
use std::fmt;

use super::definition::{Faults, Key, Properties, Reader};
use super::layers::Settings;

#[derive(Clone)]
struct Given {
    key: String,
    value: String,
}

#[derive(Clone, Default)]
pub struct ClientProperties {
    given: BTreeMap<String, Given>,
    /// What the key of a property that is not given would begin with.
    home: &'static str,
}

impl ClientProperties {
    #[must_use]
    pub fn new(home: &'static str) -> Self {
        Self {
            given: BTreeMap::new(),
            home,
        }
    }

    /// Lays what `settings` give below a prefix over what is there.
    #[must_use]
    pub fn with(mut self, settings: &Settings, prefix: &str, takes: impl Fn(&str) -> bool) -> Self {
        for (key, value) in settings.given() {
            if let Some(name) = key.strip_prefix(prefix)
                && takes(name)
            {
                let given = Given {
                    key: key.to_owned(),
                    value: value.to_owned(),
                };
                self.given.insert(name.to_owned(), given);
            }
        }
        self
    }

    /// The same properties, with another place for what is not given.
    #[must_use]
    pub fn at_home(mut self, home: &'static str) -> Self {
        self.home = home;
        self
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let given = self.given.get(name);
        given.map(|it| it.value.trim()).filter(|it| !it.is_empty())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.given.keys().map(String::as_str)
    }

    /// The key that gives a property, or would.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        match self.given.get(name) {
            Some(given) => given.key.clone(),
            None => format!("{}{name}", self.home),
        }
    }

    /// Reads the keys of a table by Kafka's names.
    pub fn read<T>(
        &self,
        keys: &'static [Key],
        faults: &mut Faults,
        build: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let properties: Properties = self
            .given
            .iter()
            .map(|(name, given)| (name.clone(), given.value.clone()))
            .collect();
        let mut bare = Faults::default();
        let built = build(&mut Reader::new(&properties, "", keys, &mut bare));
        for fault in bare.iter() {
            faults.add(self.key(&fault.key), fault.message.clone());
        }
        built
    }
}

/// Keys only: secrets are among the values.
impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.given.values().map(|it| &it.key))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::definition::{Kind, Preset};
    use crate::config::layers::Layer;

    const KEYS: &[Key] = &[Key {
        name: "fetch.min.bytes",
        kind: Kind::Size,
        preset: Preset::Value("1"),
        doc: "",
    }];

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::merge([Layer::of(pairs.collect(), "file")]).unwrap()
    }

    #[test]
    fn the_narrower_prefix_wins_and_is_named() {
        let worker = settings(&[("consumer.fetch.min.bytes", "7"), ("consumer.x", "y")]);
        let connector = settings(&[("consumer.override.fetch.min.bytes", "many")]);
        let properties = ClientProperties::new("consumer.override.")
            .with(&worker, "consumer.", |name| name != "x")
            .with(&connector, "consumer.override.", |_| true);
        assert_eq!(properties.get("fetch.min.bytes"), Some("many"));
        assert_eq!(properties.get("x"), None);

        let mut faults = Faults::default();
        let size = properties.read(KEYS, &mut faults, |reader| reader.size("fetch.min.bytes"));
        assert_eq!(size, 1, "the preset stands in");
        assert!(
            faults
                .to_string()
                .starts_with("consumer.override.fetch.min.bytes: ")
        );
    }

    #[test]
    fn values_are_not_in_the_debug_form() {
        let worker = settings(&[("consumer.sasl.jaas.config", "hush")]);
        let properties = ClientProperties::new("").with(&worker, "consumer.", |_| true);
        assert_eq!(
            format!("{properties:?}"),
            r#"{"consumer.sasl.jaas.config"}"#
        );
    }
}
