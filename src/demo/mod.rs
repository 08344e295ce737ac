//! `sluice demo`: a worker at work on the embedded broker, and a tally of what
//! arrived.

mod command;
mod orders;
mod plan;
mod progress;
mod tally;
mod watch;

pub use command::run;
