//! Membership of the share group: a state machine of heartbeats, and the loop
//! that sends them.
//!
//! The member makes its own id and keeps it for life. Every partition is
//! fetched, whoever has it, but none before the group has assigned it to
//! somebody: until then the coordinator sets up the partition's state, and if
//! it fails at that moment, the next one does so once more. What was accepted
//! in between would be forgotten, and with `share.auto.offset.reset=latest`
//! what came in between would never be read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use krafka::error::{ErrorCode, KrafkaError};
use sluice_actors::outcome::Cause;
use sluice_actors::record::TopicId;
use tokio::sync::{mpsc, oneshot, watch};

use super::client::Membership;
use super::config::ShareSourceConfig;
use super::session::PartitionKey;
use super::wire::{self, Cluster, Heartbeat, HeartbeatAnswer};

const JOINING_EPOCH: i32 = 0;
const LEAVING_EPOCH: i32 = -1;
/// Bounds on the interval that the coordinator asks for.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
const INTERVAL_MAX: Duration = Duration::from_secs(30);

/// The member as its heartbeats see it.
#[derive(Debug)]
pub(super) struct Member {
    config: Arc<ShareSourceConfig>,
    member_id: Arc<str>,
    epoch: i32,
    /// The coordinator has the member, or a heartbeat is on its way that may
    /// yet make it one.
    may_be_known: bool,
    topics: Vec<Arc<str>>,
    /// The coordinator knows `topics`.
    subscribed: bool,
    interval: Duration,
    coordinator: Option<String>,
    failures: u32,
    /// Assigned to this member or to another, now or before.
    open: Arc<BTreeSet<PartitionKey>>,
    /// It was a member before, so that what is refused has worked.
    was_member: bool,
}

impl Member {
    pub(super) fn new(config: Arc<ShareSourceConfig>, member_id: Arc<str>) -> Self {
        Self {
            topics: config.topics.clone(),
            config,
            member_id,
            epoch: JOINING_EPOCH,
            may_be_known: false,
            subscribed: false,
            interval: INTERVAL_MIN,
            coordinator: None,
            failures: 0,
            open: Arc::default(),
            was_member: false,
        }
    }

