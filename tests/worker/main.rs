//! Workers as users run them, on a real Kafka 4.4.0. Ids are counted outside
//! the worker.
#![cfg(feature = "broker-tests")]

mod history;
mod main_job;
mod records;
mod span;
mod stage;
