//! The share client as a pure state machine over all brokers: who fetches
//! what, how much, and what the pipeline is told. Time and answers come in,
//! requests and events go out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use krafka::auth::AuthConfig;
use sluice_actors::credit::Credit;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::{Answer, AnsweredRange, SettleRange, SourceClosed, SourceEvent};
use sluice_actors::record::SourcePartition;
use tokio::time::Instant;

use super::answers::{Effects, Names};
use super::assignment::{Assignment, PATIENCE};
use super::broker::Broker;
use super::config::ShareSourceConfig;
use super::layout::{Layout, Survey};
use super::planner::{Phase, Turn};
use super::ranges::offsets_between;
use super::request::{Failure, HasRead, Reply, Request, ToRead, Unread};
use super::session::PartitionKey;
use super::settlements::{Told, not_held};
use super::troubles::Troubles;
use super::unread::UnreadQueue;

/// What a trouble with the group's assignment is about.
pub(super) const ASSIGNMENT: &str = "assignment";
/// How often locks that ended without a settlement are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// What the member's heartbeats brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Membership {
    /// The group has assigned these partitions, to this member or another.
    Joined(Arc<BTreeSet<PartitionKey>>),
    Troubled(Cause),
    Failed(Cause),
}

/// The sessions with all brokers.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) config: Arc<ShareSourceConfig>,
    credit: Arc<Credit>,
    pub(super) layout: Layout,
    pub(super) brokers: BTreeMap<i32, Broker>,
    pub(super) assignment: Assignment,
    /// Partitions that the metadata has told of, also if they are gone.
    known: BTreeSet<PartitionKey>,
    failed: bool,
    closing: Option<Phase>,
    /// The layout has changed, and not everything is in its place yet.
    pub(super) moving: bool,
    ready: bool,
    pub(super) troubles: Troubles,
    swept_at: Instant,
    unconfirmed: u64,
    events: VecDeque<SourceEvent>,
    unread: UnreadQueue,
    metadata_is_stale: bool,
    due_credentials: Vec<(i32, Duration)>,
}

impl Names for Layout {
    fn name(&self, key: &PartitionKey) -> Option<&Arc<SourcePartition>> {
        self.places.get(key).map(|place| &place.partition)
    }
}

