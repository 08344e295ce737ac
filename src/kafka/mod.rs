//! Kafka behind the ports.

pub mod admin;
pub mod client_config;
pub mod dead_letters;
pub mod embedded;
mod letters;
pub mod parking;
pub mod producer;
pub mod share;
