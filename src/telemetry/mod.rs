//! What the worker says of itself: logs.

pub mod logs;
pub mod status_log;
