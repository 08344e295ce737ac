//! Fields of a struct by name, quickest when they come in the schema's order.

use ahash::AHashMap;
use sluice_actors::value::Field;

use super::members::FEW;

pub(super) struct Finder<'s> {
    fields: &'s [Field],
    next: usize,
    places: AHashMap<&'s str, usize>,
}

impl<'s> Finder<'s> {
    pub(super) fn new(fields: &'s [Field]) -> Self {
        Self {
            fields,
            next: 0,
            places: AHashMap::new(),
        }
    }

    pub(super) fn find(&mut self, name: &str) -> Option<usize> {
        let is_next = self
            .fields
            .get(self.next)
            .is_some_and(|field| field.name == name);
        let place = if is_next {
            Some(self.next)
        } else {
            self.search(name)
        };
        self.next = place.map_or(self.next, |place| place + 1);
        place
    }

    fn search(&mut self, name: &str) -> Option<usize> {
        if self.fields.len() <= FEW {
            return self.fields.iter().position(|field| field.name == name);
        }
        if self.places.is_empty() {
            let places = self.fields.iter().enumerate();
            self.places = places
                .map(|(place, field)| (field.name.as_str(), place))
                .collect();
        }
        self.places.get(name).copied()
    }
}
