//! A broker inside this process, for the demo and for trying connectors out.
//!
//! It is krafka's test broker, and no Kafka: nothing is kept, locks do not
//! expire, deliveries have no limit, a lost connection releases nothing. So it
//! shows how Sluice works, and proves no guarantee.

#[cfg(not(feature = "embedded-broker"))]
mod absent;
#[cfg(feature = "embedded-broker")]
mod in_process;

use std::collections::BTreeSet;
use std::io;

use krafka::error::KrafkaError;

#[cfg(not(feature = "embedded-broker"))]
pub use absent::EmbeddedBroker;
#[cfg(feature = "embedded-broker")]
pub use in_process::EmbeddedBroker;

/// Why there is no embedded broker.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedBrokerError {
    #[error("cannot start a thread for the embedded broker: {0}")]
    Thread(#[from] io::Error),
    #[error("cannot start the embedded broker: {0}")]
    Listen(#[from] KrafkaError),
    #[error(
        "this build has no embedded broker: build Sluice with the cargo feature embedded-broker, \
         which is on by default, or set bootstrap.servers to a Kafka"
    )]
    NotBuiltIn,
}

/// The offsets of one partition that a share group is done with, by whatever
/// settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledOffsets {
    /// All below this.
    pub start: i64,
    /// And these above it.
    pub beyond: BTreeSet<i64>,
}

impl SettledOffsets {
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        offset < self.start || self.beyond.contains(&offset)
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.start).unwrap_or_default() + self.beyond.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_is_what_lies_below_the_start_and_what_is_named_above_it() {
        let settled = SettledOffsets {
            start: 3,
            beyond: [5, 6].into(),
        };
        let contained: Vec<_> = (0..8).filter(|offset| settled.contains(*offset)).collect();
        assert_eq!(contained, [0, 1, 2, 5, 6]);
        assert_eq!(settled.count(), contained.len() as u64);
    }
}
