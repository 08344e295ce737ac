//! Where records go, one sink a folder.

pub mod file;
pub mod http;
pub mod kafka;
pub mod log;
pub mod null;
pub mod registry;

#[cfg(test)]
mod contract;
