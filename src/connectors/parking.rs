//! Makes sure, before a connector joins, that records can be parked and come
//! back, and joins the sources of both.

use std::sync::Arc;

use krafka::Kafka;
use sluice_actors::credit::Credit;
use sluice_actors::ports::source::{Source, SourceEvent, SourceEvents};
use sluice_actors::supervisor::Parking;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::group::ReadGroup;
use super::lag;
use super::start::{SERVERS, StartError, connect, prepare_group};
use crate::config::connector::{
    ConnectorConfig, PARK_AFTER, PARK_REPLICATION, ParkingConfig, parking_topic,
};
use crate::kafka::admin::{Admin, GroupSettings, OwnTopic, ShareGroupCheck, WantedSettings};
use crate::kafka::parking::{JoinedSource, Of, ParkingTopic, States, returned};
use crate::kafka::share::{self, ShareSource, ShareSourceConfig, Teller};

/// Events of both sources that may wait for the pipeline.
const EVENTS: usize = 64;
/// What is not due waits in memory; so much of it is fetched at once.
const BYTES_AT_ONCE: usize = 8 << 20;
const EARLIEST: &str = "earliest";

/// The connector's own source, before it is started.
pub(super) struct OwnSource {
    pub(super) kafka: Kafka,
    pub(super) config: ShareSourceConfig,
    pub(super) credit: Arc<Credit>,
}

/// Where a connector's records are parked: topic and group are there.
pub(super) struct ParkingPlace {
    core: Parking,
    settings: GroupSettings,
    kafka: Kafka,
}

