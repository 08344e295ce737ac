//! The share session with one broker: its epoch, and which partitions the
//! broker fetches for it.
//!
//! Epoch 0 opens a session, -1 closes it, and each answered request in
//! between advances the epoch by one. A request names only what changes.

use std::collections::BTreeSet;

use sluice_actors::record::TopicId;

const OPENING_EPOCH: i32 = 0;
pub(super) const CLOSING_EPOCH: i32 = -1;

/// A partition as the share requests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PartitionKey {
    pub(super) topic_id: TopicId,
    pub(super) partition: i32,
}

/// What a fetch says about the session's partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub(super) added: Vec<PartitionKey>,
    pub(super) forgotten: Vec<PartitionKey>,
}

/// The client's view of a session.
#[derive(Debug, Default)]
pub(super) struct Session {
    epoch: i32,
    partitions: BTreeSet<PartitionKey>,
}

impl Session {
    /// The epoch of the next request.
    pub(super) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(super) fn is_open(&self) -> bool {
        self.epoch != OPENING_EPOCH
    }

    /// Whether the broker fetches this partition for the session.
    pub(super) fn contains(&self, key: &PartitionKey) -> bool {
        self.partitions.contains(key)
    }

    /// How the session's partitions differ from those that are wanted.
    pub(super) fn delta(&self, wanted: &BTreeSet<PartitionKey>) -> Delta {
        Delta {
            added: wanted.difference(&self.partitions).copied().collect(),
            forgotten: self.partitions.difference(wanted).copied().collect(),
        }
    }

    /// A fetch with this delta was answered.
    pub(super) fn fetched(&mut self, delta: &Delta) {
        self.partitions.extend(&delta.added);
        for key in &delta.forgotten {
            self.partitions.remove(key);
        }
        self.advance();
    }

    /// An acknowledgement was answered.
    pub(super) fn acknowledged(&mut self) {
        self.advance();
    }

    /// The next request opens a new session.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    fn advance(&mut self) {
        // 0 would open a new session.
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(partitions: &[i32]) -> BTreeSet<PartitionKey> {
        partitions
            .iter()
            .map(|&partition| PartitionKey {
                topic_id: TopicId([1; 16]),
                partition,
            })
            .collect()
    }

    fn open_with(partitions: &[i32]) -> Session {
        let mut session = Session::default();
        let delta = session.delta(&keys(partitions));
        session.fetched(&delta);
        session
    }

    #[test]
    fn the_opening_fetch_names_every_partition() {
        let session = Session::default();
        let delta = session.delta(&keys(&[0, 1]));
        assert_eq!(session.epoch(), 0);
        assert_eq!(delta.added.len(), 2);
        assert!(delta.forgotten.is_empty());
    }

    #[test]
    fn later_fetches_name_what_changed() {
        let mut session = open_with(&[0, 1]);
        assert_eq!(session.delta(&keys(&[0, 1])), Delta::default());
        let delta = session.delta(&keys(&[1, 2]));
        assert_eq!(delta.added, Vec::from_iter(keys(&[2])));
        assert_eq!(delta.forgotten, Vec::from_iter(keys(&[0])));
        session.fetched(&delta);
        assert_eq!(session.delta(&keys(&[1, 2])), Delta::default());
    }

    #[test]
    fn each_answer_advances_the_epoch_which_skips_zero() {
        let mut session = open_with(&[0]);
        session.acknowledged();
        assert_eq!(session.epoch(), 2);
        session.epoch = i32::MAX;
        session.acknowledged();
        assert_eq!(session.epoch(), 1);
    }

    #[test]
    fn after_a_reset_the_partitions_are_named_again() {
        let mut session = open_with(&[0, 1]);
        session.reset();
        assert!(!session.is_open());
        assert_eq!(session.delta(&keys(&[0, 1])).added.len(), 2);
    }
}
