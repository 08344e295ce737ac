//! The admin side against a real broker.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod cluster;
mod group_ids;
mod group_settings;
mod migrate;
mod topics;
