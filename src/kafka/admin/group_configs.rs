//! Reads and sets a share group's settings on the brokers.

use std::time::Duration;

use krafka::admin::{
    ConfigEntry, ConfigOp, ConfigResource, DescribeConfigsOptions, IncrementalAlterConfigsOptions,
};
use krafka::error::{ErrorCode, KrafkaError};
use tokio::time::Instant;

use super::client::Admin;
use super::dead_letters::{COPY_RECORD, TOPIC_NAME};
use super::error::{AdminError, Attempt, code};
use super::group_advice::Advice;
use super::group_settings::{
    self, AUTO_OFFSET_RESET, Change, DELIVERY_LIMIT, Entries, Entry, GroupSettings, LATEST,
    LOCK_DURATION, MAX_RECORD_LOCKS, Plan, RAISED_DELIVERY_LIMIT, RENEW_ENABLE, WantedSettings,
};

const KEYS: [&str; 7] = [
    AUTO_OFFSET_RESET,
    MAX_RECORD_LOCKS,
    DELIVERY_LIMIT,
    LOCK_DURATION,
    RENEW_ENABLE,
    TOPIC_NAME,
    COPY_RECORD,
];
const DESCRIBE_RIGHT: &str = "DESCRIBE_CONFIGS";
const ALTER_RIGHT: &str = "ALTER_CONFIGS";

/// DescribeConfigs' source of a value that was set on the group itself.
const SOURCE_GROUP: i8 = 8;

/// How long brokers may take to show what was set.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A share group made ready for its connector.
#[derive(Clone, Debug)]
pub struct PreparedGroup {
    pub settings: GroupSettings,
    /// For the log and the connector's status: values kept, rights missing.
    pub warnings: Vec<String>,
}

/// What became of a wish to set keys.
enum Altered {
    /// All that the broker would take; these it should show now.
    Done(Vec<Change>),
    /// Not allowed, or not offered: these were left.
    Left {
        changes: Vec<Change>,
        cause: AdminError,
    },
}

impl Admin {
    /// Sets on the share group what the connector asks for and what Sluice
    /// needs, never over a value that is there already, and tells what holds
    /// then. To be called before joining: a member that joins first may find
    /// its partitions begun at `latest`.
    ///
    /// # Errors
    /// A value outside the broker's bounds; and a group that would begin at
    /// `latest`, unasked, since its reset policy could not be set.
    pub async fn prepare_share_group(
        &self,
        group: &str,
        wanted: &WantedSettings,
    ) -> Result<PreparedGroup, AdminError> {
        let entries = match self.group_entries(group).await {
            Ok(entries) => entries,
            Err(cause @ (AdminError::Unauthorized { .. } | AdminError::NotOffered { .. })) => {
                let plan = group_settings::plan(wanted, &inherited());
                let warning = self
                    .advice(group)
                    .left(&plan.changes, &cause, DESCRIBE_RIGHT)?;
                return Ok(prepared(group, &Entries::new(), vec![warning]));
            }
            Err(error) => return Err(error),
        };
        let Plan { changes, kept } = group_settings::plan(wanted, &entries);
        let mut warnings: Vec<String> = kept
            .iter()
            .map(|(ours, theirs)| self.advice(group).kept(ours, theirs))
            .collect();
        match self.alter(group, changes, &entries).await? {
            Altered::Done(changes) if changes.is_empty() => Ok(prepared(group, &entries, warnings)),
            Altered::Done(changes) => {
                let entries = self.shown(group, &changes).await?;
                Ok(prepared(group, &entries, warnings))
            }
            Altered::Left { changes, cause } => {
                warnings.push(self.advice(group).left(&changes, &cause, ALTER_RIGHT)?);
                Ok(prepared(group, &self.group_entries(group).await?, warnings))
            }
        }
    }

    /// The settings that are in force for a share group now.
    ///
    /// # Errors
    /// If they cannot be read; the error names the group.
    pub async fn share_group_settings(&self, group: &str) -> Result<GroupSettings, AdminError> {
        Ok(GroupSettings::read(&self.group_entries(group).await?))
    }

    fn advice<'a>(&'a self, group: &'a str) -> Advice<'a> {
        Advice {
            bootstrap_servers: &self.bootstrap_servers,
            group,
        }
    }

    pub(super) async fn group_entries(&self, group: &str) -> Result<Entries, AdminError> {
        let resource = ConfigResource::group(group);
        let keys = KEYS.iter().map(|key| (*key).to_owned()).collect();
        let mut answers = self
            .client
            .describe_configs(
                [resource.clone()],
                DescribeConfigsOptions::default().config_names(keys),
            )
            .await
            .map_err(|error| reading(group, error))?;
        let entries = answers
            .remove(&resource)
            .unwrap_or_else(|| Ok(Vec::new()))
            .map_err(|error| reading(group, error))?;
        Ok(entries.into_iter().filter_map(told).collect())
    }