    /// Another subscription, told by the next heartbeat.
    fn subscribe(&mut self, topics: Vec<Arc<str>>) {
        if self.topics != topics {
            self.topics = topics;
            self.subscribed = false;
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        let names = || self.topics.iter().map(|topic| topic.to_string()).collect();
        Heartbeat {
            group_id: self.config.group_id.to_string(),
            member_id: self.member_id.to_string(),
            member_epoch: self.epoch,
            rack_id: self.config.rack.as_ref().map(|rack| rack.to_string()),
            subscribed_topic_names: (!self.subscribed).then(names),
        }
    }

    fn leave(&self) -> Heartbeat {
        Heartbeat {
            member_epoch: LEAVING_EPOCH,
            rack_id: None,
            subscribed_topic_names: None,
            ..self.heartbeat()
        }
    }

    fn has_joined(&self) -> bool {
        self.epoch > JOINING_EPOCH
    }

    /// The answer to a heartbeat that was sent with the current subscription.
    fn answered(&mut self, answer: &HeartbeatAnswer) -> Membership {
        if answer.error_code.is_ok() {
            self.take_assignment(answer);
            return self.granted(answer.member_epoch, answer.heartbeat_interval_ms);
        }
        let message = answer.error_message.as_deref().unwrap_or_default();
        self.refused(answer.error_code, message)
    }

    /// It is told when it has changed.
    fn take_assignment(&mut self, answer: &HeartbeatAnswer) {
        let topics = answer.assignment.iter().flatten();
        let partitions = topics.flat_map(|topic| {
            topic.partitions.iter().map(|index| PartitionKey {
                topic_id: TopicId(topic.topic_id),
                partition: *index,
            })
        });
        self.assigned(partitions.collect());
    }

    fn assigned(&mut self, partitions: BTreeSet<PartitionKey>) {
        if !partitions.is_subset(&self.open) {
            Arc::make_mut(&mut self.open).extend(partitions);
        }
    }

    fn joined(&self) -> Membership {
        Membership::Joined(Arc::clone(&self.open))
    }

    fn granted(&mut self, epoch: i32, interval_ms: i32) -> Membership {
        self.epoch = epoch;
        self.was_member |= self.has_joined();
        self.subscribed = true;
        self.failures = 0;
        let millis = u64::try_from(interval_ms).unwrap_or(0);
        self.interval = Duration::from_millis(millis).clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.joined()
    }

    fn refused(&mut self, code: ErrorCode, message: &str) -> Membership {
        self.failures += 1;
        let is_forgotten = match code {
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => true,
            // The group itself was deleted.
            ErrorCode::GroupIdNotFound => self.has_joined(),
            _ => false,
        };
        if is_forgotten {
            self.epoch = JOINING_EPOCH;
            self.subscribed = false;
        }
        if code == ErrorCode::GroupIdNotFound {
            // The group that is made anew sets up everything anew.
            self.open = Arc::default();
        }
        self.may_be_known = self.has_joined();
        let group = &self.config.group_id;
        match code {
            _ if is_forgotten => Membership::Troubled(
                format!(
                    "group {group} does not know this member any more ({code:?}); joining anew"
                )
                .into(),
            ),
            ErrorCode::GroupIdNotFound => Membership::Failed(
                format!(
                    "group id {group} belongs to a group of another kind (a consumer group), also \
                     when that is empty; set share.group.id to another id, or delete the group"
                )
                .into(),
            ),
            ErrorCode::GroupAuthorizationFailed => self.unless_it_worked_before(
                format!("joining group {group} is not granted; grant READ on the group").into(),
            ),
            ErrorCode::GroupMaxSizeReached => Membership::Troubled(
                format!(
                    "group {group} has as many members as the brokers let it have \
                     (group.share.max.size); this one joins when another leaves, or when that is \
                     raised"
                )
                .into(),
            ),
            ErrorCode::InvalidRequest
            | ErrorCode::InvalidGroupId
            | ErrorCode::UnsupportedAssignor
            | ErrorCode::UnsupportedVersion => Membership::Failed(
                format!("group {group} cannot be joined: {code:?}: {message}").into(),
            ),
            _ => {
                self.coordinator = None;
                Membership::Troubled(
                    format!("group {group}: heartbeat failed: {code:?}: {message}").into(),
                )
            }
        }
    }

    /// A heartbeat that did not get through.
    fn unreachable(&mut self, error: &KrafkaError) -> Membership {
        self.coordinator = None;
        if let KrafkaError::Broker { code, message } = error {
            return self.refused(*code, message);
        }
        self.failures += 1;
        let cause: Cause = format!(
            "group {}: the coordinator cannot be reached: {error}",
            self.config.group_id
        )
        .into();
        if matches!(error, KrafkaError::Auth { .. }) {
            return self.unless_it_worked_before(cause);
        }
        Membership::Troubled(cause)
    }

    /// Rights and credentials that were never there need the operator; those
    /// that are gone may come back.
    fn unless_it_worked_before(&self, cause: Cause) -> Membership {
        if self.was_member {
            Membership::Troubled(cause)
        } else {
            Membership::Failed(cause)
        }
    }

    /// The pause before the next heartbeat.
    fn pause(&self) -> Duration {
        if self.failures == 0 {
            return self.interval;
        }
        wire::backoff(self.failures)
    }
}

/// Sends a member's heartbeats.
pub(super) struct Heart {
    pub(super) cluster: Cluster,
    pub(super) member: Member,
    pub(super) topics: watch::Receiver<Vec<Arc<str>>>,
    /// There are partitions that are not assigned to anybody yet, as far as is
    /// known here.
    pub(super) waiting: watch::Receiver<bool>,
    /// Heartbeats in a row that found it so.
    pub(super) waits: u32,
    /// It was told that the others cannot be looked at.
    pub(super) is_blind: bool,
    pub(super) news: mpsc::Sender<Membership>,
}

impl Heart {
    /// Beats until told to leave (then leaves), or until nobody listens.
    pub(super) async fn run(mut self, mut leave: oneshot::Receiver<()>) {
        loop {
            let topics = self.topics.borrow_and_update().clone();
            self.member.subscribe(topics);
            let news = tokio::select! {
                biased;
                _ = &mut leave => return self.leave().await,
                news = self.beat() => news,
            };
            let failed = matches!(news, Membership::Failed(_));
            if self.news.send(news).await.is_err() {
                return;
            }
            if failed {
                // Only leaving is left to do.
                let _ = leave.await;
                return self.leave().await;
            }
            let pause = self.pause();
            tokio::select! {
                _ = &mut leave => return self.leave().await,
                () = tokio::time::sleep(pause) => {}
                changed = self.topics.changed() => if changed.is_err() { return },
                changed = self.waiting.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Shorter at first while partitions wait for the group.
    fn pause(&mut self) -> Duration {
        let pause = self.member.pause();
        if !*self.waiting.borrow_and_update() {
            self.waits = 0;
            return pause;
        }
        self.waits += 1;
        pause.min(wire::backoff(self.waits))
    }

    async fn beat(&mut self) -> Membership {
        let answer = match self.send(self.member.heartbeat()).await {
            Ok(answer) => answer,
            Err(error) => return self.member.unreachable(&error),
        };
        let had_joined = self.member.has_joined();
        let membership = self.member.answered(&answer);
        if self.member.has_joined() && !had_joined {
            let config = &self.member.config;
            let (connector, group) = (&config.connector, &config.group_id);
            tracing::info!(
                %connector, %group, member = %self.member.member_id, "joined the share group"
            );
        }
        if matches!(membership, Membership::Joined(_)) && *self.waiting.borrow() {
            self.look_at_others().await;
            return self.member.joined();
        }
        membership
    }

    /// Learns what the group has assigned to other members. If that fails,
    /// these read it, and the next heartbeat looks again.
    async fn look_at_others(&mut self) {
        let config = Arc::clone(&self.member.config);
        let (connector, group) = (&config.connector, &config.group_id);
        let Some(address) = self.member.coordinator.clone() else {
            return;
        };
        let assigned = async {
            let connection = self.cluster.member_connection(&address).await?;
            wire::assigned(&connection, group, &self.member.topics).await
        };
        match assigned.await {
            Ok(partitions) => {
                self.member.assigned(partitions);
                self.is_blind = false;
            }
            Err(error) if !std::mem::replace(&mut self.is_blind, true) => tracing::warn!(
                %connector, %group, %error,
                "what the group has assigned to others is not known; it takes DESCRIBE on the \
                 group and on the topics of all its members"
            ),
            Err(_) => {}
        }
    }

    async fn leave(mut self) {
        if !self.member.may_be_known {
            return;
        }
        let config = Arc::clone(&self.member.config);
        let (connector, group) = (&config.connector, &config.group_id);
        match self.send(self.member.leave()).await {
            Ok(answer) if answer.error_code.is_ok() => {
                tracing::info!(%connector, %group, "left the share group");
            }
            Ok(answer) if answer.error_code == ErrorCode::UnknownMemberId => {
                tracing::debug!(%connector, %group, "the share group did not have this member");
            }
            Ok(answer) => {
                tracing::warn!(%connector, %group, code = ?answer.error_code, "could not leave the share group");
            }
            Err(error) => {
                tracing::warn!(%connector, %group, %error, "could not leave the share group");
            }
        }
    }

    async fn send(&mut self, heartbeat: Heartbeat) -> Result<HeartbeatAnswer, KrafkaError> {
        let address = match self.member.coordinator.take() {
            Some(address) => address,
            None => {
                self.cluster
                    .coordinator(&self.member.config.group_id)
                    .await?
            }
        };
        let connection = self.cluster.member_connection(&address).await?;
        // From here on, also if nobody waits for the answer any more.
        self.member.may_be_known = true;
        let answer = wire::heartbeat(&connection, &heartbeat).await?;
        self.member.coordinator = Some(address);
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        let topics = vec!["orders".into()];
        let config = ShareSourceConfig::new("share-billing", topics);
        Member::new(Arc::new(config), "member".into())
    }

    fn joined() -> Member {
        let mut member = member();
        assert!(matches!(member.granted(7, 1500), Membership::Joined(_)));
        member
    }

    #[test]
    fn the_first_heartbeat_joins_with_the_subscription_and_later_ones_leave_it_out() {
        let mut member = member();
        let first = member.heartbeat();
        assert_eq!(first.member_epoch, 0);
        assert_eq!(
            first.subscribed_topic_names,
            Some(vec!["orders".to_owned()])
        );
        member.granted(7, 1500);
        let second = member.heartbeat();
        assert_eq!(
            (second.member_epoch, second.subscribed_topic_names),
            (7, None)
        );
        assert_eq!(second.member_id, first.member_id);
        assert_eq!(member.pause(), Duration::from_millis(1500));
    }

    #[test]
    fn a_member_that_was_refused_has_nothing_to_leave_and_one_without_an_answer_has() {
        let mut member = member();
        assert!(!member.may_be_known);
        member.may_be_known = true;
        let lost = KrafkaError::timeout("heartbeat");
        assert!(matches!(member.unreachable(&lost), Membership::Troubled(_)));
        assert!(member.may_be_known, "the coordinator may have got it");
        member.refused(ErrorCode::CoordinatorLoadInProgress, "");
        assert!(!member.may_be_known);
        member.may_be_known = true;
        member.granted(7, 1500);
        member.refused(ErrorCode::CoordinatorLoadInProgress, "");
        assert!(member.may_be_known, "joined before");
        member.refused(ErrorCode::UnknownMemberId, "");
        assert!(!member.may_be_known);
    }

    #[test]
    fn another_subscription_is_told_once() {
        let mut member = joined();
        member.subscribe(vec!["orders".into()]);
        assert_eq!(member.heartbeat().subscribed_topic_names, None);
        member.subscribe(vec!["payments".into()]);
        let names = member.heartbeat().subscribed_topic_names;
        assert_eq!(names, Some(vec!["payments".to_owned()]));
        member.granted(7, 1500);
        assert_eq!(member.heartbeat().subscribed_topic_names, None);
    }

    #[test]
    fn a_forgotten_member_joins_anew_with_its_id_and_subscription() {
        for code in [ErrorCode::UnknownMemberId, ErrorCode::FencedMemberEpoch] {
            let mut member = joined();
            assert!(matches!(member.refused(code, ""), Membership::Troubled(_)));
            let next = member.heartbeat();
            assert_eq!((next.member_epoch, next.member_id.as_str()), (0, "member"));
            assert!(next.subscribed_topic_names.is_some());
        }
    }

    #[test]
    fn a_group_that_was_deleted_is_joined_anew_and_one_of_another_kind_is_not() {
        let mut member = joined();
        let deleted = member.refused(ErrorCode::GroupIdNotFound, "");
        assert!(matches!(deleted, Membership::Troubled(_)));
        assert_eq!(member.heartbeat().member_epoch, 0);
        let taken = member.refused(ErrorCode::GroupIdNotFound, "");
        assert!(matches!(taken, Membership::Failed(cause) if cause.contains("consumer group")));
    }

    fn keys(partitions: &[i32]) -> BTreeSet<PartitionKey> {
        let key = |partition: &i32| PartitionKey {
            topic_id: TopicId([1; 16]),
            partition: *partition,
        };
        partitions.iter().map(key).collect()
    }

    /// So what is open in a partition that went to another member is settled as
    /// ever, in a session that still has it.
    #[test]
    fn an_assignment_that_shrinks_takes_nothing_from_what_is_open() {
        let mut member = joined();
        member.assigned(keys(&[0, 1]));
        member.assigned(keys(&[1, 2]));
        let open = |member: &Member| match member.joined() {
            Membership::Joined(open) => open.as_ref().clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(open(&member), keys(&[0, 1, 2]));
        member.refused(ErrorCode::UnknownMemberId, "");
        assert_eq!(open(&member), keys(&[0, 1, 2]), "the group has it still");
        member.granted(8, 1500);
        member.refused(ErrorCode::GroupIdNotFound, "");
        assert_eq!(open(&member), keys(&[]), "made anew, it sets up its state");
    }

    #[test]
    fn a_coordinator_that_is_none_is_looked_for_with_back_off() {
        let mut member = joined();
        member.coordinator = Some("localhost:9092".to_owned());
        member.refused(ErrorCode::NotCoordinator, "");
        assert_eq!(member.coordinator, None);
        let first = member.pause();
        for _ in 0..20 {
            member.refused(ErrorCode::CoordinatorNotAvailable, "");
        }
        assert!(member.pause() > first && member.pause() < Duration::from_secs(7));
    }

    #[test]
    fn credentials_that_never_worked_fail_and_later_ones_are_tried_again() {
        let refused = KrafkaError::Auth {
            message: "bad password".to_owned(),
            source: None,
        };
        let failed = member().unreachable(&refused);
        assert!(matches!(failed, Membership::Failed(cause) if cause.contains("share-billing")));
        assert!(matches!(
            joined().unreachable(&refused),
            Membership::Troubled(_)
        ));
    }

    #[test]
    fn rights_that_were_never_there_fail_and_those_that_are_gone_are_tried_again() {
        let code = ErrorCode::GroupAuthorizationFailed;
        let failed = member().refused(code, "");
        assert!(matches!(failed, Membership::Failed(cause) if cause.contains("grant READ")));
        let mut member = joined();
        let gone = member.refused(code, "");
        assert!(matches!(gone, Membership::Troubled(cause) if cause.contains("grant READ")));
        // Also when the group has forgotten it meanwhile.
        member.refused(ErrorCode::UnknownMemberId, "");
        assert!(matches!(member.refused(code, ""), Membership::Troubled(_)));
    }

    #[test]
    fn a_full_group_is_named_with_its_setting_and_tried_again() {
        let mut member = member();
        let full = member.refused(ErrorCode::GroupMaxSizeReached, "");
        let Membership::Troubled(cause) = full else {
            panic!("{full:?}");
        };
        for word in ["share-billing", "group.share.max.size"] {
            assert!(cause.contains(word), "{cause}");
        }
        assert_eq!(member.heartbeat().member_epoch, JOINING_EPOCH);
        assert!(member.pause() < Duration::from_secs(7));
    }

    #[test]
    fn the_interval_is_the_coordinators_within_reason() {
        let mut member = joined();
        member.granted(8, -1);
        assert_eq!(member.pause(), INTERVAL_MIN);
        member.granted(8, i32::MAX);
        assert_eq!(member.pause(), INTERVAL_MAX);
    }

    #[test]
    fn leaving_is_an_epoch_of_its_own() {
        assert_eq!(joined().leave().member_epoch, -1);
    }
}
