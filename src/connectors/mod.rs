//! The life of connectors on this worker: make ready, start, watch, drain.

mod dead_letters;
mod group;
mod keeper;
mod lag;
mod manager;
mod migrate;
mod parking;
mod start;
mod topics;
mod trim;

pub use manager::{Manager, OrderError};
pub use migrate::migrate;
pub use start::StartError;
