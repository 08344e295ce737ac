//! The traits that the pipeline stands on. Their docs are contracts.

pub mod converter;
pub mod dead_letter;
pub mod parking;
pub mod sink;
pub mod source;
pub mod tracer;
pub mod transaction;
pub mod transform;
