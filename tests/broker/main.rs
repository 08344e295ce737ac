//! The adapters against real Kafka.
#![cfg(feature = "broker-tests")]

mod reader;
mod share_source;
