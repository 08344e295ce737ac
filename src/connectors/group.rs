//! The settings of a connector's share groups, read again by
//! `metadata.max.age.ms`: an operator may change them while records are open,
//! and the brokers keep to what is set at once.

use std::iter;
use std::sync::Arc;

use sluice_actors::gate::Gate;
use sluice_actors::live_view::LiveView;
use sluice_actors::outcome::Cause;
use sluice_actors::supervisor::Pipeline;
use sluice_actors::terms::Terms;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::config::connector::ConnectorConfig;
use crate::kafka::admin::{Admin, AdminError, BrokerLetters, GroupSettings, Readings};

/// A share group and its settings, as they were read last.
#[derive(Clone, Debug)]
pub(super) struct ReadGroup {
    pub(super) id: String,
    pub(super) settings: GroupSettings,
}

/// The share groups of a connector.
#[derive(Clone, Debug)]
pub(super) struct ReadGroups {
    pub(super) own: ReadGroup,
    /// That of the parking topic, if there is one.
    pub(super) parked: Option<ReadGroup>,
    /// What the brokers write of records that the own one rejects.
    pub(super) letters: Option<BrokerLetters>,
}

impl ReadGroups {
    fn each(&self) -> impl Iterator<Item = &ReadGroup> {
        iter::once(&self.own).chain(&self.parked)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut ReadGroup> {
        iter::once(&mut self.own).chain(&mut self.parked)
    }

    /// What the pipeline may do by these settings.
    pub(super) fn terms(&self) -> Terms {
        let own = &self.own.settings;
        let limits = self.each().map(|it| it.settings.delivery_limit.value);
        let lowest = limits.fold(own.delivery_limit.value, u16::min);
        Terms {
            gate: Gate::new(lowest),
            span: own.max_record_locks.value as usize,
            may_reject: true,
            may_renew: self.without_renewal().is_none(),
        }
    }

    fn without_renewal(&self) -> Option<&ReadGroup> {
        self.each().find(|it| !it.settings.renew_enabled.value)
    }

    /// Whether anything was ever read that could be out of date.
    fn are_known(&self) -> bool {
        self.each().any(|it| it.settings.delivery_limit.known)
    }

    fn trouble(&self) -> Option<String> {
        self.without_renewal().map(|group| {
            format!(
                "{}, so no more are fetched meanwhile",
                no_renewal(&group.id)
            )
        })
    }
}

/// Why records cannot be held.
pub(super) fn no_renewal(group: &str) -> String {
    format!(
        "share.renew.acknowledge.enable is false on share group {group}: records that are held \
         would lose their locks; set it to true"
    )
}

/// Looks at the groups, now and again.
struct Looker {
    connector: String,
    admin: Arc<Admin>,
    groups: ReadGroups,
    /// Why no dead letters would arrive, when it was looked at last.
    obstacle: Option<String>,
    readings: Readings,
}

/// Keeps a pipeline to its groups' settings, until dropped.
pub(super) fn keep(
    config: &ConnectorConfig,
    groups: ReadGroups,
    admin: Arc<Admin>,
    pipeline: Pipeline,
    view: Arc<LiveView>,
    runtime: &Handle,
) -> AbortOnDropHandle<()> {
    let max_age = config.consumer.client.metadata_max_age;
    let mut looker = Looker {
        connector: config.name.clone(),
        admin,
        groups,
        obstacle: None,
        readings: Readings::new(max_age, Instant::now()),
    };
    let looking = async move {
        let mut told: Option<Cause> = None;
        loop {
            tokio::time::sleep_until(looker.readings.due_at()).await;
            let failure = looker.look().await;
            pipeline.set_terms(looker.terms());
            let trouble = looker.trouble(failure).map(Cause::from);
            looker.log(told.as_ref(), trouble.as_ref());
            view.set_group_trouble(&looker.connector, trouble.clone());
            told = trouble;
        }
    };
    AbortOnDropHandle::new(runtime.spawn(looking))
}

impl Looker {
    /// Reads all there is to read; what cannot be read stays as it was. Returns
    /// a failure that is to be told.
    async fn look(&mut self) -> Option<AdminError> {
        let mut failure = None;
        for group in self.groups.each_mut() {
            match self.admin.share_group_settings(&group.id).await {
                Ok(read) => {
                    for change in group.settings.take(read) {
                        tracing::warn!(
                            connector = %self.connector, group = %group.id,
                            "the group's settings have changed: {change}"
                        );
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        if let Some(letters) = &self.groups.letters {
            let group = &self.groups.own.id;
            match self.admin.check_broker_dead_letters(group, letters).await {
                Ok(checked) => self.obstacle = checked.err().map(|it| it.to_string()),
                Err(error) => failure = Some(error),
            }
        }
        let now = Instant::now();
        let Some(error) = failure else {
            self.readings.succeeded(now);
            return None;
        };
        tracing::debug!(connector = %self.connector, %error, "reading the group's settings failed");
        // Who never had the right was told at the start.
        (self.readings.failed(now) && self.groups.are_known()).then_some(error)
    }

    fn terms(&self) -> Terms {
        Terms {
            may_reject: self.obstacle.is_none(),
            ..self.groups.terms()
        }
    }

    /// The gravest first.
    fn trouble(&self, failure: Option<AdminError>) -> Option<String> {
        let renewal = self.groups.trouble();
        let letters = self.obstacle.as_ref().map(|obstacle| {
            format!(
                "records that would be rejected are held meanwhile, and with many of them no more \
                 are fetched: {obstacle}"
            )
        });
        let failure = failure.map(|error| {
            format!("the group's settings may have changed, those read last are kept to: {error}")
        });
        renewal.or(letters).or(failure)
    }

    fn log(&self, before: Option<&Cause>, now: Option<&Cause>) {
        let connector = &self.connector;
        match (before, now) {
            (before, Some(cause)) if before != Some(cause) => {
                tracing::warn!(%connector, %cause, "the group's settings are in the way");
            }
            (Some(_), None) => {
                tracing::info!(%connector, "the group's settings are in nobody's way any more");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use krafka::Kafka;
    use krafka::testing::FakeBroker;

    use super::*;
    use crate::kafka::admin::Setting;

    const fn set<T>(value: T) -> Setting<T> {
        Setting { value, known: true }
    }

    fn group(id: &str, limit: u16) -> ReadGroup {
        ReadGroup {
            id: id.to_owned(),
            settings: GroupSettings {
                lock_duration: set(Duration::from_secs(30)),
                delivery_limit: set(limit),
                max_record_locks: set(2000),
                renew_enabled: set(true),
                auto_offset_reset: set("earliest".to_owned()),
            },
        }
    }

    fn groups(own: u16, parked: Option<u16>) -> ReadGroups {
        ReadGroups {
            own: group("share-orders", own),
            parked: parked.map(|limit| group("share-orders-parked", limit)),
            letters: None,
        }
    }

    #[test]
    fn one_gate_keeps_to_the_lower_limit_of_both_groups() {
        for (own, parked, expected) in [
            (10, None, 10),
            (10, Some(5), 5),
            (3, Some(5), 3),
            (10, Some(10), 10),
        ] {
            let terms = groups(own, parked).terms();
            assert_eq!(terms, Terms::new(expected, 2000), "{own} {parked:?}");
        }
    }

    #[test]
    fn a_group_without_renewal_is_named_and_nothing_is_fetched() {
        let mut groups = groups(10, Some(10));
        assert_eq!(groups.trouble(), None);
        let parked = groups.parked.as_mut().unwrap();
        parked.settings.renew_enabled = set(false);
        assert!(!groups.terms().may_renew);
        let trouble = groups.trouble().unwrap();
        for said in [
            "share.renew.acknowledge.enable is false",
            "-parked:",
            "set it",
        ] {
            assert!(trouble.contains(said), "{trouble}");
        }
    }

    /// At a broker that tells no group's settings.
    async fn blind(mut groups: ReadGroups) -> (FakeBroker, Looker) {
        groups.letters = Some(BrokerLetters {
            topic: "dlq.orders".to_owned(),
            with_contents: true,
        });
        let broker = FakeBroker::start().await.unwrap();
        let servers = broker.bootstrap_servers();
        let kafka = Kafka::builder(servers.clone()).connect().await.unwrap();
        let looker = Looker {
            connector: "orders".to_owned(),
            admin: Arc::new(Admin::new(kafka.admin(), servers)),
            groups,
            obstacle: Some("no topic".to_owned()),
            readings: Readings::new(Duration::ZERO, Instant::now()),
        };
        (broker, looker)
    }

    #[tokio::test]
    async fn what_cannot_be_read_any_more_is_kept_to_and_told_in_the_end() {
        let (_broker, mut looker) = blind(groups(7, None)).await;
        assert!(looker.look().await.is_none());
        assert!(looker.look().await.is_none(), "it may pass");
        let failure = looker.look().await.unwrap();
        let terms = Terms {
            may_reject: false,
            ..Terms::new(7, 2000)
        };
        assert_eq!(looker.terms(), terms);
        looker.obstacle = None;
        let trouble = looker.trouble(Some(failure)).unwrap();
        assert!(trouble.contains("those read last are kept to"), "{trouble}");
        assert_eq!(looker.trouble(None), None);
    }

    #[tokio::test]
    async fn who_could_never_read_the_limit_is_told_at_the_start_only() {
        let mut unread = groups(2, None);
        unread.own.settings.delivery_limit.known = false;
        let (_broker, mut looker) = blind(unread).await;
        for _ in 0..5 {
            assert!(looker.look().await.is_none());
        }
        assert_eq!(looker.terms().gate, Gate::new(2));
    }

    #[test]
    fn a_limit_that_was_never_read_cannot_be_out_of_date() {
        let mut groups = groups(2, None);
        assert!(groups.are_known());
        groups.own.settings.delivery_limit.known = false;
        assert!(!groups.are_known());
    }
}
