//! A row of the registry: a plugin by name, and how it is built.

use std::sync::Arc;

use super::aliased::{Aliased, TYPE};
use crate::config::definition::{Faults, Key, Properties, Reader};
use crate::config::nearest::unknown_class;

/// A transform or predicate that can be named in a configuration.
pub struct Entry<T: ?Sized + 'static> {
    /// Connect's class.
    pub class: &'static str,
    pub doc: &'static str,
    /// Its own keys, below the prefix of its alias.
    pub keys: &'static [Key],
    /// Faults go to the reader; what is built beside them is not used.
    pub(super) build: fn(&mut Reader<'_>) -> Arc<T>,
}

impl<T: ?Sized> Entry<T> {
    /// The class without its package.
    #[must_use]
    pub fn simple_name(&self) -> &'static str {
        self.class.rsplit('.').next().unwrap_or(self.class)
    }

    pub(super) fn names(&self) -> [&'static str; 2] {
        [self.simple_name(), self.class]
    }
}

/// All plugins of one kind, those of one file beside each other.
pub(super) type Entries<T> = &'static [&'static [Entry<T>]];

pub(super) fn all<T: ?Sized>(entries: Entries<T>) -> impl Iterator<Item = &'static Entry<T>> {
    entries.iter().copied().flatten()
}

pub(super) fn find<T: ?Sized>(entries: Entries<T>, class: &str) -> Option<&'static Entry<T>> {
    all(entries).find(|entry| entry.names().contains(&class))
}

/// Builds the plugin of an alias. An unknown class is a fault and gives
/// `None`; a fault of a setting is noted, and building goes on.
pub(super) fn build<T: ?Sized>(
    entries: Entries<T>,
    (kind, alias, class): (Aliased, &str, &str),
    properties: &Properties,
    faults: &mut Faults,
) -> Option<Arc<T>> {
    let prefix = kind.prefix(alias);
    match find(entries, class) {
        Some(entry) => {
            let mut reader = Reader::new(properties, &prefix, entry.keys, faults);
            Some((entry.build)(&mut reader))
        }
        None => {
            let names = all(entries).flat_map(Entry::names);
            let listed = all(entries).map(Entry::simple_name);
            let message = unknown_class(kind.name(), class, names, listed);
            faults.add(format!("{prefix}{TYPE}"), message);
            None
        }
    }
}
