//! Whose a group id is, and whether a connector may begin with it.

use std::collections::BTreeSet;
use std::fmt;

use krafka::admin::{ConsumerGroupListing, ListConsumerGroupsOptions};

use super::client::Admin;
use super::error::{AdminError, Attempt};
use super::lag::Positions;

const SHARE: &str = "share";

/// A group as the cluster lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownGroup {
    /// `classic`, `consumer`, `share`, `streams`.
    pub kind: String,
    /// What a classic group is used for: `consumer`, `connect`, or nothing.
    pub protocol: String,
    pub state: String,
}

impl KnownGroup {
    #[must_use]
    pub fn is_share(&self) -> bool {
        self.kind == SHARE
    }

    #[must_use]
    pub fn has_members(&self) -> bool {
        !matches!(self.state.as_str(), "Empty" | "Dead")
    }

    fn listed(listing: ConsumerGroupListing) -> Self {
        Self {
            // Brokers before 3.8 name no kind; they have no share groups.
            kind: listing
                .group_type
                .map_or_else(|| "classic".to_owned(), |kind| kind.to_string()),
            protocol: listing.protocol_type,
            state: listing.state.unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

impl fmt::Display for KnownGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} group", self.kind)?;
        if self.kind == "classic" && self.protocol == "connect" {
            f.write_str(" of Connect workers")?;
        }
        write!(f, " (state {})", self.state)
    }
}

/// What a connector wants to begin with.
#[derive(Clone, Debug)]
pub struct ShareGroupCheck {
    pub connector: String,
    /// `share.group.id`.
    pub group: String,
    /// The group that Connect would use: `connect-NAME`, or
    /// `consumer.override.group.id`.
    pub consumer_group: String,
    pub topics: Vec<String>,
    /// Whether the user gave `share.auto.offset.reset`.
    pub reset_given: bool,
}

impl Admin {
    /// What the cluster knows under this id; `None` if the id is free.
    pub async fn find_group(&self, group: &str) -> Result<Option<KnownGroup>, AdminError> {
        let attempt = Attempt {
            doing: "find out the kind",
            right: "DESCRIBE",
            resource: format!("group {group}"),
        };
        let listings = self
            .client
            .list_consumer_groups(ListConsumerGroupsOptions::default())
            .await
            .map_err(|error| attempt.failed(error))?;
        let mut unanswered = None;
        for listing in listings.into_values() {
            match listing {
                Ok(groups) => {
                    if let Some(found) = groups.into_iter().find(|one| one.group_id == group) {
                        return Ok(
                            Some(KnownGroup::listed(found)).filter(|one| one.state != "Dead")
                        );
                    }
                }
                Err(error) => unanswered = Some(error),
            }
        }
        // A group that no broker showed may be the one of a silent broker.
        unanswered.map_or(Ok(None), |error| Err(attempt.failed(error)))
    }

