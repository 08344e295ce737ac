//! What the configuration asks plugins about: their keys, and their opinion
//! of the values.

use std::fmt;

use super::definition::{Faults, Key, Properties};

/// Which part of a record a converter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Key,
    Value,
    Header,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Key, Self::Value, Self::Header];

    /// The key that chooses the converter.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
            Self::Header => "header.converter",
        }
    }

    /// What the converter's own keys begin with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Key => "key.converter.",
            Self::Value => "value.converter.",
            Self::Header => "header.converter.",
        }
    }
}

/// The registries of sinks and converters, as far as the configuration needs
/// them.
///
/// A class that is not known has no keys; its check then says so, by the key
/// that chose it. A check adds the faults of the values, not of unknown keys.
#[derive(Clone, Copy)]
pub struct Plugins {
    pub sink_keys: fn(class: &str) -> Option<&'static [Key]>,
    pub check_sink: fn(class: &str, &Properties, &mut Faults),
    pub converter_keys: fn(Role, class: &str) -> Option<&'static [Key]>,
    pub check_converter: fn(Role, class: &str, &Properties, &mut Faults),
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugins")
    }
}
