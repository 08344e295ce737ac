//! Kafka behind the ports.
