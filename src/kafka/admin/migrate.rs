//! `sluice migrate`: carries a connector's positions from its consumer group
//! to its share group, or back.

use std::collections::BTreeMap;
use std::fmt;

use krafka::admin::{
    AlterConsumerGroupOffsetsOptions, AlterShareGroupOffsetsOptions, ListOffsetsOptions,
    OffsetSpec, TopicPartition,
};
use krafka::error::{ErrorCode, KrafkaError};

use super::client::Admin;
use super::error::{AdminError, Attempt, code};
use super::group_ids::{KnownGroup, name_topics, refuse_kind};
use super::lag::Positions;
use super::topics::{ResolvedTopics, TopicSelection};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToShare,
    ToConsumer,
}

/// What to carry where.
#[derive(Clone, Debug)]
pub struct Migration {
    pub direction: Direction,
    /// Connect's group: `connect-NAME` by default.
    pub consumer_group: String,
    /// `share-NAME` by default.
    pub share_group: String,
    pub topics: TopicSelection,
    /// Only show what would be done.
    pub dry_run: bool,
}

impl Migration {
    fn from(&self) -> &str {
        match self.direction {
            Direction::ToShare => &self.consumer_group,
            Direction::ToConsumer => &self.share_group,
        }
    }

    fn to(&self) -> &str {
        match self.direction {
            Direction::ToShare => &self.share_group,
            Direction::ToConsumer => &self.consumer_group,
        }
    }
}

/// Where the group that is migrated to begins on a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Taken over.
    Set(i64),
    /// The group stands there already.
    Already(i64),
    /// No position was found, so the reset policy decides.
    ByReset,
    /// The position lies past the end: the topic was made again. The reset
    /// policy decides, or all records up to there would be skipped.
    PastEnd { position: i64, end: i64 },
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(offset) => write!(f, "{offset}"),
            Self::Already(offset) => write!(f, "{offset} (stands there already)"),
            Self::ByReset => f.write_str("by the reset policy (no position)"),
            Self::PastEnd { position, end } => write!(
                f,
                "by the reset policy (position {position} is past the end {end})"
            ),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationRow {
    pub topic: String,
    pub partition: i32,
    pub start: Start,
}

/// What was done, or would be; its text is the table for the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationReport {
    pub direction: Direction,
    pub from: String,
    pub to: String,
    pub dry_run: bool,
    pub rows: Vec<MigrationRow>,
}

impl fmt::Display for MigrationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.rows.iter().map(|row| row.topic.len());
        let width = widest.max().unwrap_or(0).max("TOPIC".len());
        writeln!(f, "{:width$}  PARTITION  START OFFSET", "TOPIC")?;
        for row in &self.rows {
            writeln!(
                f,
                "{:width$}  {:>9}  {}",
                row.topic, row.partition, row.start
            )?;
        }
        let done = if self.dry_run { "would be set" } else { "set" };
        let count = changes(&self.rows).len();
        write!(
            f,
            "{count} positions of group {} {done} for group {}",
            self.from, self.to
        )?;
        if self.direction == Direction::ToConsumer {
            f.write_str(
                "; records past them that the share group has finished already come again",
            )?;
        }
        Ok(())
    }
}

/// What the cluster said before the migration.
#[derive(Debug, Default)]
struct Stand {
    /// By topic and partition: the end offsets of all that is to be carried.
    ends: Positions,
    from: Positions,
    to: Positions,
}

impl Admin {
    /// Carries the positions over and reads them back. May be run again: what
    /// stands where it should is left alone.
    ///
    /// # Errors
    /// Either group has members; the group carried to has gone on by itself;
    /// there is nothing to carry.
    pub async fn migrate(&self, migration: &Migration) -> Result<MigrationReport, AdminError> {
        let topics = self.resolve_topics(&migration.topics).await?.complete()?;
        let consumer = self.find_group(&migration.consumer_group).await?;
        let share = self.find_group(&migration.share_group).await?;
        refuse_owners(migration, consumer.as_ref(), share.as_ref())?;
        let stand = self.stand(migration, &topics).await?;
        let rows = plan(migration, &topics, &stand)?;
        if !migration.dry_run {
            let changes = changes(&rows);
            self.carry(migration, &changes).await?;
            self.read_back(migration, &changes).await?;
        }
        Ok(MigrationReport {
            direction: migration.direction,
            from: migration.from().to_owned(),
            to: migration.to().to_owned(),
            dry_run: migration.dry_run,
            rows,
        })
    }

    async fn stand(
        &self,
        migration: &Migration,
        topics: &ResolvedTopics,
    ) -> Result<Stand, AdminError> {
        let committed = self.committed_offsets(&migration.consumer_group).await?;
        let starts = self.share_starts(&migration.share_group).await?;
        let (from, to) = match migration.direction {
            Direction::ToShare => (committed, starts),
            Direction::ToConsumer => (starts, committed),
        };
        let ends = self.end_offsets(topics).await?;
        Ok(Stand { ends, from, to })
    }

    async fn end_offsets(&self, topics: &ResolvedTopics) -> Result<Positions, AdminError> {
        let places = topics.topics.values().flat_map(|topic| {
            (0..topic.partitions)
                .map(|partition| TopicPartition::new(topic.name.clone(), partition))
        });
        let attempt = |resource: String| Attempt {
            doing: "read the end offset",
            right: "DESCRIBE",
            resource,
        };
        let answers = self
            .client
            .list_offsets(
                places.map(|place| (place, OffsetSpec::Latest)),
                ListOffsetsOptions::default(),
            )
            .await
            .map_err(|error| attempt("the topics".to_owned()).failed(error))?;
        answers
            .into_iter()
            .map(|(place, answer)| {
                let listed = answer.map_err(|error| {
                    let resource = format!("topic {} (partition {})", place.topic, place.partition);
                    attempt(resource).failed(error)
                })?;
                Ok(((place.topic, place.partition), listed.offset))
            })
            .collect()
    }

