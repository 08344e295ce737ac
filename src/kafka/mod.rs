//! Kafka behind the ports.

pub mod client_config;
