//! The adapters against real Kafka.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests are not seen as tests"
)]

mod cluster;
mod reader;
mod share_source;
mod sharing;
