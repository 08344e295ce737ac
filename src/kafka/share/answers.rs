//! What a broker's answer means for its session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use krafka::error::ErrorCode;
use sluice_actors::outcome::Cause;
use sluice_actors::record::{AcquiredBatch, SourcePartition};
use tokio::time::Instant;

use super::broker::{Broker, InFlight, Pause, Sent};
use super::reauthentication::Granted;
use super::request::{Acquired, Failure, PartitionReply, Read, Refusal, Reply, Unread};
use super::session::PartitionKey;
use super::settlements::{Book, Told};
use super::verdicts::Refused;
use super::wire;

/// After how many refusals in a row a moving leader counts as a trouble.
const PATIENCE: u32 = 4;

/// What an answer changes outside of its session.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) told: Told,
    /// Records to be read.
    pub(super) unread: Vec<Unread>,
    /// A resource that does not work now, or (`None`) works again.
    pub(super) troubles: Vec<(String, Option<Cause>)>,
    /// It will not work without the operator.
    pub(super) failed: Option<Cause>,
    /// A broker says that it does not lead what the metadata says it does.
    pub(super) metadata_is_stale: bool,
    /// The session is over, and its connection with it.
    pub(super) drop_connection: bool,
}

/// The names of the partitions that a request is about.
pub(super) trait Names {
    fn name(&self, key: &PartitionKey) -> Option<&Arc<SourcePartition>>;
}

impl Broker {
    /// The broker answered the request in flight.
    pub(super) fn answered(&mut self, reply: Reply, names: &impl Names, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let Some(flight) = self.in_flight.take() else {
            return effects;
        };
        if std::mem::take(&mut self.failures) > 0 {
            effects.troubles.push((self.resource(), None));
        }
        self.paused_until = None;
        if let Some(lock) = reply.lock {
            self.lock = lock;
        }
        match self.credentials.granted(reply.validity, now) {
            Granted::Fine => {}
            Granted::Recovered => effects.troubles.push((self.resource(), None)),
            Granted::NoMoreTime => {
                let trouble = format!(
                    "fresh credentials for broker {} end when the last ones do: the token \
                     endpoint must give out a new token before the last tenth of the old one's time",
                    self.id
                );
                effects
                    .troubles
                    .push((self.resource(), Some(trouble.into())));
            }
        }
        self.keep_pace(&flight, &reply, now, &mut effects);
        let lock_deadline = reply.sent_at + self.lock;
        let mut unanswered: BTreeSet<PartitionKey> = flight.settled.iter().copied().collect();
        let mut refused = BTreeSet::new();
        for part in &reply.partitions {
            if unanswered.remove(&part.key) {
                self.settled(part, lock_deadline, now, &mut effects);
            }
            if let Some(refusal) = &part.fetch_error {
                refused.insert(part.key);
                self.refused_partition(part.key, refusal, names, now, &mut effects);
            }
        }
        for key in unanswered {
            self.unanswered(&key, now, &mut effects.told);
        }
        let brought = reply
            .partitions
            .into_iter()
            .filter_map(|part| Some((part.key, part.acquired?)));
        for (key, acquired) in brought {
            self.acquired(key, acquired, &mut effects);
        }
        let found = !effects.unread.is_empty();
        self.sent_well(flight, found, &refused, names, &mut effects);
        effects
    }

    /// A fetch that is throttled brings nothing of what it has locked.
    fn keep_pace(&mut self, flight: &InFlight, reply: &Reply, now: Instant, effects: &mut Effects) {
        let acquired = reply.partitions.iter().flat_map(|part| &part.acquired);
        let bytes: usize = acquired.map(|acquired| acquired.held.bytes()).sum();
        match reply.throttle {
            _ if bytes > 0 => {
                if self.pace.is_starved() {
                    effects.troubles.push((self.resource(), None));
                }
                self.pace.came_through(bytes, now);
            }
            Some(throttle) if flight.asked > 0 => self.throttled(throttle, now, effects),
            _ => {}
        }
    }

