//! Which topics a connector reads, and how that changes.

use std::collections::BTreeMap;
use std::time::Duration;

use krafka::admin::{DescribeTopicsOptions, ListTopicsOptions, TopicDescription};
use krafka::error::ErrorCode;
use sluice_actors::record::TopicId;
use tokio::time::Instant;

use super::client::Admin;
use super::error::{AdminError, Attempt, code};
use super::pattern::TopicPattern;

/// `topics` or `topics.regex`.
#[derive(Clone, Debug)]
pub enum TopicSelection {
    Names(Vec<String>),
    Pattern(TopicPattern),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub id: TopicId,
    pub partitions: i32,
}

/// What a selection comes to at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedTopics {
    /// By name.
    pub topics: BTreeMap<String, Topic>,
    /// Named but not in the cluster, or not visible to us.
    pub missing: Vec<String>,
}

/// The difference between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicChanges {
    pub added: Vec<Topic>,
    /// A topic that was deleted and made again is both removed and added.
    pub removed: Vec<Topic>,
    /// With more partitions than before.
    pub grown: Vec<Topic>,
}

impl TopicChanges {
    #[must_use]
    pub fn between(before: &ResolvedTopics, after: &ResolvedTopics) -> Self {
        let mut changes = Self::default();
        for (name, topic) in &after.topics {
            match before.topics.get(name) {
                Some(old) if old.id != topic.id => {
                    changes.removed.push(old.clone());
                    changes.added.push(topic.clone());
                }
                Some(old) if old.partitions < topic.partitions => changes.grown.push(topic.clone()),
                Some(_) => {}
                None => changes.added.push(topic.clone()),
            }
        }
        let gone = before
            .topics
            .iter()
            .filter(|(name, _)| !after.topics.contains_key(*name));
        changes.removed.extend(gone.map(|(_, topic)| topic.clone()));
        changes
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.grown.is_empty()
    }
}

/// Looks at the topics again every `metadata.max.age.ms`.
#[derive(Clone, Debug)]
pub struct TopicWatch {
    max_age: Duration,
    looked_at: Instant,
    resolved: ResolvedTopics,
}

impl TopicWatch {
    #[must_use]
    pub fn new(max_age: Duration, now: Instant, resolved: ResolvedTopics) -> Self {
        Self {
            max_age,
            looked_at: now,
            resolved,
        }
    }

    #[must_use]
    pub fn due_at(&self) -> Instant {
        self.looked_at + self.max_age
    }

    #[must_use]
    pub const fn resolved(&self) -> &ResolvedTopics {
        &self.resolved
    }

    /// Takes that they could not be looked up at `now`.
    pub fn postpone(&mut self, now: Instant) {
        self.looked_at = now;
    }

    /// Takes what the topics came to at `now`.
    pub fn look(&mut self, now: Instant, resolved: ResolvedTopics) -> TopicChanges {
        let changes = TopicChanges::between(&self.resolved, &resolved);
        self.looked_at = now;
        self.resolved = resolved;
        changes
    }
}

impl Admin {
    /// The topics of the selection that are there now. Missing ones are named
    /// in the answer and are no error, as in Connect; see
    /// [`ResolvedTopics::complete`].
    pub async fn resolve_topics(
        &self,
        selection: &TopicSelection,
    ) -> Result<ResolvedTopics, AdminError> {
        match selection {
            TopicSelection::Names(names) => self.describe(names.clone()).await,
            TopicSelection::Pattern(pattern) => {
                let names = self.list(pattern).await?;
                let mut resolved = self.describe(names).await?;
                // Deleted between the two calls; a pattern misses nothing.
                resolved.missing.clear();
                Ok(resolved)
            }
        }
    }

    async fn list(&self, pattern: &TopicPattern) -> Result<Vec<String>, AdminError> {
        let attempt = Attempt {
            doing: "list the topics",
            right: "DESCRIBE",
            resource: format!("the cluster at {}", self.bootstrap_servers),
        };
        let mut names = self
            .client
            .list_topics(ListTopicsOptions::default())
            .await
            .map_err(|error| attempt.failed(error))?;
        names.retain(|name| pattern.picks(name));
        Ok(names)
    }

