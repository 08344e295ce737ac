//! Metrics: what one is, and all that there are.

mod make;
mod metric;
mod process;
mod samples;
mod sink_task;
mod sluice;
mod table;
mod task;
mod traces;
mod worker;

pub use metric::{Group, Kind, Metric, Value};
pub use samples::{Labels, Sample};
pub use table::all;
