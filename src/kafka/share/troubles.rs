//! What does not work at the moment, by the resource that it concerns.

use std::collections::BTreeMap;
use std::time::Duration;

use sluice_actors::outcome::Cause;
use tokio::time::Instant;

/// How often a trouble that goes on is told again.
const REPEAT: Duration = Duration::from_secs(30);
/// How often when its words change: they may count tries or milliseconds.
const REWORD: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Trouble {
    cause: Cause,
    told_at: Instant,
}

/// The current troubles. A trouble is told when it begins and every 30 seconds
/// while it lasts, a little sooner when its cause changes.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    by_resource: BTreeMap<String, Trouble>,
}

impl Troubles {
    /// Notes a trouble; whether it is to be told.
    pub(super) fn raise(&mut self, resource: &str, cause: &Cause, now: Instant) -> bool {
        if let Some(known) = self.by_resource.get(resource) {
            let pause = if known.cause == *cause {
                REPEAT
            } else {
                REWORD
            };
            if now < known.told_at + pause {
                return false;
            }
        }
        let trouble = Trouble {
            cause: cause.clone(),
            told_at: now,
        };
        self.by_resource.insert(resource.to_owned(), trouble);
        true
    }

    /// Notes that a resource works again; whether it did not before.
    pub(super) fn clear(&mut self, resource: &str) -> bool {
        self.by_resource.remove(resource).is_some()
    }

    /// Keeps the troubles of the resources that are still of interest.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let before = self.by_resource.len();
        self.by_resource.retain(|resource, _| keep(resource));
        self.by_resource.len() != before
    }

    pub(super) fn causes(&self) -> impl Iterator<Item = &Cause> {
        self.by_resource.values().map(|trouble| &trouble.cause)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_resource.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_told_once_and_then_every_30_seconds() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        let cause: Cause = "connection refused".into();
        let told: Vec<u64> = (0..70)
            .filter(|&second| {
                troubles.raise("broker 1", &cause, start + Duration::from_secs(second))
            })
            .collect();
        assert_eq!(told, [0, 30, 60]);
    }

    #[test]
    fn another_resource_is_told_at_once_and_another_cause_soon() {
        let start = Instant::now();
        let mut troubles = Troubles::default();
        assert!(troubles.raise("broker 1", &"refused, try 1".into(), start));
        assert!(troubles.raise("broker 2", &"refused, try 1".into(), start));
        assert!(!troubles.raise("broker 1", &"refused, try 2".into(), start));
        assert!(troubles.raise("broker 1", &"refused, try 9".into(), start + REWORD));
        assert_eq!(troubles.causes().count(), 2);
    }

    #[test]
    fn only_the_end_of_a_trouble_counts_as_recovery() {
        let mut troubles = Troubles::default();
        assert!(!troubles.clear("topic orders"));
        troubles.raise("topic orders", &"deleted".into(), Instant::now());
        assert!(troubles.clear("topic orders"));
        assert!(troubles.is_empty());
    }
}
