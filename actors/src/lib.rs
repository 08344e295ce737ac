//! The pipeline core of Sluice: actors that take records from a source,
//! convert them, hand them to a sink and settle each on its own.
//!
//! It knows no Kafka, no HTTP, no environment and no exporter.

pub mod chunk;
pub mod credit;
pub mod outcome;
pub mod ports;
pub mod record;
pub mod report;
pub mod value;
