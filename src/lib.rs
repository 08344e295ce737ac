//! Sluice: Kafka sink connectors on share groups (KIP-932), as KIP-1302
//! proposes for Kafka Connect.

// For what its own tests share with those that see it from outside.
#[cfg(test)]
extern crate self as sluice;

pub mod app;
pub mod cli;
pub mod config;
pub mod connectors;
pub mod converters;
pub mod demo;
mod http_client;
pub mod kafka;
mod pem;
pub mod plugins;
pub mod rest;
pub mod sinks;
mod small_file;
pub mod telemetry;
pub mod transforms;
