//! Which broker leads which partition of the subscribed topics, kept up to
//! date from the cluster's metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use krafka::error::ErrorCode;
use sluice_actors::outcome::Cause;
use sluice_actors::record::{SourcePartition, TopicId};
use tokio::sync::{Notify, mpsc, watch};

use super::session::PartitionKey;
use super::wire::{self, Cluster};

/// How soon to look again while a topic or a leader is missing.
const RETRY: Duration = Duration::from_secs(1);
/// How many answers in a row must miss a topic before it counts as deleted:
/// a broker that has just started may not know it yet.
const MISSES: u32 = 2;

/// A partition and the broker that leads it, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) partition: Arc<SourcePartition>,
    pub(super) leader: Option<i32>,
}

/// Where the partitions of the subscribed topics are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) topics: BTreeSet<Arc<str>>,
    pub(super) places: BTreeMap<PartitionKey, Place>,
    /// Topics that cannot be read, with the reason.
    pub(super) faults: BTreeMap<Arc<str>, Cause>,
}

impl Layout {
    /// The partitions that a broker leads.
    pub(super) fn led_by(&self, broker: i32) -> impl Iterator<Item = PartitionKey> + '_ {
        self.places
            .iter()
            .filter(move |(_, place)| place.leader == Some(broker))
            .map(|(key, _)| *key)
    }

    pub(super) fn leaders(&self) -> BTreeSet<i32> {
        self.places
            .values()
            .filter_map(|place| place.leader)
            .collect()
    }

    fn is_whole(&self) -> bool {
        self.faults.is_empty() && self.places.values().all(|place| place.leader.is_some())
    }

    /// Takes a topic's partitions over from an earlier layout.
    fn keep(&mut self, topic: &str, earlier: &Self) {
        let kept = earlier
            .places
            .iter()
            .filter(|(_, place)| &*place.partition.topic == topic);
        self.places
            .extend(kept.map(|(key, place)| (*key, place.clone())));
    }

    fn place(&mut self, topic: &Arc<str>, topic_id: TopicId, partition: i32, leader: Option<i32>) {
        let key = PartitionKey {
            topic_id,
            partition,
        };
        let partition = Arc::new(SourcePartition {
            // Its own: records of all partitions sharing one would have all
            // threads count at one place.
            topic: Arc::from(&**topic),
            topic_id,
            partition,
        });
        self.places.insert(key, Place { partition, leader });
    }
}

/// Follows the metadata of the subscribed topics.
pub(super) struct Surveyor {
    pub(super) cluster: Cluster,
    pub(super) topics: watch::Receiver<Vec<Arc<str>>>,
    /// Somebody met a leader that is none.
    pub(super) stale: Arc<Notify>,
    pub(super) max_age: Duration,
    pub(super) found: mpsc::Sender<Survey>,
}

/// What a look at the metadata brought.
#[derive(Debug)]
pub(super) enum Survey {
    Found(Layout),
    /// No broker answered.
    Blind(Cause),
}

impl Surveyor {
    /// Looks again when the metadata is too old, proven wrong, or the
    /// subscription changes; ends with its receiver.
    pub(super) async fn run(mut self) {
        let mut layout = Layout::default();
        let mut misses = BTreeMap::new();
        let mut failures = 0;
        loop {
            let topics = self.topics.borrow_and_update().clone();
            let (survey, pause) = match self.cluster.refresh(&topics).await {
                Ok(()) => {
                    failures = 0;
                    layout = survey(&self.cluster, &topics, &layout, &mut misses);
                    let settled = layout.is_whole() && misses.is_empty();
                    let pause = if settled { self.max_age } else { RETRY };
                    (Survey::Found(layout.clone()), pause)
                }
                Err(error) => {
                    failures += 1;
                    let cause = format!("metadata of the topics cannot be read: {error}");
                    (Survey::Blind(cause.into()), wire::backoff(failures))
                }
            };
            if self.found.send(survey).await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stale.notified() => {}
                changed = self.topics.changed() => if changed.is_err() { return },
                () = self.found.closed() => return,
            }
        }
    }
}

fn survey(
    cluster: &Cluster,
    topics: &[Arc<str>],
    earlier: &Layout,
    misses: &mut BTreeMap<Arc<str>, u32>,
) -> Layout {
    let mut layout = Layout {
        topics: topics.iter().cloned().collect(),
        ..Layout::default()
    };
    for topic in topics {
        match cluster.topic(topic) {
            Ok(info) => {
                misses.remove(topic);
                let topic_id = TopicId(info.topic_id);
                for partition in info.partitions_iter() {
                    let leader = partition.is_routable().then_some(partition.leader);
                    layout.place(topic, topic_id, partition.partition, leader);
                }
            }
            Err(code) => {
                let missed = misses.entry(Arc::clone(topic)).or_default();
                *missed += 1;
                if code != ErrorCode::UnknownTopicOrPartition || *missed < MISSES {
                    layout.keep(topic, earlier);
                }
                if code != ErrorCode::UnknownTopicOrPartition || *missed >= MISSES {
                    layout.faults.insert(Arc::clone(topic), fault(topic, code));
                }
            }
        }
    }
    misses.retain(|topic, _| layout.topics.contains(topic));
    layout
}

fn fault(topic: &str, code: ErrorCode) -> Cause {
    match code {
        ErrorCode::UnknownTopicOrPartition => format!(
            "topic {topic} does not exist (or DESCRIBE on it is not granted); create it or take \
             it out of the connector's topics"
        ),
        ErrorCode::TopicAuthorizationFailed => {
            format!("topic {topic} may not be read; grant READ and DESCRIBE on it")
        }
        code => format!("topic {topic} is not available: {code:?}"),
    }
    .into()
}
