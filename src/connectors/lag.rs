//! Where a share group stands and what it has still to deliver, asked of the
//! broker now and then.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::live_view::{LiveView, Position};
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use super::trim::Trimmer;
use crate::kafka::admin::{Admin, SharePosition};

/// How old the lag may be. The broker itself tells it with a delay.
const INTERVAL: Duration = Duration::from_secs(10);

/// The share groups of a connector.
pub(super) struct Groups {
    pub(super) own: String,
    /// That of the parking topic, if there is one, and that topic's name.
    pub(super) parked: Option<String>,
}

/// Keeps a connector's lag up to date, and its parking topic small, until
/// dropped.
pub(super) fn keep(
    connector: String,
    groups: Groups,
    admin: Arc<Admin>,
    view: Arc<LiveView>,
    runtime: &Handle,
) -> AbortOnDropHandle<()> {
    let asking = async move {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut trimmer = Trimmer::default();
        loop {
            ticks.tick().await;
            if let Some(group) = &groups.parked {
                let at = admin.share_positions(group).await.unwrap_or_default();
                view.set_parked_lag(&connector, total(&at));
                trimmer.trim(&connector, group, &admin, &at).await;
            }
            match admin.share_positions(&groups.own).await {
                Ok(at) => view.set_group(&connector, total(&at), Some(positions(&at))),
                Err(error) => {
                    // What was known is out of date, and nothing depends on it.
                    view.set_group(&connector, None, None);
                    tracing::debug!(%connector, %error, "reading the group's lag failed");
                }
            }
        }
    };
    AbortOnDropHandle::new(runtime.spawn(asking))
}

/// Of all partitions together; unknown while the broker knows none.
pub(super) fn total(positions: &[SharePosition]) -> Option<u64> {
    positions
        .iter()
        .filter_map(known)
        .reduce(|one, other| one + other)
}

/// The broker has a number below 0 for what it does not know.
fn known(position: &SharePosition) -> Option<u64> {
    u64::try_from(position.lag?).ok()
}

/// Of the partitions that somebody has read.
fn positions(positions: &[SharePosition]) -> Arc<[Position]> {
    let read = positions.iter().filter_map(|at| {
        Some(Position {
            topic: at.topic.as_str().into(),
            partition: at.partition,
            start_offset: at.start_offset?,
            lag: known(at),
        })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lag: Option<i64>) -> SharePosition {
        SharePosition {
            topic: "orders".into(),
            partition: 0,
            start_offset: Some(7),
            lag,
        }
    }

    #[test]
    fn lag_is_of_the_partitions_that_the_broker_knows() {
        assert_eq!(total(&[]), None);
        assert_eq!(total(&[at(None), at(Some(-1))]), None);
        assert_eq!(total(&[at(Some(3)), at(None), at(Some(4))]), Some(7));
    }

    #[test]
    fn a_partition_that_nobody_has_read_has_no_position() {
        let unread = SharePosition {
            start_offset: None,
            ..at(None)
        };
        let known = positions(&[at(Some(3)), unread]);
        assert_eq!(known.len(), 1);
        let at = &known[0];
        assert_eq!(
            (&*at.topic, at.start_offset, at.lag),
            ("orders", 7, Some(3))
        );
    }
}
