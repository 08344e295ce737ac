//! The admin side against a real broker.
//!
//! Names of topics and groups are new in each run, so the broker may be one
//! that lives longer than the tests.
#![cfg(feature = "broker-tests")]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod cluster;
mod group_ids;
mod group_settings;
mod migrate;
mod topics;
