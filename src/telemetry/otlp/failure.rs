//! Why a collector has not got what was sent.

use std::time::Duration;

/// Whether it may take the same later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    Never,
    Later,
    /// As it said itself.
    After(Duration),
}

/// See the module. Nothing of what the collector said: it may repeat a header.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) again: Again,
}