    /// One request a key, so that a refusal names its key.
    async fn alter(
        &self,
        group: &str,
        changes: Vec<Change>,
        entries: &Entries,
    ) -> Result<Altered, AdminError> {
        let mut done = Vec::new();
        let mut open = changes.into_iter();
        while let Some(change) = open.next() {
            let answer = if change.asked || change.key != DELIVERY_LIMIT {
                self.set(group, &change)
                    .await
                    .map(|()| Some(change.clone()))
            } else {
                self.raise_delivery_limit(group, entries).await
            };
            match answer {
                Ok(set) => done.extend(set),
                Err(error) if code(&error) == Some(ErrorCode::InvalidConfig) => {
                    return Err(refused(group, change, error));
                }
                Err(error) => match setting(group, error) {
                    cause @ (AdminError::Unauthorized { .. } | AdminError::NotOffered { .. }) => {
                        let changes = std::iter::once(change).chain(open).collect();
                        return Ok(Altered::Left { changes, cause });
                    }
                    error => return Err(error),
                },
            }
        }
        Ok(Altered::Done(done))
    }

    /// Ten, or as many as the broker allows, if that is more than there are.
    /// The bound is found by trying, as reading the broker's own settings
    /// would take a right on the cluster.
    async fn raise_delivery_limit(
        &self,
        group: &str,
        entries: &Entries,
    ) -> Result<Option<Change>, KrafkaError> {
        let current = GroupSettings::read(entries).delivery_limit.value;
        for limit in (current + 1..=RAISED_DELIVERY_LIMIT).rev() {
            let change = Change {
                key: DELIVERY_LIMIT,
                value: limit.to_string(),
                asked: false,
            };
            match self.set(group, &change).await {
                Ok(()) => return Ok(Some(change)),
                Err(error) if code(&error) == Some(ErrorCode::InvalidConfig) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) async fn set(&self, group: &str, change: &Change) -> Result<(), KrafkaError> {
        let resource = ConfigResource::group(group);
        let operation = ConfigOp::set(change.key, change.value.as_str());
        let answers = self
            .client
            .incremental_alter_configs(
                [(resource, vec![operation])],
                IncrementalAlterConfigsOptions::default(),
            )
            .await?;
        answers.into_values().collect()
    }

    /// Waits until the brokers show what the controller took: they apply it a
    /// moment later, and a member that joins in between would miss it.
    pub(super) async fn shown(
        &self,
        group: &str,
        changes: &[Change],
    ) -> Result<Entries, AdminError> {
        let deadline = Instant::now() + SHOWN_WITHIN;
        loop {
            let entries = self.group_entries(group).await?;
            let missing = changes.iter().find(|change| {
                entries.get(change.key).map(|entry| entry.value.as_str())
                    != Some(change.value.as_str())
            });
            match missing {
                None => return Ok(entries),
                Some(change) if Instant::now() >= deadline => {
                    return Err(AdminError::SettingNotShown {
                        group: group.to_owned(),
                        key: change.key,
                    });
                }
                Some(_) => tokio::time::sleep(ASK_AGAIN_AFTER).await,
            }
        }
    }
}

fn prepared(group: &str, entries: &Entries, mut warnings: Vec<String>) -> PreparedGroup {
    let settings = GroupSettings::read(entries);
    warnings.extend(settings.warnings(group));
    PreparedGroup { settings, warnings }
}

/// A group that nobody has touched, for planning blindly.
fn inherited() -> Entries {
    KEYS.iter()
        .map(|key| {
            let value = if *key == AUTO_OFFSET_RESET {
                LATEST
            } else {
                ""
            };
            let entry = Entry {
                value: value.to_owned(),
                of_group: false,
            };
            ((*key).to_owned(), entry)
        })
        .collect()
}

fn told(entry: ConfigEntry) -> Option<(String, Entry)> {
    let of_group = entry.config_source == SOURCE_GROUP;
    Some((
        entry.name,
        Entry {
            value: entry.value?,
            of_group,
        },
    ))
}

fn reading(group: &str, error: KrafkaError) -> AdminError {
    attempt("read the settings", DESCRIBE_RIGHT, group, error)
}

fn setting(group: &str, error: KrafkaError) -> AdminError {
    attempt("change the settings", ALTER_RIGHT, group, error)
}

fn attempt(
    doing: &'static str,
    right: &'static str,
    group: &str,
    error: KrafkaError,
) -> AdminError {
    let attempt = Attempt {
        doing,
        right,
        resource: format!("group {group}"),
    };
    attempt.failed(error)
}

fn refused(group: &str, change: Change, error: KrafkaError) -> AdminError {
    let bound = match error {
        KrafkaError::Broker { message, .. } => message,
        other => other.to_string(),
    };
    AdminError::InvalidSetting {
        group: group.to_owned(),
        key: change.key,
        value: change.value,
        bound,
    }
}

#[cfg(test)]
mod tests;
