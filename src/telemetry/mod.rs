//! What the worker says of itself: logs, metrics, traces.

pub mod exposition;
mod flush;
pub mod health;
pub mod levels;
pub mod log_writer;
pub mod loggers;
pub mod logs;
pub mod make;
pub mod metrics;
#[cfg(feature = "otel")]
mod otlp;
mod panics;
pub mod process;
pub mod push;
pub mod rates;
pub mod reference;
pub mod sight;
pub mod status_log;
pub mod traces;