    /// Refuses a share group id that belongs to another kind of group, and a
    /// new share group of a connector whose consumer group stands somewhere.
    /// To be called before the group's settings are made and before joining.
    ///
    /// Returns what could not be looked at, for the log.
    pub async fn check_share_group(
        &self,
        check: &ShareGroupCheck,
    ) -> Result<Vec<String>, AdminError> {
        let mut warnings = Vec::new();
        let known = match self.find_group(&check.group).await {
            Ok(known) => known,
            Err(error) if error.is_not_offered() => {
                warnings.push(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(known) = &known {
            refuse_kind(&check.group, known, known.is_share())?;
            return Ok(warnings);
        }
        match self.share_starts(&check.group).await {
            Ok(starts) if starts.is_empty() => {}
            Ok(_) => return Ok(warnings),
            Err(error) if error.is_not_offered() => {
                warnings.push(error.to_string());
                return Ok(warnings);
            }
            Err(error) => return Err(error),
        }
        match self.committed_offsets(&check.consumer_group).await {
            Ok(committed) => refuse_not_migrated(check, &committed)?,
            // Reading again is allowed by the contract, so a missing right on
            // a group that is not ours must not keep the connector down.
            Err(error @ (AdminError::Unauthorized { .. } | AdminError::NotOffered { .. })) => {
                warnings.push(format!(
                    "{error}; if connector {} ran with that group before, its records come again \
                     unless `sluice migrate {} --to share` is run first",
                    check.connector, check.connector
                ));
            }
            Err(error) => return Err(error),
        }
        Ok(warnings)
    }
}

/// `fits`: whether the group is of the kind that this id is meant for.
pub(super) fn refuse_kind(group: &str, known: &KnownGroup, fits: bool) -> Result<(), AdminError> {
    if fits {
        return Ok(());
    }
    Err(AdminError::GroupTaken {
        group: group.to_owned(),
        owner: known.to_string(),
    })
}

fn refuse_not_migrated(check: &ShareGroupCheck, committed: &Positions) -> Result<(), AdminError> {
    let topics: BTreeSet<&str> = committed
        .keys()
        .map(|(topic, _)| topic.as_str())
        .filter(|topic| check.topics.iter().any(|one| one == topic))
        .collect();
    if check.reset_given || topics.is_empty() {
        return Ok(());
    }
    Err(AdminError::NotMigrated {
        connector: check.connector.clone(),
        group: check.group.clone(),
        consumer_group: check.consumer_group.clone(),
        topics: name_topics(topics),
    })
}

/// `topic a` or `topics a, b`.
pub(super) fn name_topics<'a>(topics: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = topics.into_iter().collect();
    let noun = if names.len() == 1 { "topic" } else { "topics" };
    format!("{noun} {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(kind: &str, protocol: &str, state: &str) -> KnownGroup {
        KnownGroup {
            kind: kind.to_owned(),
            protocol: protocol.to_owned(),
            state: state.to_owned(),
        }
    }

    fn check(reset_given: bool) -> ShareGroupCheck {
        ShareGroupCheck {
            connector: "orders".to_owned(),
            group: "share-orders".to_owned(),
            consumer_group: "connect-orders".to_owned(),
            topics: vec!["orders".to_owned(), "refunds".to_owned()],
            reset_given,
        }
    }

    fn committed(topic: &str) -> Positions {
        Positions::from([((topic.to_owned(), 0), 0), ((topic.to_owned(), 1), 7)])
    }

    #[test]
    fn id_of_another_kind_is_refused_though_empty_and_the_kind_is_named() {
        for (kind, protocol) in [("classic", "consumer"), ("consumer", ""), ("streams", "")] {
            let error = refuse_kind("orders", &known(kind, protocol, "Empty"), false).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("group id orders belongs to a {kind} group")),
                "{text}"
            );
            assert!(text.contains("share.group.id"), "{text}");
        }
        let workers = known("classic", "connect", "Stable");
        assert_eq!(
            workers.to_string(),
            "a classic group of Connect workers (state Stable)"
        );
        assert!(refuse_kind("orders", &known("share", "share", "Stable"), true).is_ok());
    }

    #[test]
    fn only_empty_and_dead_groups_are_without_members() {
        for state in ["Stable", "PreparingRebalance", "Assigning", "unknown"] {
            assert!(known("consumer", "", state).has_members(), "{state}");
        }
        for state in ["Empty", "Dead"] {
            assert!(!known("consumer", "", state).has_members(), "{state}");
        }
    }

    #[test]
    fn committed_offsets_of_the_connectors_topics_refuse_a_new_group_with_both_ways_out() {
        let error = refuse_not_migrated(&check(false), &committed("refunds")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("connect-orders has committed offsets for topic refunds"),
            "{text}"
        );
        assert!(
            text.contains("`sluice migrate orders --to share`"),
            "{text}"
        );
        assert!(text.contains("share.auto.offset.reset"), "{text}");
    }

    #[test]
    fn new_group_may_begin_by_a_given_policy_or_without_committed_offsets() {
        assert!(refuse_not_migrated(&check(true), &committed("refunds")).is_ok());
        assert!(refuse_not_migrated(&check(false), &committed("others")).is_ok());
        assert!(refuse_not_migrated(&check(false), &Positions::new()).is_ok());
    }
}