impl Client {
    pub(super) fn new(config: Arc<ShareSourceConfig>, credit: Arc<Credit>, now: Instant) -> Self {
        Self {
            config,
            credit,
            layout: Layout::default(),
            brokers: BTreeMap::new(),
            assignment: Assignment::default(),
            known: BTreeSet::new(),
            failed: false,
            closing: None,
            moving: false,
            ready: false,
            troubles: Troubles::default(),
            swept_at: now,
            unconfirmed: 0,
            events: VecDeque::new(),
            unread: UnreadQueue::default(),
            metadata_is_stale: false,
            due_credentials: Vec::new(),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The next thing to tell the pipeline.
    pub(super) fn next_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether records may still come to the pipeline without a new request.
    pub(super) fn awaits_records(&self) -> bool {
        let asked = |broker: &Broker| broker.asked_records() > 0;
        self.brokers.values().any(asked) || !self.unread.is_empty() || self.has_events()
    }

    /// Whether the metadata turned out wrong since the last call.
    pub(super) fn take_metadata_is_stale(&mut self) -> bool {
        std::mem::take(&mut self.metadata_is_stale)
    }

    pub(super) fn membership(&mut self, membership: Membership, now: Instant) {
        let group = format!("group {}", self.config.group_id);
        match membership {
            Membership::Joined(assigned) => {
                // A topic has grown, or was made anew: the coordinator knows first.
                self.metadata_is_stale |= !assigned.is_subset(&self.known);
                if self.assignment.assign(assigned) {
                    self.compare_assignment(now);
                }
                self.clear(&group);
            }
            Membership::Troubled(cause) => {
                self.assignment.coordinator_failed(now);
                self.raise(&group, cause, now);
            }
            Membership::Failed(cause) => self.fail(cause),
        }
    }

    fn compare_assignment(&mut self, now: Instant) {
        self.moving = true;
        self.assignment.compare(self.layout.places.keys(), now);
        if !self.assignment.is_waiting() {
            self.clear(ASSIGNMENT);
        }
    }

    /// Fetches what the group assigns to nobody, in the end.
    fn watch_assignment(&mut self, now: Instant) {
        let Some(first) = self.assignment.lose_patience(now) else {
            return;
        };
        self.moving = true;
        let group = &self.config.group_id;
        let first = self.layout.name(&first).map(|it| it.to_string());
        let first = first.unwrap_or_default();
        let cause = format!(
            "group {group} has assigned {first}, and maybe others, to no member for {PATIENCE:?}, \
             as far as this worker may see (that takes DESCRIBE on the group and on all its \
             topics; the coordinator's log may tell more); they are read all the same"
        );
        self.raise(ASSIGNMENT, cause.into(), now);
    }

    pub(super) fn surveyed(&mut self, survey: Survey, now: Instant) {
        let layout = match survey {
            Survey::Found(layout) => layout,
            Survey::Blind(cause) => return self.raise("metadata", cause, now),
        };
        self.clear("metadata");
        for (topic, cause) in &layout.faults {
            self.raise(&topic_resource(topic), cause.clone(), now);
        }
        let well: Vec<String> = self
            .layout
            .faults
            .keys()
            .filter(|topic| !layout.faults.contains_key(*topic))
            .map(|topic| topic_resource(topic))
            .collect();
        for topic in well {
            self.clear(&topic);
        }
        self.known.extend(layout.places.keys());
        if layout != self.layout {
            self.layout = layout;
            self.compare_assignment(now);
        }
    }

    /// Takes settlements from the pipeline.
    pub(super) fn settle(&mut self, ranges: &[SettleRange], now: Instant) {
        let mut told = Told::default();
        for range in ranges {
            let here = self
                .brokers
                .values_mut()
                .any(|broker| broker.settle(range, now, &mut told));
            if !here {
                told.answered.push(AnsweredRange {
                    range: range.clone(),
                    answer: Answer::Unknown { cause: not_held() },
                });
            }
        }
        self.tell(told);
    }

    /// No more fetches; settle until then, and close the sessions.
    pub(super) fn close(&mut self, settle_until: Instant) {
        self.closing = Some(Phase::Closing { settle_until });
        self.unread.clear();
    }

    /// Every session is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closing.is_some() && self.brokers.values().all(Broker::is_idle)
    }

    /// The end, with or without the brokers' answers.
    pub(super) fn finish(&mut self) -> SourceClosed {
        let mut told = Told::default();
        let cause: Cause = "the source was closed before the broker answered".into();
        let late: Vec<String> = self
            .brokers
            .values()
            .filter(|broker| !broker.is_idle())
            .map(Broker::resource)
            .collect();
        for broker in self.brokers.values_mut() {
            for book in broker.books.values_mut() {
                book.lose(&cause, &mut told);
            }
        }
        told.lost.clear();
        self.tell(told);
        SourceClosed {
            unconfirmed: self.unconfirmed,
            cause: (!late.is_empty())
                .then(|| format!("no answer in time from {}", late.join(", ")).into()),
        }
    }

    /// What to send now. Call it again after anything has changed.
    pub(super) fn plan(&mut self, now: Instant) -> Vec<Request> {
        self.sweep(now);
        self.watch_unread(now);
        self.watch_assignment(now);
        if self.moving {
            self.move_partitions();
        }
        let mut requests = Vec::new();
        let ids: Vec<i32> = self.brokers.keys().copied().collect();
        for id in ids {
            let turn = self.turn(now);
            if let Some(broker) = self.brokers.get_mut(&id) {
                let limit = broker.credentials.ask(now, broker.lock);
                self.due_credentials.extend(limit.map(|limit| (id, limit)));
                requests.extend(broker.plan(&turn));
            }
        }
        requests
    }

    /// When to plan again, if nothing else happens.
    pub(super) fn wake_at(&self, now: Instant) -> Option<Instant> {
        let turn = self.turn(now);
        let holds = self
            .brokers
            .values()
            .any(|broker| broker.open_records() > 0);
        let sweep = holds.then(|| self.swept_at + SWEEP);
        self.brokers
            .values()
            .filter_map(|broker| broker.wake_at(&turn))
            .chain(sweep)
            .chain(self.assignment.patience_ends())
            .chain(
                self.unread
                    .renewal_at(|one| is_renewing(&self.brokers, one)),
            )
            .min()
    }

    fn turn(&self, now: Instant) -> Turn {
        let taken: u64 = self
            .brokers
            .values()
            .map(|broker| broker.open_records() + broker.asked_records() as u64)
            .sum();
        let window = self.credit.window_records() as u64;
        let free_bytes = match self.credit.free_bytes() {
            // What is larger than the limit must come through as well.
            0 if self.credit.held_bytes() == 0 => 1,
            free => free,
        };
        Turn {
            now,
            phase: self.phase(),
            free_records: signed(window) - signed(taken),
            free_bytes: if window == 0 {
                0
            } else {
                self.unread.askable(free_bytes)
            },
            sharers: self
                .brokers
                .values()
                .filter(|broker| broker.wants_records())
                .count(),
        }
    }

    fn phase(&self) -> Phase {
        match self.closing {
            Some(closing) => closing,
            None if self.assignment.has_joined() && !self.failed => Phase::Fetching,
            None => Phase::Settling,
        }
    }

    /// The brokers whose connections need fresh credentials now, and how long
    /// that may take; to be told by `credentials`. Requests need not wait for
    /// that.
    pub(super) fn take_due_credentials(&mut self) -> Vec<(i32, Duration)> {
        std::mem::take(&mut self.due_credentials)
    }

    /// Fresh credentials for a broker's connection.
    pub(super) fn credentials(
        &mut self,
        id: i32,
        fresh: Result<Arc<AuthConfig>, Cause>,
        now: Instant,
    ) {
        let Some(broker) = self.brokers.get_mut(&id) else {
            return;
        };
        let resource = broker.resource();
        let trouble = fresh
            .as_ref()
            .err()
            .map(|cause| format!("no fresh credentials for {resource}: {cause}"));
        if broker.credentials.fetched(fresh.ok(), now)
            && let Some(trouble) = trouble
        {
            self.raise(&resource, trouble.into(), now);
        }
    }

    /// A broker answered; whether its connection is to be dropped.
    pub(super) fn answered(
        &mut self,
        id: i32,
        result: Result<Reply, Failure>,
        now: Instant,
    ) -> bool {
        let Some(broker) = self.brokers.get_mut(&id) else {
            return true;
        };
        let effects = match result {
            Ok(reply) => broker.answered(reply, &self.layout, now),
            Err(failure) => broker.failed(&failure, now),
        };
        // A partition that waited for this answer may move now, and a broker
        // that only its session kept here may go.
        self.moving |= effects.metadata_is_stale;
        let drop_connection = effects.drop_connection;
        self.apply(effects, now);
        drop_connection
    }

    /// What is to be read and brought back by `read`; after the next requests
    /// are on their way, which need not wait for it.
    pub(super) fn take_unread(&mut self) -> Vec<ToRead> {
        let brokers = &self.brokers;
        self.unread
            .take(&self.credit, |one| is_renewing(brokers, one))
    }

    /// Records were read.
    pub(super) fn read(&mut self, done: HasRead) {
        // What is left is reserved for by what was learned just now.
        for one in &done.read {
            self.unread.observe(one);
        }
        if self.closing.is_none() {
            self.unread.put_back(done.left);
        }
        let mut batches = Vec::with_capacity(done.read.len());
        for one in done.read {
            if let Some(broker) = self.brokers.get_mut(&one.broker) {
                batches.extend(broker.read(one));
            }
        }
        if !batches.is_empty() && self.closing.is_none() {
            self.events.push_back(SourceEvent::Acquired(batches));
        }
    }

    fn apply(&mut self, effects: Effects, now: Instant) {
        self.tell(effects.told);
        if self.closing.is_none() {
            self.unread.push(effects.unread);
        }
        self.metadata_is_stale |= effects.metadata_is_stale;
        for (resource, cause) in effects.troubles {
            match cause {
                Some(cause) => self.raise(&resource, cause, now),
                None => self.clear(&resource),
            }
        }
        if let Some(cause) = effects.failed {
            self.fail(cause);
        }
        self.get_ready();
    }

    pub(super) fn tell(&mut self, told: Told) {
        if self.closing.is_some() {
            self.unconfirmed += told.answered.iter().filter_map(unconfirmed).sum::<u64>();
        }
        if !told.answered.is_empty() {
            self.events.push_back(SourceEvent::Answered(told.answered));
        }
        if !told.lost.is_empty() && self.closing.is_none() {
            self.events.push_back(SourceEvent::Lost(told.lost));
        }
    }

    fn sweep(&mut self, now: Instant) {
        if now < self.swept_at + SWEEP {
            return;
        }
        self.swept_at = now;
        let mut told = Told::default();
        for broker in self.brokers.values_mut() {
            broker.expire(now, &mut told);
        }
        self.tell(told);
    }

    /// The pipeline looks after locks of records; these have none yet.
    fn watch_unread(&mut self, now: Instant) {
        let brokers = &mut self.brokers;
        self.unread.update(|one| {
            let book = brokers.get(&one.broker)?.books.get(&one.key)?;
            book.deadline(&one.acquired)
        });
        for one in self.unread.due(now) {
            let broker = brokers.get_mut(&one.broker);
            if let Some(book) = broker.and_then(|broker| broker.books.get_mut(&one.key))
                && !book.is_renewing(&one.acquired)
            {
                book.renew_acquired(&one.acquired);
            }
        }
    }

    fn raise(&mut self, resource: &str, cause: Cause, now: Instant) {
        if self.closing.is_none() && self.troubles.raise(resource, &cause, now) {
            tracing::warn!(connector = %self.config.connector, group = %self.config.group_id, resource, %cause, "share source is troubled");
            self.events.push_back(SourceEvent::Troubled { cause });
        }
    }

    fn clear(&mut self, resource: &str) {
        if self.troubles.clear(resource) {
            tracing::info!(connector = %self.config.connector, group = %self.config.group_id, resource, "share source has recovered");
            self.recovered();
        }
        self.get_ready();
    }

    pub(super) fn recovered(&mut self) {
        if self.ready && self.troubles.is_empty() && self.closing.is_none() {
            self.events.push_back(SourceEvent::Ready);
        }
    }

    /// Tells once that everything is open; what is still troubled is told
    /// after it, so that it is not taken for mended.
    fn get_ready(&mut self) {
        let are_ready = self.brokers.values().all(Broker::is_ready);
        if self.ready
            || !self.assignment.has_joined()
            || !self.brokers.values().any(Broker::wants_records)
            || self.assignment.holds_back()
            || !are_ready
            || self.closing.is_some()
        {
            return;
        }
        self.ready = true;
        self.events.push_back(SourceEvent::Ready);
        let causes: Vec<Cause> = self.troubles.causes().cloned().collect();
        self.events.extend(
            causes
                .into_iter()
                .map(|cause| SourceEvent::Troubled { cause }),
        );
    }

    fn fail(&mut self, cause: Cause) {
        if !self.failed && self.closing.is_none() {
            tracing::error!(connector = %self.config.connector, group = %self.config.group_id, %cause, "share source has failed");
            self.events.push_back(SourceEvent::Failed { cause });
        }
        self.failed = true;
    }
}

fn is_renewing(brokers: &BTreeMap<i32, Broker>, unread: &Unread) -> bool {
    let broker = brokers.get(&unread.broker);
    let book = broker.and_then(|broker| broker.books.get(&unread.key));
    book.is_some_and(|book| book.is_renewing(&unread.acquired))
}

pub(super) fn topic_resource(topic: &str) -> String {
    format!("topic {topic}")
}

/// How many offsets an answer leaves finally unsettled.
fn unconfirmed(answered: &AnsweredRange) -> Option<u64> {
    let range = &answered.range;
    let unknown = matches!(answered.answer, Answer::Unknown { .. });
    (unknown && range.settlement.is_final())
        .then(|| offsets_between(range.first_offset, range.last_offset))
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
