//! The sink that drops what it gets, and fails on demand.

mod config;
mod record_file;
mod rule;
mod sink;

#[cfg(test)]
mod tests;

pub use config::{KEYS, NullConfig};
pub use sink::NullFactory;
