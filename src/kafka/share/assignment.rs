//! Which partitions may be fetched: those that the group has assigned, to
//! whomever. Pure; the time is passed in.
//!
//! A group that assigns nothing must not stop its records for ever, nor
//! silently: after a while its partitions are fetched all the same, and their
//! leaders tell what is wrong. A coordinator that fails begins that while anew.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::session::PartitionKey;

/// Longer than a coordinator takes to set a partition up anew after it failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);

type Partitions = BTreeSet<PartitionKey>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    /// `None` before the group has been joined.
    assigned: Option<Arc<Partitions>>,
    /// Of the layout; the group has not assigned them yet.
    waiting: Partitions,
    /// Of these, those that were waited for too long.
    overdue: Partitions,
    since: Option<Instant>,
}

impl Assignment {
    pub(super) const fn has_joined(&self) -> bool {
        self.assigned.is_some()
    }

    pub(super) fn may_fetch(&self, key: &PartitionKey) -> bool {
        let mut assigned = self.assigned.iter();
        assigned.any(|assigned| assigned.contains(key)) || self.overdue.contains(key)
    }

    /// Whether there are partitions that the group has not assigned yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether some of the layout may not be fetched.
    pub(super) fn holds_back(&self) -> bool {
        self.waiting.len() > self.overdue.len()
    }

    /// What the group has assigned by now. Returns whether that is news.
    pub(super) fn assign(&mut self, assigned: Arc<Partitions>) -> bool {
        let before = self.assigned.replace(assigned);
        let (before, now) = (before.as_deref(), self.assigned.as_deref());
        if let (Some(before), Some(now)) = (before, now)
            && !before.is_subset(now)
        {
            // The group was made anew, and sets up everything anew.
            self.overdue.clear();
            self.since = None;
        }
        before != now
    }

    /// Looks for what the layout has and the group has not.
    pub(super) fn compare<'a>(
        &mut self,
        layout: impl Iterator<Item = &'a PartitionKey>,
        now: Instant,
    ) {
        let Some(assigned) = &self.assigned else {
            return;
        };
        self.waiting = layout
            .filter(|key| !assigned.contains(key))
            .copied()
            .collect();
        let waiting = &self.waiting;
        self.overdue.retain(|key| waiting.contains(key));
        self.since = match self.holds_back() {
            true => self.since.or(Some(now)),
            false => None,
        };
    }

    /// The coordinator has failed: the next one sets up anew what this one had
    /// not finished, and has as much time for it.
    pub(super) fn coordinator_failed(&mut self, now: Instant) {
        self.since = self.since.map(|_| now);
    }

    /// Gives up waiting after a while. Returns the first of those that are
    /// fetched from now on though nobody has them.
    pub(super) fn lose_patience(&mut self, now: Instant) -> Option<PartitionKey> {
        self.patience_ends().filter(|end| *end <= now)?;
        self.since = None;
        let first = self.waiting.difference(&self.overdue).next().copied();
        self.overdue.clone_from(&self.waiting);
        first
    }

    pub(super) fn patience_ends(&self) -> Option<Instant> {
        self.since.map(|since| since + PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::record::TopicId;

    use super::*;

    fn key(partition: i32) -> PartitionKey {
        PartitionKey {
            topic_id: TopicId([1; 16]),
            partition,
        }
    }

    fn keys(indices: &[i32]) -> Partitions {
        indices.iter().map(|index| key(*index)).collect()
    }

    /// Of three partitions, the first is assigned.
    fn waiting(now: Instant) -> Assignment {
        let mut assignment = Assignment::default();
        assignment.compare(keys(&[0, 1, 2]).iter(), now);
        assert!(!assignment.is_waiting(), "the group is not joined yet");
        assert!(assignment.assign(Arc::new(keys(&[0]))));
        assignment.compare(keys(&[0, 1, 2]).iter(), now);
        assignment
    }

    fn open(assignment: &Assignment) -> Vec<i32> {
        let all = 0..4;
        all.filter(|index| assignment.may_fetch(&key(*index)))
            .collect()
    }

    #[test]
    fn what_is_assigned_is_fetched_and_the_rest_when_it_is() {
        let now = Instant::now();
        let mut assignment = waiting(now);
        assert_eq!(open(&assignment), [0]);
        assert!(assignment.is_waiting() && assignment.holds_back());
        assert!(assignment.assign(Arc::new(keys(&[0, 1, 2]))));
        assignment.compare(keys(&[0, 1, 2]).iter(), now);
        assert_eq!(open(&assignment), [0, 1, 2]);
        assert_eq!(assignment.patience_ends(), None);
        assert!(!assignment.assign(Arc::new(keys(&[0, 1, 2]))), "no news");
    }

    #[test]
    fn what_nobody_gets_is_fetched_after_a_while() {
        let now = Instant::now();
        let mut assignment = waiting(now);
        let end = now + PATIENCE;
        let early = end.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(assignment.lose_patience(early), None);
        assert_eq!(assignment.lose_patience(end), Some(key(1)));
        assert_eq!(open(&assignment), [0, 1, 2]);
        assert!(assignment.is_waiting(), "heartbeats still look for it");
        assert!(!assignment.holds_back());

        // A topic that grows is waited for anew.
        assignment.compare(keys(&[0, 1, 2, 3]).iter(), end);
        assert_eq!(open(&assignment), [0, 1, 2]);
        assert_eq!(assignment.lose_patience(end + PATIENCE), Some(key(3)));
    }

    #[test]
    fn each_coordinator_that_fails_leaves_the_next_one_its_time() {
        let start = Instant::now();
        let mut assignment = waiting(start);
        let mut now = start;
        for _ in 0..3 {
            now += PATIENCE - Duration::from_secs(1);
            assert_eq!(assignment.lose_patience(now), None);
            assignment.coordinator_failed(now);
            assert_eq!(assignment.patience_ends(), Some(now + PATIENCE));
        }
        assert_eq!(assignment.lose_patience(now + PATIENCE), Some(key(1)));
        assignment.coordinator_failed(now + PATIENCE);
        assert_eq!(open(&assignment), [0, 1, 2], "what is read stays so");
        assert_eq!(assignment.patience_ends(), None);
    }

    #[test]
    fn a_group_that_is_made_anew_is_waited_for_anew() {
        let now = Instant::now();
        let mut assignment = waiting(now);
        let late = now + PATIENCE;
        assignment.lose_patience(late).unwrap();
        assignment.assign(Arc::default());
        assignment.compare(keys(&[0, 1, 2]).iter(), late);
        assert!(open(&assignment).is_empty());
        assert_eq!(assignment.patience_ends(), Some(late + PATIENCE));
    }
}
