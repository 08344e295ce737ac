//! Deletes from the parking topic what its share group has settled: it keeps all
//! else without end, and each try of a record leaves one more copy.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::kafka::admin::{Admin, AdminError, SharePosition};

/// Until the next try when the broker has refused: somebody has to do something
/// first.
const PAUSE: Duration = Duration::from_mins(5);

/// Below which offset what partition is deleted.
type Settled = BTreeMap<i32, i64>;

/// See the module. Several workers of a connector may delete the same.
#[derive(Debug, Default)]
pub(super) struct Trimmer {
    deleted: Settled,
    refused_at: Option<Instant>,
}

impl Trimmer {
    /// Deletes what was settled since the last time; `positions` are those of the
    /// topic's group. They are told as they are stored, so that nothing before them
    /// is ever delivered again; what was settled last may still lie behind them.
    pub(super) async fn trim(
        &mut self,
        connector: &str,
        topic: &str,
        admin: &Admin,
        positions: &[SharePosition],
    ) {
        let settled = self.due(topic, positions, Instant::now());
        if settled.is_empty() {
            return;
        }
        let result = admin.delete_below(topic, &settled).await;
        if let Some(error) = self.ended(settled, result, Instant::now()) {
            tracing::warn!(
                connector, topic, %error,
                "parked records that are settled stay in their topic, which grows"
            );
        }
    }

    fn due(&self, topic: &str, positions: &[SharePosition], now: Instant) -> Settled {
        if self.refused_at.is_some_and(|at| now < at + PAUSE) {
            return Settled::new();
        }
        let ours = positions.iter().filter(|at| at.topic == topic);
        let settled = ours.filter_map(|at| Some((at.partition, at.start_offset?)));
        settled
            .filter(|(partition, start)| {
                *start > self.deleted.get(partition).copied().unwrap_or_default()
            })
            .collect()
    }

    /// Returns what is to be told: the first refusal of several in a row.
    fn ended(
        &mut self,
        settled: Settled,
        result: Result<(), AdminError>,
        now: Instant,
    ) -> Option<AdminError> {
        match result {
            Ok(()) => {
                self.deleted.extend(settled);
                self.refused_at = None;
                None
            }
            Err(error) => {
                let is_first = self.refused_at.replace(now).is_none();
                is_first.then_some(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "share-orders-parked";

    fn at(topic: &str, partition: i32, start_offset: Option<i64>) -> SharePosition {
        SharePosition {
            topic: topic.to_owned(),
            partition,
            start_offset,
            lag: Some(0),
        }
    }

    fn refused() -> Result<(), AdminError> {
        Err(AdminError::Unauthorized {
            doing: "delete settled records",
            right: "DELETE",
            resource: format!("topic {TOPIC}"),
        })
    }

    #[test]
    fn what_was_settled_since_the_last_time_is_deleted_and_nothing_else() {
        let (mut trimmer, now) = (Trimmer::default(), Instant::now());
        let positions = [
            at(TOPIC, 0, Some(7)),
            at(TOPIC, 1, Some(0)),
            at(TOPIC, 2, None),
            at("orders", 0, Some(9)),
        ];
        let settled = trimmer.due(TOPIC, &positions, now);
        assert_eq!(settled, Settled::from([(0, 7)]));
        assert!(trimmer.ended(settled, Ok(()), now).is_none());
        assert!(trimmer.due(TOPIC, &positions, now).is_empty());
        // Set back by an operator: what is gone is gone.
        let back = [at(TOPIC, 0, Some(3))];
        assert!(trimmer.due(TOPIC, &back, now).is_empty());
        let more = [at(TOPIC, 0, Some(8))];
        assert_eq!(trimmer.due(TOPIC, &more, now), Settled::from([(0, 8)]));
    }

    #[test]
    fn a_missing_right_is_told_once_and_asked_for_again_after_a_while() {
        let (mut trimmer, mut now) = (Trimmer::default(), Instant::now());
        let positions = [at(TOPIC, 0, Some(7))];
        for round in 0..3 {
            let settled = trimmer.due(TOPIC, &positions, now);
            let told = trimmer.ended(settled.clone(), refused(), now);
            assert_eq!(told.is_some(), round == 0);
            let soon = now + PAUSE - Duration::from_millis(1);
            assert!(trimmer.due(TOPIC, &positions, soon).is_empty());
            now += PAUSE;
            assert_eq!(trimmer.due(TOPIC, &positions, now), settled);
        }
        let settled = trimmer.due(TOPIC, &positions, now);
        assert!(trimmer.ended(settled.clone(), Ok(()), now).is_none());
        let told = trimmer.ended(settled, refused(), now);
        assert!(told.is_some_and(|it| it.to_string().contains("DELETE")));
    }
}
