//! A share group as a source of records (KIP-932, with record limits of
//! KIP-1206 and renewals of KIP-1222): one member that fetches all partitions
//! of its topics, polling on while older records are open.
//!
//! ```text
//! source     the port's calls; the loop that feeds and obeys the client
//! client     pure: all brokers, credit, events            layout      metadata
//! broker     pure: one session, what it sends next        membership  heartbeats
//! answers    pure: what an answer means
//! settlements, ranges, session   pure: books, offsets, epochs
//! fetch      sends, and makes records of answers          records     pure
//! wire       the only place that names krafka's internals
//! ```

mod answers;
mod broker;
mod client;
mod config;
mod fetch;
mod layout;
mod membership;
mod ranges;
mod records;
mod request;
mod session;
mod settlements;
mod source;
#[cfg(test)]
mod tests;
mod troubles;
mod wire;

pub use config::{AcquireMode, ShareSourceConfig};
pub use source::{ShareSource, start};