/// Records that were parked while parking was on lie where nobody looks. Who
/// has never parked need not have rights there.
async fn warn_of_left_ones(connector: &str, admin: &Admin) {
    let topic = parking_topic(connector);
    let left = match admin.has_topic(&topic).await {
        Ok(true) => admin.share_positions(&topic).await.map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    match left {
        Ok(Some(positions)) => {
            if let Some(warning) = left_ones(&topic, lag::total(&positions)) {
                tracing::warn!(connector, "{warning}");
            }
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(connector, %error, "looking for parked records failed"),
    }
}

/// `lag` is that of the topic's group.
fn left_ones(topic: &str, lag: Option<u64>) -> Option<String> {
    let left = match lag {
        Some(0) => return None,
        Some(lag) => format!("holds {lag} parked records"),
        None => "may hold parked records".to_owned(),
    };
    Some(format!(
        "topic {topic} {left} of a connector of this name, and nothing is parked or read there \
         without {PARK_AFTER}: set it again until share group {topic} has no lag, or delete topic \
         and group if nobody needs them"
    ))
}

/// `None` when nothing is parked. `own` are the settings of the connector's
/// group.
pub(super) async fn prepare(
    config: &ConnectorConfig,
    admin: &Admin,
    own: &GroupSettings,
) -> Result<Option<ParkingPlace>, StartError> {
    let Some(parking) = &config.parking else {
        warn_of_left_ones(&config.name, admin).await;
        return Ok(None);
    };
    let topic = OwnTopic {
        connector: &config.name,
        name: &parking.topic,
        replication_factor: parking.replication_factor,
        replication_key: PARK_REPLICATION,
    };
    if let Some(warning) = admin.create_lasting_topic(topic).await? {
        tracing::warn!(connector = %config.name, "{warning}");
    }
    let settings = make_group_ready(config, parking, admin, own).await?;
    let core = Parking {
        topic: parking.topic.as_str().into(),
        lot: Arc::new(ParkingTopic::new(parking)),
        credit: Credit::new(BYTES_AT_ONCE),
    };
    let kafka = connect(&config.consumer.client, SERVERS).await?;
    Ok(Some(ParkingPlace {
        core,
        settings,
        kafka,
    }))
}

/// The group of the parking topic is as the connector's own is, but that it
/// begins at the topic's start: what is parked before anybody reads it there
/// would be skipped.
async fn make_group_ready(
    config: &ConnectorConfig,
    parking: &ParkingConfig,
    admin: &Admin,
    own: &GroupSettings,
) -> Result<GroupSettings, StartError> {
    let group = &parking.topic;
    let check = ShareGroupCheck {
        connector: config.name.clone(),
        group: group.clone(),
        consumer_group: config.connect_group(),
        topics: vec![parking.topic.clone()],
        reset_given: true,
    };
    let settings = prepare_group(admin, &check, &wanted(own)).await?;
    let (reset, limit) = (&settings.auto_offset_reset, &settings.delivery_limit);
    if reset.value != EARLIEST {
        return Err(StartError::Refused(format!(
            "{PARK_AFTER}: share group {group} begins at {}, and would skip records that are \
             parked before it is read; set share.auto.offset.reset={EARLIEST} on it",
            reset.value
        )));
    }
    if limit.value < own.delivery_limit.value {
        return Err(StartError::Refused(format!(
            "{PARK_AFTER}: share group {group} hands a record out {} times, the connector's own \
             group {} times; set share.delivery.count.limit on it to at least that",
            limit.value, own.delivery_limit.value
        )));
    }
    Ok(settings)
}

/// The attempts and the locks that the connector's group really has.
fn wanted(own: &GroupSettings) -> WantedSettings {
    WantedSettings {
        auto_offset_reset: None,
        max_record_locks: None,
        delivery_limit: own.delivery_limit.known.then_some(own.delivery_limit.value),
        lock_duration: own.lock_duration.known.then_some(own.lock_duration.value),
    }
}

impl ParkingPlace {
    /// What the pipeline needs of it.
    pub(super) fn core(&self) -> Parking {
        self.core.clone()
    }

    /// The group of the parking topic.
    pub(super) fn group(&self) -> ReadGroup {
        ReadGroup {
            id: self.core.topic.to_string(),
            settings: self.settings.clone(),
        }
    }

    /// Starts both sources; returns the connector's own one, both as one, and
    /// their events.
    pub(super) fn start(
        self,
        config: &ConnectorConfig,
        own: OwnSource,
        runtime: &Handle,
    ) -> (Arc<ShareSource>, Arc<dyn Source>, SourceEvents) {
        let Self { core, kafka, .. } = self;
        let (events, told) = mpsc::channel(EVENTS);
        let states = States::default();
        let states_of_parked = states.clone();
        let topic = Arc::clone(&core.topic);
        let parked_config = ShareSourceConfig {
            group_id: Arc::clone(&topic),
            topics: vec![Arc::clone(&topic)],
            ..own.config.clone()
        };
        let teller = Teller::new(events.clone(), move |event| states.tell(Of::Own, event));
        let own = share::start_telling(own.kafka, own.config, own.credit, teller, runtime);
        let group = config.share.group_id.clone();
        let teller = Teller::new(events, move |event| match event {
            SourceEvent::Acquired(batches) => {
                Some(SourceEvent::Acquired(returned(batches, &group)))
            }
            event => states_of_parked.tell(Of::Parked, event),
        });
        let parked = share::start_telling(kafka, parked_config, core.credit, teller, runtime);
        let own = Arc::new(own);
        let joined = JoinedSource {
            own: Arc::clone(&own) as Arc<dyn Source>,
            parked: Arc::new(parked),
            topic,
        };
        (own, Arc::new(joined), told)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kafka::admin::Setting;

    fn set<T>(value: T) -> Setting<T> {
        Setting { value, known: true }
    }

    #[test]
    fn records_that_are_left_behind_are_told_of_with_the_remedy() {
        let topic = "share-orders-parked";
        assert_eq!(left_ones(topic, Some(0)), None);
        for (lag, says) in [(Some(3), "holds 3 parked"), (None, "may hold")] {
            let warning = left_ones(topic, lag).unwrap();
            for named in [says, topic, "without share.park.after.ms: set it again"] {
                assert!(warning.contains(named), "{warning}");
            }
        }
    }

    #[test]
    fn the_parked_groups_locks_and_attempts_are_those_that_the_own_group_has() {
        let mut own = GroupSettings {
            lock_duration: set(Duration::from_secs(7)),
            delivery_limit: set(9),
            max_record_locks: set(4000),
            renew_enabled: set(true),
            auto_offset_reset: set("latest".to_owned()),
        };
        let expected = WantedSettings {
            delivery_limit: Some(9),
            lock_duration: Some(Duration::from_secs(7)),
            ..WantedSettings::default()
        };
        assert_eq!(wanted(&own), expected);
        own.lock_duration.known = false;
        own.delivery_limit.known = false;
        assert_eq!(wanted(&own), WantedSettings::default(), "what is assumed");
    }
}
