//! Kafka behind the ports.

pub mod admin;
