//! The sink that appends records to a file, one a line.

mod append;
mod config;
mod folder;
pub(in crate::sinks) mod json_line;
pub(in crate::sinks) mod line;
mod rotation;
mod sink;
mod writer;

#[cfg(test)]
mod tests;

pub use config::{FileConfig, KEYS};
pub use sink::FileFactory;
