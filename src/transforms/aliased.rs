//! Plugins that a connector lists under names of its own.

use crate::config::definition::{Key, Kind, Preset, key};

pub const TYPE: &str = "type";
pub const PREDICATE: &str = "predicate";
pub const NEGATE: &str = "negate";
/// Connect's key for the version of a plugin.
pub const VERSION: &str = "plugin.version";

/// What every transform is told, whatever it does.
pub const TRANSFORM_KEYS: &[Key] = &[
    key(
        TYPE,
        Kind::Text,
        Preset::Required,
        "The transform, by Connect's class or the class without its package.",
    ),
    key(
        PREDICATE,
        Kind::Text,
        Preset::Unset,
        "A name from predicates: only records for which it holds are changed; all if unset.",
    ),
    key(
        NEGATE,
        Kind::Boolean,
        Preset::Value("false"),
        "Whether the records for which the predicate does not hold are changed instead.",
    ),
];

/// What every predicate is told.
pub const PREDICATE_KEYS: &[Key] = &[key(
    TYPE,
    Kind::Text,
    Preset::Required,
    "The predicate, by Connect's class or the class without its package.",
)];

/// What an alias of a connector stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aliased {
    Transform,
    Predicate,
}

impl Aliased {
    pub const ALL: [Self; 2] = [Self::Transform, Self::Predicate];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transform => "transform",
            Self::Predicate => "predicate",
        }
    }

    /// The key that lists the aliases.
    #[must_use]
    pub const fn list_key(self) -> &'static str {
        match self {
            Self::Transform => "transforms",
            Self::Predicate => "predicates",
        }
    }

    /// What the keys of one alias begin with.
    #[must_use]
    pub fn prefix(self, alias: &str) -> String {
        format!("{}.{alias}.", self.list_key())
    }

    /// Whether a connector's key is one of an alias.
    #[must_use]
    pub fn owns(self, key: &str) -> bool {
        let rest = key.strip_prefix(self.list_key());
        rest.is_some_and(|rest| rest.starts_with('.'))
    }

    /// The keys that all plugins of this kind have.
    #[must_use]
    pub const fn keys(self) -> &'static [Key] {
        match self {
            Self::Transform => TRANSFORM_KEYS,
            Self::Predicate => PREDICATE_KEYS,
        }
    }
}
