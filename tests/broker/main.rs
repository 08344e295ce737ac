//! The adapters against real Kafka.
#![cfg(feature = "broker-tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are not seen as tests"
)]

mod reader;
mod share_source;
