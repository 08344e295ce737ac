//! What the group's settings let the pipeline do. An operator may change them
//! while records are open.

use crate::gate::Gate;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub gate: Gate,
    /// `share.partition.max.record.locks`: how far the open records of one
    /// partition may reach.
    pub span: usize,
    /// Whether a record may be rejected; else the broker would drop it though
    /// it has a dead letter to write, and it is held.
    pub may_reject: bool,
    /// Whether locks can be renewed; else what is held would be lost, and no
    /// more is fetched.
    pub may_renew: bool,
}

impl Terms {
    /// Those of a group that has nothing in the way.
    #[must_use]
    pub const fn new(delivery_count_limit: u16, span: usize) -> Self {
        Self {
            gate: Gate::new(delivery_count_limit),
            span,
            may_reject: true,
            may_renew: true,
        }
    }
}
