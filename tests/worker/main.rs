//! Workers as users run them, on a real Kafka 4.4.0. Ids are counted outside
//! the worker.
#![cfg(feature = "broker-tests")]

mod ending;
mod groups;
mod history;
mod main_job;
mod memory;
mod poison;
mod records;
mod refusals;
mod security;
mod span;
mod stage;
