//! Connect's config providers: a value says `${NAME:path:key}` or `${NAME:key}`,
//! and what the provider of that name knows stands in its place.
//!
//! What was filled in may be a secret under any key: it is shown nowhere, also
//! not where it makes a fault.

use std::collections::BTreeMap;
use std::fmt;

use super::definition::{Faults, Key, Kind, Preset, Reader, key, list_items};
use super::env::Environment;
use super::layers::Settings;
use super::secrets::HIDDEN;

mod provider;
mod reference;

use provider::Provider;
use reference::{Piece, Reference, pieces};

/// The key that names them.
pub const PROVIDERS: &str = "config.providers";
/// What is shorter is in too many words to be hidden, and no secret.
const LEAST: usize = 3;

/// The keys of each, below `config.providers.NAME.`.
pub const KEYS: &[Key] = &[
    key(
        "class",
        Kind::Text,
        Preset::Required,
        "FileConfigProvider (`${NAME:path:key}`, from a properties file), DirectoryConfigProvider (`${NAME:folder:file}`, all of a file), EnvVarConfigProvider (`${NAME:variable}`), with or without their package.",
    ),
    key(
        "param.allowed.paths",
        Kind::List,
        Preset::Unset,
        "Of the first two: the files and folders that may be read. Without it all may.",
    ),
    key(
        "param.allowlist.pattern",
        Kind::Text,
        Preset::Unset,
        "Of EnvVarConfigProvider: a regular expression of the whole names that may be read. Without it all may.",
    ),
];

/// The prefix of one provider's keys.
#[must_use]
pub fn prefix(name: &str) -> String {
    format!("{PROVIDERS}.{name}.")
}

/// The names in a worker's settings.
pub fn names(settings: &Settings) -> impl Iterator<Item = &str> {
    list_items(settings.get(PROVIDERS).unwrap_or_default())
}

/// The providers of a worker, for itself and for its connectors; `None` if
/// something is wrong with one.
#[derive(Clone, Default)]
pub struct Providers(BTreeMap<String, Option<Provider>>);

impl Providers {
    pub fn read(settings: &Settings, environment: &Environment, faults: &mut Faults) -> Self {
        let mut providers = Self::default();
        for name in names(settings) {
            let prefix = prefix(name);
            let mut reader = Reader::new(settings.properties(), &prefix, KEYS, faults);
            let provider = Provider::read(&mut reader, environment);
            providers.0.insert(name.to_owned(), provider);
        }
        providers
    }

    /// Fills in what the values refer to.
    pub fn fill_in(&self, settings: &mut Settings) -> FilledIn {
        let mut filled = FilledIn::default();
        let mut values = Vec::new();
        for (key, value) in settings.given().filter(|(key, _)| !is_own(key)) {
            match self.filled(value, &mut filled.values) {
                Ok(Some(text)) => values.push((key.to_owned(), text)),
                Ok(None) => {}
                Err(message) => filled.faults.add(key, message),
            }
        }
        for (key, text) in values {
            settings.fill_in(&key, text);
        }
        filled
    }

    /// A text with all its references filled in; `None` if it has none. What
    /// was put in is added to `values`.
    fn filled(&self, text: &str, values: &mut Vec<String>) -> Result<Option<String>, String> {
        if !text.contains("${") {
            return Ok(None);
        }
        let mut filled = String::new();
        let mut has_any = false;
        for piece in pieces(text) {
            let reference = match piece {
                Piece::Text(text) => {
                    filled += text;
                    continue;
                }
                Piece::Reference(reference) => reference,
            };
            let whole = reference.whole;
            let Some(provider) = self.provider(&reference)? else {
                filled += whole;
                continue;
            };
            let value = provider.value(reference.path, reference.key);
            let value = value.map_err(|cause| format!("{whole}: {cause}"))?;
            filled += &value;
            values.push(value);
            has_any = true;
        }
        Ok(has_any.then_some(filled))
    }

    /// The one that is asked. What no provider of the worker's is asked for stays
    /// as it is, as in Connect; so does what a broken one is, which was told.
    fn provider(&self, reference: &Reference<'_>) -> Result<Option<&Provider>, String> {
        match self.0.get(reference.provider) {
            Some(provider) => Ok(provider.as_ref()),
            None => refuse_shipped(reference).map(|()| None),
        }
    }
}

/// Names only: a provider knows the environment.
impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Their own keys refer to nothing.
fn is_own(key: &str) -> bool {
    key.starts_with(PROVIDERS)
}

/// By the names that everybody gives them, a reference is meant as one.
fn refuse_shipped(reference: &Reference<'_>) -> Result<(), String> {
    let (whole, name) = (reference.whole, reference.provider);
    let class = match name {
        "file" => "FileConfigProvider",
        "dir" | "directory" => "DirectoryConfigProvider",
        "env" => "EnvVarConfigProvider",
        _ => return Ok(()),
    };
    Err(format!(
        "{whole} asks a config provider that is not there; give the worker {PROVIDERS}={name} and {PROVIDERS}.{name}.class={class}"
    ))
}

/// What was filled in, and what could not be.
#[derive(Default)]
pub struct FilledIn {
    faults: Faults,
    values: Vec<String>,
}

impl FilledIn {
    /// Hides what was filled in from what was found wrong since, and adds what
    /// could not be: all else that is wrong with that key only follows from it.
    pub fn tell(self, faults: &mut Faults) {
        let unfilled = |key: &str| self.faults.iter().any(|fault| fault.key == key);
        faults.retain(|fault| !unfilled(&fault.key));
        for value in &self.values {
            // As readers take it.
            faults.hide(value.trim(), HIDDEN, LEAST);
        }
        faults.absorb(self.faults);
    }
}

#[cfg(test)]
mod tests;
