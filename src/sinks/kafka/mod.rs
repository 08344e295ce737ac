//! The sink that writes records to Kafka.

mod config;
mod encode;
mod handle;
mod producers;
mod receipts;
mod route;
mod sink;
mod verdict;

#[cfg(test)]
mod tests;

pub use config::{KEYS, KafkaConfig};
pub use sink::KafkaFactory;