    fn throttled(&mut self, throttle: Duration, now: Instant, effects: &mut Effects) {
        let broker = self.id;
        if self.pace.throttled(throttle, now) {
            tracing::warn!(
                connector = %self.config.connector,
                broker,
                ?throttle,
                "a quota is used up, what was fetched comes again; fetching slower"
            );
        }
        if self.pace.is_starved() {
            let cause = format!(
                "broker {broker} throttles every fetch: the client's quota (consumer_byte_rate or \
                 request_percentage) is too small for a single record batch, or used up by others"
            );
            effects.troubles.push((self.resource(), Some(cause.into())));
        }
    }

    fn sent_well(
        &mut self,
        flight: InFlight,
        found: bool,
        refused: &BTreeSet<PartitionKey>,
        names: &impl Names,
        effects: &mut Effects,
    ) {
        match flight.sent {
            Sent::Fetch(delta) => {
                self.session.fetched(&delta);
                self.quiet = if found {
                    0
                } else {
                    self.quiet.saturating_add(1)
                };
                self.unpause(refused, names, effects);
            }
            Sent::Acknowledge => self.session.acknowledged(),
            Sent::Reauthenticate => {}
            Sent::Close => {
                self.end(&"the share session was closed".into(), effects);
            }
        }
    }

    fn settled(
        &mut self,
        part: &PartitionReply,
        lock_deadline: Instant,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(book) = self.books.get_mut(&part.key) else {
            return;
        };
        match &part.acknowledge_error {
            None => book.confirm(lock_deadline, &mut effects.told),
            Some(refusal) if is_leader_error(refusal.code) => {
                book.lose(&cause_of(self.id, refusal), &mut effects.told);
                effects.metadata_is_stale = true;
            }
            Some(refusal) => {
                let refused = Refused {
                    cause: cause_of(self.id, refusal),
                    retriable: refusal.code.is_retriable(),
                };
                book.refuse(&refused, now, &mut effects.told);
            }
        }
    }

    fn unanswered(&mut self, key: &PartitionKey, now: Instant, told: &mut Told) {
        let refused = Refused {
            cause: format!("broker {} did not answer for the partition", self.id).into(),
            retriable: true,
        };
        if let Some(book) = self.books.get_mut(key) {
            book.refuse(&refused, now, told);
        }
    }

    fn acquired(&mut self, key: PartitionKey, acquired: Acquired, effects: &mut Effects) {
        if acquired.doubled && !self.doubled {
            self.doubled = true;
            let (broker, partition) = (self.id, &acquired.partition);
            tracing::warn!(
                connector = %self.config.connector, broker, %partition,
                "the broker gave out an offset twice in one answer; taken once"
            );
        }
        let book = self
            .books
            .entry(key)
            .or_insert_with(|| Book::new(Arc::clone(&acquired.partition)));
        book.acquire(&acquired, &mut effects.told);
        effects.unread.push(Unread {
            broker: self.id,
            key,
            acquired,
            reserved: None,
        });
    }

    /// Records were read; `None` when their locks are gone meanwhile.
    pub(super) fn read(&mut self, read: Read) -> Option<AcquiredBatch> {
        self.books.get_mut(&read.key)?.read(read)
    }

    /// The broker does not serve a partition: it stays out of the fetches for
    /// a while, the others go on.
    fn refused_partition(
        &mut self,
        key: PartitionKey,
        refusal: &Refusal,
        names: &impl Names,
        now: Instant,
        effects: &mut Effects,
    ) {
        let failures = self.pauses.get(&key).map_or(0, |pause| pause.failures) + 1;
        let until = now + wire::backoff(failures);
        self.pauses.insert(key, Pause { until, failures });
        let moved = is_leader_error(refusal.code);
        if moved {
            effects.metadata_is_stale = true;
            self.part_with(&key, &cause_of(self.id, refusal), &mut effects.told);
        }
        let Some(name) = names.name(&key).filter(|_| !moved || failures >= PATIENCE) else {
            return;
        };
        let hint = match refusal.code {
            ErrorCode::TopicAuthorizationFailed => "grant READ on the topic to the connector",
            _ if moved => "the cluster does not agree on its leader",
            ErrorCode::UnknownServerError => "the broker's log has the cause",
            // Sluice fetches partitions beyond its member's assignment.
            _ => {
                "if it is another member's, this broker does not give out records beyond the assignment"
            }
        };
        let cause = format!(
            "broker {} does not serve {name}: {refusal}; {hint}",
            self.id
        );
        effects
            .troubles
            .push((resource_of(name), Some(cause.into())));
    }

