//! Kafka behind the ports.

pub mod share;
