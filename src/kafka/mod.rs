//! Kafka behind the ports.

pub mod admin;
pub mod share;
