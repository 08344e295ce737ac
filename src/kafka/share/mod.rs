//! A share group as a source of records (KIP-932, with record limits of
//! KIP-1206 and renewals of KIP-1222): one member that fetches all partitions
//! of its topics, polling on while older records are open.
//!
//! ```text
//! source        the port's calls; the loop that feeds and obeys the client
//! membership    heartbeats              layout   which broker leads what
//! fetch         sends requests, and makes records of the answers
//! wire          the only place that names krafka's internals
//!
//! and, pure (time and answers come in, requests and events go out):
//! client        all sessions, the credit, the events; placement, troubles
//! broker        one session: planner (what next), answers (what became of it)
//! settlements   one partition's book of locks; verdicts (what became of them)
//! assignment    what may be fetched yet
//! unread        what is acquired, and how much of it may be decompressed
//! reauthentication  when a connection's credentials are renewed
//! session, ranges, records, request
//! ```

mod answers;
mod assignment;
mod broker;
mod client;
mod config;
mod fetch;
mod layout;
mod membership;
mod pace;
mod placement;
mod planner;
mod ranges;
mod reauthentication;
mod records;
mod request;
mod session;
mod settlements;
mod source;
#[cfg(test)]
mod tests;
mod troubles;
mod unread;
mod verdicts;
mod wire;

pub use config::{AcquireMode, ShareSourceConfig};
pub use source::{ShareSource, Teller, start, start_telling};
