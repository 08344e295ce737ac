//! Where groups stand: start offsets and lag of a share group, committed
//! offsets of a consumer group.

use std::collections::BTreeMap;

use krafka::admin::{DescribeShareGroupOffsetsOptions, ListConsumerGroupOffsetsOptions};

use super::client::Admin;
use super::error::{AdminError, Attempt};

/// Positions by topic and partition.
pub(super) type Positions = BTreeMap<(String, i32), i64>;

/// Where a share group stands on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePosition {
    pub topic: String,
    pub partition: i32,
    /// The earliest offset that may still be delivered; `None` while nobody
    /// has read the partition, so that the reset policy will decide.
    pub start_offset: Option<i64>,
    /// Records not yet done, those in flight included, as the broker last
    /// stored it: it trails. `None` when the broker does not know it.
    pub lag: Option<i64>,
}

impl Admin {
    /// All partitions that the share group has state for, in order of topic
    /// and partition. Empty for a group that does not exist.
    pub async fn share_positions(&self, group: &str) -> Result<Vec<SharePosition>, AdminError> {
        let attempt = Attempt {
            doing: "read the start offsets",
            right: "DESCRIBE",
            resource: format!("group {group}"),
        };
        let answered = self
            .client
            .describe_share_group_offsets(group, DescribeShareGroupOffsetsOptions::default())
            .await
            .map_err(|error| attempt.failed(error))?;
        let mut positions = Vec::with_capacity(answered.len());
        for (place, offset) in answered {
            let offset = offset.map_err(|error| attempt.failed(error))?;
            positions.push(SharePosition {
                topic: place.topic,
                partition: place.partition,
                start_offset: (offset.start_offset >= 0).then_some(offset.start_offset),
                lag: offset.lag,
            });
        }
        positions.sort_by(|one, other| {
            (&one.topic, one.partition).cmp(&(&other.topic, other.partition))
        });
        Ok(positions)
    }

    /// Start offsets of the share group, where it has any.
    pub(super) async fn share_starts(&self, group: &str) -> Result<Positions, AdminError> {
        let positions = self.share_positions(group).await?;
        Ok(positions
            .into_iter()
            .filter_map(|at| Some(((at.topic, at.partition), at.start_offset?)))
            .collect())
    }

    /// Committed offsets of the consumer group, where it has any. Empty for a
    /// group that does not exist.
    pub(super) async fn committed_offsets(&self, group: &str) -> Result<Positions, AdminError> {
        let attempt = Attempt {
            doing: "read the committed offsets",
            right: "DESCRIBE",
            resource: format!("group {group}"),
        };
        let answered = self
            .client
            .list_consumer_group_offsets(group, ListConsumerGroupOffsetsOptions::default())
            .await
            .map_err(|error| attempt.failed(error))?;
        let mut committed = Positions::new();
        for (place, offset) in answered {
            let offset = offset.map_err(|error| attempt.failed(error))?;
            if let Some(offset) = offset.offset {
                committed.insert((place.topic, place.partition), offset);
            }
        }
        Ok(committed)
    }
}