    /// Partitions that were fetched without a refusal are well again.
    fn unpause(
        &mut self,
        refused: &BTreeSet<PartitionKey>,
        names: &impl Names,
        effects: &mut Effects,
    ) {
        let session = &self.session;
        self.pauses.retain(|key, _| {
            let well = session.contains(key) && !refused.contains(key);
            if well && let Some(name) = names.name(key) {
                effects.troubles.push((resource_of(name), None));
            }
            !well
        });
    }

    /// The request in flight has no answer.
    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let sent = self.in_flight.take().map(|in_flight| in_flight.sent);
        let closing = matches!(sent, Some(Sent::Close));
        if matches!((&sent, failure), (Some(Sent::Fetch(_)), Failure::Lost(_))) {
            self.pace.lost();
        }
        self.failures += 1;
        let cause = self.describe(failure);
        match failure {
            Failure::Refused(refusal) if !closing && is_session_error(refusal.code) => {
                self.reopen(refusal, now);
            }
            Failure::Lost(_) | Failure::Refused(_) | Failure::Impossible(_) => {
                self.end(&cause, &mut effects);
                // It may be away for long, and others lead in its place.
                effects.metadata_is_stale = true;
                self.paused_until = Some(now + wire::backoff(self.failures));
            }
        }
        if matches!(failure, Failure::Impossible(_)) {
            effects.failed = Some(cause.clone());
        }
        if self.failures > 1 || !matches!(failure, Failure::Refused(_)) {
            effects.troubles.push((self.resource(), Some(cause)));
        }
        effects
    }

    /// The connection lives, so what is held is still ours: open the session
    /// anew, and send again what the broker did not look at.
    fn reopen(&mut self, refusal: &Refusal, now: Instant) {
        self.session.reset();
        for book in self.books.values_mut() {
            book.put_back();
        }
        let at_once = self.failures == 1 && refusal.code != ErrorCode::ShareSessionLimitReached;
        let pause = if at_once {
            Duration::ZERO
        } else {
            wire::backoff(self.failures)
        };
        self.paused_until = Some(now + pause);
    }

    /// The session is over: the broker gives out anew what was held.
    fn end(&mut self, cause: &Cause, effects: &mut Effects) {
        self.session.reset();
        self.credentials.disconnected();
        for book in self.books.values_mut() {
            book.lose(cause, &mut effects.told);
        }
        self.books.clear();
        effects.drop_connection = true;
    }

    fn describe(&self, failure: &Failure) -> Cause {
        match failure {
            Failure::Lost(cause) | Failure::Impossible(cause) => {
                format!("the share session with broker {} is lost: {cause}", self.id).into()
            }
            Failure::Refused(refusal) => {
                let hint = match refusal.code {
                    ErrorCode::GroupAuthorizationFailed => "; grant READ on the group",
                    _ => "",
                };
                format!(
                    "broker {} refused the share session: {refusal}{hint}",
                    self.id
                )
                .into()
            }
        }
    }

    pub(super) fn resource(&self) -> String {
        format!("broker {}", self.id)
    }
}

pub(super) fn resource_of(partition: &SourcePartition) -> String {
    format!("partition {partition}")
}

fn cause_of(broker: i32, refusal: &Refusal) -> Cause {
    format!("broker {broker}: {refusal}").into()
}

fn is_session_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::ShareSessionNotFound
            | ErrorCode::InvalidShareSessionEpoch
            | ErrorCode::ShareSessionLimitReached
    )
}

/// The broker does not lead the partition (any more), so its locks are gone.
fn is_leader_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderForPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    )
}
