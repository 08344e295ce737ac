//! Kafka behind the ports.

pub mod admin;
pub mod client_config;
pub mod embedded;
pub mod share;
