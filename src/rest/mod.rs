//! Kafka Connect's REST API, as far as it reads, restarts, and sets levels of
//! loggers; health and metrics beside it.
//!
//! What is read comes from the live view, so no answer waits for a pipeline.

mod body;
mod connectors;
mod definitions;
mod error;
mod health;
mod loggers;
mod metrics;
mod plugins;
mod restart;
mod root;
mod server;
mod state;
#[cfg(test)]
mod tests;
mod traced;

pub use server::{BindError, Server};
pub use state::{Connectors, Described, Rest};
