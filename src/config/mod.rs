//! What the worker and its connectors are told: names, layers, checks.

pub mod check;
pub mod client_properties;
pub mod connector;
mod connector_keys;
pub mod definition;
pub mod env;
pub mod files;
pub mod known_keys;
pub mod layers;
pub mod listeners;
pub mod load;
pub mod metrics;
pub(crate) mod nearest;
pub mod notes;
pub mod otlp;
pub mod overrides;
pub mod plugins;
pub mod producer;
mod producer_keys;
mod properties;
pub mod providers;
pub mod reference;
pub mod secrets;
#[cfg(test)]
pub(crate) mod testing;
pub mod traces;
mod unread;
pub mod worker;
