//! Bytes to values, one format a file.

pub mod bytes;
mod decimal;
pub mod json;
pub mod part;
pub mod primitive;
pub mod registry;
pub mod simple_header;
pub mod string;
