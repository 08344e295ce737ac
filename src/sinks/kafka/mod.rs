//! The sink that writes records to Kafka.

mod config;
mod encode;
mod receipts;
mod route;
mod sink;

#[cfg(test)]
mod tests;

pub use config::{KEYS, KafkaConfig};
pub use sink::KafkaFactory;