    async fn describe(&self, names: Vec<String>) -> Result<ResolvedTopics, AdminError> {
        let mut resolved = ResolvedTopics::default();
        if names.is_empty() {
            return Ok(resolved);
        }
        let attempt = |topics: &str| Attempt {
            doing: "read the description",
            right: "DESCRIBE",
            resource: format!("topic {topics}"),
        };
        let all = names.join(", ");
        let described = self
            .client
            .describe_topics(names, DescribeTopicsOptions::default())
            .await
            .map_err(|error| attempt(&all).failed(error))?;
        for (name, answer) in described {
            match answer {
                Ok(description) => {
                    resolved.topics.insert(name, topic(description));
                }
                Err(error) if code(&error) == Some(ErrorCode::UnknownTopicOrPartition) => {
                    resolved.missing.push(name);
                }
                Err(error) => {
                    return Err(attempt(&name).failed(error));
                }
            }
        }
        resolved.missing.sort();
        Ok(resolved)
    }
}

impl ResolvedTopics {
    /// For callers that cannot go on with part of the topics.
    pub fn complete(self) -> Result<Self, AdminError> {
        if self.missing.is_empty() {
            return Ok(self);
        }
        Err(AdminError::TopicMissing {
            topics: self.missing.join(", "),
        })
    }
}

fn topic(description: TopicDescription) -> Topic {
    Topic {
        name: description.name,
        id: TopicId(description.topic_id),
        partitions: i32::try_from(description.partitions.len()).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, id: u8, partitions: i32) -> Topic {
        Topic {
            name: name.to_owned(),
            id: TopicId([id; 16]),
            partitions,
        }
    }

    fn resolved(topics: &[Topic]) -> ResolvedTopics {
        ResolvedTopics {
            topics: topics
                .iter()
                .map(|one| (one.name.clone(), one.clone()))
                .collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn new_gone_and_grown_topics_are_told_apart() {
        let before = resolved(&[topic("a", 1, 1), topic("b", 2, 1), topic("c", 3, 1)]);
        let after = resolved(&[topic("b", 2, 4), topic("c", 3, 1), topic("d", 4, 1)]);
        let changes = TopicChanges::between(&before, &after);
        assert_eq!(changes.added, [topic("d", 4, 1)]);
        assert_eq!(changes.removed, [topic("a", 1, 1)]);
        assert_eq!(changes.grown, [topic("b", 2, 4)]);
        assert!(TopicChanges::between(&after, &after).is_empty());
    }

    #[test]
    fn topic_made_again_is_another_topic() {
        let before = resolved(&[topic("a", 1, 2)]);
        let after = resolved(&[topic("a", 9, 4)]);
        let changes = TopicChanges::between(&before, &after);
        assert_eq!(
            (changes.removed, changes.added),
            (vec![topic("a", 1, 2)], vec![topic("a", 9, 4)])
        );
        assert!(changes.grown.is_empty());
    }

    #[test]
    fn watch_is_due_again_after_the_metadatas_age() {
        let start = Instant::now();
        let age = Duration::from_secs(300);
        let mut watch = TopicWatch::new(age, start, resolved(&[]));
        assert_eq!(watch.due_at(), start + age);
        let later = start + Duration::from_secs(400);
        assert_eq!(
            watch.look(later, resolved(&[topic("a", 1, 1)])).added,
            [topic("a", 1, 1)]
        );
        assert_eq!(watch.due_at(), later + age);
        assert!(watch.look(later, resolved(&[topic("a", 1, 1)])).is_empty());
    }

    #[test]
    fn missing_topics_are_named() {
        let partly = ResolvedTopics {
            missing: vec!["a".to_owned(), "b".to_owned()],
            ..ResolvedTopics::default()
        };
        assert!(partly.complete().unwrap_err().to_string().contains("a, b"));
    }
}
