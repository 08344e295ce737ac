//! The pipeline core of Sluice: actors that take records from a source,
//! convert them, hand them to a sink and settle each on its own.
//!
//! It knows no Kafka, no HTTP, no environment and no exporter.
//!
//! - Actors, one file each: [`poller`], [`converter`], [`delivery`],
//!   [`acknowledger`], [`letter_writer`], and the [`supervisor`] that keeps them alive.
//! - Pure state machines that decide: [`books`] over [`intake`], [`ledger`]
//!   and [`work_queue`], [`window`], [`retry`], [`gate`], [`terms`], [`circuit`],
//!   [`flush`], [`near_limit`], [`parking`], [`sampling`], `hang`.
//! - What holds them together: [`messages`], [`mailbox`], [`credit`],
//!   [`kill_switch`], [`threads`], `inbox`, `outlet`, `progress`, [`live_view`], [`error_log`],
//!   [`life`] and [`trace_context`] of records that are traced.
//! - The traits it stands on: [`ports`].

pub mod acknowledger;
pub mod books;
pub mod chunk;
pub mod circuit;
pub mod conversion;
pub mod converter;
pub mod credit;
pub mod delivery;
mod digest;
pub mod error_log;
pub mod flush;
pub mod gate;
mod hang;
mod inbox;
pub mod intake;
pub mod kill_switch;
pub mod ledger;
pub mod letter_writer;
pub mod life;
pub mod live_view;
pub mod mailbox;
pub mod messages;
pub mod meters;
pub mod near_limit;
pub mod outcome;
mod outlet;
mod pace;
pub mod parking;
pub mod poller;
pub mod ports;
mod progress;
pub mod put_cost;
pub mod record;
pub mod report;
pub mod retry;
pub mod sampling;
mod sink_host;
pub mod starts;
mod stuck_threads;
pub mod supervisor;
pub mod terms;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod threads;
pub mod trace_context;
mod until;
pub mod value;
pub mod window;
pub mod work_queue;

/// The README's code is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
