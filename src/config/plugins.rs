//! What the configuration asks plugins about: their keys, and their opinion
//! of the values.

use std::fmt;

use super::definition::{Faults, Key, Properties};
use super::producer::ProducerConfig;
use crate::converters::part::Part;
use crate::transforms::aliased::Aliased;

/// The registries of sinks, converters, transforms and predicates, as far as the configuration needs
/// them.
///
/// A class that is not known has no keys; its check then says so, by the key
/// that chose it. A check adds the faults of the values, not of unknown keys.
#[derive(Clone, Copy)]
pub struct Plugins {
    pub sink_keys: fn(class: &str) -> Option<&'static [Key]>,
    /// Whether the sink writes to Kafka, with the producer's settings.
    pub sink_produces: fn(class: &str) -> bool,
    pub check_sink: fn(class: &str, &Properties, &ProducerConfig, &mut Faults),
    pub converter_keys: fn(Part, class: &str) -> Option<&'static [Key]>,
    pub check_converter: fn(Part, class: &str, &Properties, &mut Faults),
    pub aliased_keys: fn(Aliased, class: &str) -> Option<&'static [Key]>,
    pub check_aliased: fn(Aliased, alias: &str, class: &str, &Properties, &mut Faults),
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugins")
    }
}