    async fn carry(&self, migration: &Migration, changes: &Positions) -> Result<(), AdminError> {
        if changes.is_empty() {
            return Ok(());
        }
        let offsets = changes.iter().map(|((topic, partition), offset)| {
            (TopicPartition::new(topic.clone(), *partition), *offset)
        });
        let group = migration.to();
        let answers = match migration.direction {
            Direction::ToShare => {
                self.client
                    .alter_share_group_offsets(
                        group,
                        offsets,
                        AlterShareGroupOffsetsOptions::default(),
                    )
                    .await
            }
            Direction::ToConsumer => {
                self.client
                    .alter_consumer_group_offsets(
                        group,
                        offsets,
                        AlterConsumerGroupOffsetsOptions::default(),
                    )
                    .await
            }
        };
        let answers = answers.map_err(|error| not_carried(group, None, error))?;
        for (place, answer) in answers {
            answer.map_err(|error| not_carried(group, Some(&place), error))?;
        }
        Ok(())
    }

    async fn read_back(&self, migration: &Migration, wanted: &Positions) -> Result<(), AdminError> {
        let shown = match migration.direction {
            Direction::ToShare => self.share_starts(migration.to()).await?,
            Direction::ToConsumer => self.committed_offsets(migration.to()).await?,
        };
        compare(migration.to(), wanted, &shown)
    }
}

/// Each id must be of its kind, and nobody may be using it.
fn refuse_owners(
    migration: &Migration,
    consumer: Option<&KnownGroup>,
    share: Option<&KnownGroup>,
) -> Result<(), AdminError> {
    if let Some(known) = consumer {
        let group = &migration.consumer_group;
        refuse_kind(group, known, !known.is_share())?;
        refuse_members(group, known, "its Connect connector")?;
    }
    if let Some(known) = share {
        let group = &migration.share_group;
        refuse_kind(group, known, known.is_share())?;
        refuse_members(group, known, "this connector on all workers")?;
    }
    Ok(())
}

fn refuse_members(group: &str, known: &KnownGroup, user: &'static str) -> Result<(), AdminError> {
    if !known.has_members() {
        return Ok(());
    }
    Err(AdminError::HasMembers {
        group: group.to_owned(),
        state: known.state.clone(),
        user,
    })
}

fn plan(
    migration: &Migration,
    topics: &ResolvedTopics,
    stand: &Stand,
) -> Result<Vec<MigrationRow>, AdminError> {
    let mut rows = Vec::with_capacity(stand.ends.len());
    let mut found = false;
    for (place, end) in &stand.ends {
        let from = stand.from.get(place).copied();
        let to = stand.to.get(place).copied();
        found |= from.is_some();
        let (topic, partition) = place;
        rows.push(MigrationRow {
            topic: topic.clone(),
            partition: *partition,
            start: start(migration, place, (from, to), *end)?,
        });
    }
    if found {
        return Ok(rows);
    }
    Err(AdminError::NothingToMigrate {
        group: migration.from().to_owned(),
        topics: name_topics(topics.topics.keys().map(String::as_str)),
    })
}

fn start(
    migration: &Migration,
    place: &(String, i32),
    (from, to): (Option<i64>, Option<i64>),
    end: i64,
) -> Result<Start, AdminError> {
    match (from, to) {
        (Some(position), None) if position > end => Ok(Start::PastEnd { position, end }),
        (Some(behind), Some(ahead)) if ahead > behind => Err(AdminError::TargetAhead {
            group: migration.to().to_owned(),
            other: migration.from().to_owned(),
            partition: name(place),
            ahead,
            behind,
        }),
        (Some(position), Some(stands)) if position == stands => Ok(Start::Already(stands)),
        (Some(position), _) => Ok(Start::Set(position)),
        (None, Some(stands)) => Ok(Start::Already(stands)),
        (None, None) => Ok(Start::ByReset),
    }
}

/// The positions that have to be set.
fn changes(rows: &[MigrationRow]) -> Positions {
    rows.iter()
        .filter_map(|row| match row.start {
            Start::Set(offset) => Some(((row.topic.clone(), row.partition), offset)),
            _ => None,
        })
        .collect::<BTreeMap<_, _>>()
}

fn compare(group: &str, wanted: &Positions, shown: &Positions) -> Result<(), AdminError> {
    for (place, wanted) in wanted {
        let shown = shown.get(place);
        if shown != Some(wanted) {
            return Err(AdminError::NotReadBack {
                group: group.to_owned(),
                partition: name(place),
                wanted: *wanted,
                shown: shown.map_or_else(|| "none".to_owned(), ToString::to_string),
            });
        }
    }
    Ok(())
}

fn name((topic, partition): &(String, i32)) -> String {
    format!("{topic}-{partition}")
}

fn not_carried(group: &str, place: Option<&TopicPartition>, error: KrafkaError) -> AdminError {
    // Somebody joined between our look and the change.
    if code(&error) == Some(ErrorCode::NonEmptyGroup) {
        return AdminError::HasMembers {
            group: group.to_owned(),
            state: "not empty".to_owned(),
            user: "all that use it",
        };
    }
    let of_topic = code(&error) == Some(ErrorCode::TopicAuthorizationFailed);
    let resource = match place {
        Some(place) if of_topic => format!("topic {}", place.topic),
        Some(place) => format!("group {group} ({}-{})", place.topic, place.partition),
        None => format!("group {group}"),
    };
    let attempt = Attempt {
        doing: "set the position",
        right: "READ",
        resource,
    };
    attempt.failed(error)
}

#[cfg(test)]
mod tests;
