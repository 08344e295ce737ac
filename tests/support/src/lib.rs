//! Real Kafka, real workers and counting for tests.

pub mod collector;
pub mod consume;
pub mod counting;
pub mod java;
pub mod kafka;
mod node;
pub mod otlp;
pub mod process;
pub mod produce;
pub mod proxy;
pub mod receiver;
mod settings;
pub mod tls;
pub mod token_server;
pub mod topics;
pub mod wait;
pub mod worker;
pub mod worker_log;

pub use node::free_port;
