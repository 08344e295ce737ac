//! JSON, plain or in an envelope of schema and payload, as Connect's
//! `JsonConverter` reads and writes it.

mod cache;
mod converter;
mod error;
mod finder;
mod members;
mod plain;
mod reader;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod typed;
mod write;
mod write_schema;

pub use converter::JsonConverter;
pub use settings::{DecimalFormat, KEYS, Settings};
pub use write::{
    NonFinite, WriteOptions, append_json, append_list, append_string, non_finite_name, to_envelope,
    to_json,
};
