//! Metrics: what one is, and all that there are.

mod metric;
mod sink_task;
mod sluice;
mod table;
mod task;
mod worker;

pub use metric::{Group, Kind, Metric, Value};
pub use table::all;
