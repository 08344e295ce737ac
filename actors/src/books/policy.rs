//! What the books do with records that cannot be delivered.

use crate::gate::Gate;
use crate::retry::RetryPolicy;

/// `errors.tolerance`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tolerance {
    /// The first record that can never be delivered fails the connector.
    #[default]
    None,
    /// Such records are put aside, and the connector runs on.
    All,
}

/// The rules of one connector.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub tolerance: Tolerance,
    pub retry: RetryPolicy,
    pub gate: Gate,
    /// `max.put.records`.
    pub max_put_records: usize,
    pub tasks: usize,
}
