//! Which session fetches which partition, as leaders move and subscriptions
//! change.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_actors::outcome::Cause;

use super::answers::resource_of;
use super::broker::Broker;
use super::client::{ASSIGNMENT, Client, topic_resource};
use super::layout::Layout;
use super::session::PartitionKey;
use super::settlements::Told;

impl Client {
    /// Brings the sessions in line with the layout. A partition has one
    /// session at a time: what its former broker held is lost before the next
    /// one fetches it.
    pub(super) fn move_partitions(&mut self) {
        let mut told = Told::default();
        self.part(&mut told);
        self.tell(told);
        for id in self.layout.leaders() {
            self.brokers
                .entry(id)
                .or_insert_with(|| Broker::new(id, Arc::clone(&self.config)));
        }
        self.moving = false;
        let ids: Vec<i32> = self.brokers.keys().copied().collect();
        for id in ids {
            let (wanted, blocked): (BTreeSet<_>, BTreeSet<_>) = self
                .layout
                .led_by(id)
                .filter(|key| self.assignment.may_fetch(key))
                .partition(|key| !self.is_elsewhere(key, id));
            self.moving |= !blocked.is_empty();
            if let Some(broker) = self.brokers.get_mut(&id) {
                broker.want(wanted);
            }
        }
        self.brokers
            .retain(|_, broker| broker.wants_records() || !broker.is_idle());
        let resources: BTreeSet<String> = self.resources().collect();
        if self
            .troubles
            .retain(|resource| resources.contains(resource))
        {
            self.recovered();
        }
    }

    fn is_elsewhere(&self, key: &PartitionKey, id: i32) -> bool {
        self.brokers
            .values()
            .any(|broker| broker.id != id && broker.is_with(key))
    }

    /// Takes leave of partitions that have another leader now or are gone.
    /// Those of a topic that is only not subscribed any more are kept until
    /// they are settled.
    fn part(&mut self, told: &mut Told) {
        for broker in self.brokers.values_mut() {
            if broker.in_flight.is_some() {
                continue;
            }
            let keys: Vec<PartitionKey> = broker.books.keys().copied().collect();
            for key in keys {
                if let Some(cause) = reason_to_part(&self.layout, broker, &key) {
                    broker.part_with(&key, &cause, told);
                }
            }
        }
    }

    /// The resources that a trouble may be about.
    fn resources(&self) -> impl Iterator<Item = String> + '_ {
        let group = format!("group {}", self.config.group_id);
        let places = self.layout.places.values();
        self.brokers
            .values()
            .map(Broker::resource)
            .chain(self.layout.topics.iter().map(|topic| topic_resource(topic)))
            .chain(places.map(|place| resource_of(&place.partition)))
            .chain([group, ASSIGNMENT.to_owned(), "metadata".to_owned()])
    }
}

fn reason_to_part(layout: &Layout, broker: &Broker, key: &PartitionKey) -> Option<Cause> {
    let Some(place) = layout.places.get(key) else {
        let topic = broker.books.get(key)?.topic();
        return layout
            .topics
            .contains(topic)
            .then(|| format!("topic {topic} was deleted").into());
    };
    let leader = place.leader.filter(|leader| *leader != broker.id)?;
    Some(
        format!(
            "{} moved from broker {} to broker {leader}",
            place.partition, broker.id
        )
        .into(),
    )
}
