//! The share source: the port's calls, and the loop that feeds the client's
//! state machine and carries out what it asks for.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use krafka::Kafka;
use krafka::auth::AuthConfig;
use sluice_actors::credit::Credit;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::source::{SettleRange, Source, SourceClosed, SourceEvent, SourceEvents};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

use super::client::{Client, Membership};
use super::config::ShareSourceConfig;
use super::fetch::{Courier, Done, PartitionNames, Route, SessionConnection, names};
use super::layout::{Survey, Surveyor};
use super::membership::{Heart, Member};
use super::request::{Failure, HasRead, Request};
use super::wire::Cluster;

/// Events that may wait for the pipeline before they queue up here.
const EVENTS: usize = 64;
/// How long a source that was dropped without closing may take to leave.
const DROPPED: Duration = Duration::from_secs(5);

/// Starts a share source: it joins the group, and fetches as soon as the
/// credit has a window. All its work is done on `runtime`, which must have
/// more than one thread. The handle must be the source's own: it uses both of
/// the pool's connections to each broker in a way that others would disturb.
pub fn start(
    kafka: Kafka,
    config: ShareSourceConfig,
    credit: Arc<Credit>,
    runtime: &Handle,
) -> (ShareSource, SourceEvents) {
    let (events, events_of_source) = mpsc::channel(EVENTS);
    let teller = Teller::new(events, Some);
    let source = start_telling(kafka, config, credit, teller, runtime);
    (source, events_of_source)
}

/// Where a source's events go, and how they are told.
pub struct Teller {
    events: mpsc::Sender<SourceEvent>,
    tell: Box<dyn FnMut(SourceEvent) -> Option<SourceEvent> + Send>,
}

impl Teller {
    /// What is `None` is not told.
    pub fn new(
        events: mpsc::Sender<SourceEvent>,
        tell: impl FnMut(SourceEvent) -> Option<SourceEvent> + Send + 'static,
    ) -> Self {
        Self {
            events,
            tell: Box::new(tell),
        }
    }
}

/// The same, for a source that shares its events' way with another one.
pub fn start_telling(
    kafka: Kafka,
    config: ShareSourceConfig,
    credit: Arc<Credit>,
    teller: Teller,
    runtime: &Handle,
) -> ShareSource {
    let (commands, commands_of_driver) = mpsc::unbounded_channel();
    let (closed, closed_of_source) = watch::channel(None);
    let member_id: Arc<str> = URL_SAFE_NO_PAD
        .encode(uuid::Uuid::new_v4().as_bytes())
        .into();
    let parts = Parts {
        cluster: Cluster::new(kafka),
        config: Arc::new(config),
        credit,
        member_id: Arc::clone(&member_id),
    };
    runtime.spawn(async move {
        let driver = Driver::new(parts, commands_of_driver, teller);
        closed.send_replace(Some(driver.run().await));
    });
    ShareSource {
        commands,
        closed: closed_of_source,
        member_id,
    }
}

/// One member of a share group as a source of records.
#[derive(Debug)]
pub struct ShareSource {
    commands: mpsc::UnboundedSender<Command>,
    closed: watch::Receiver<Option<SourceClosed>>,
    member_id: Arc<str>,
}

#[derive(Debug)]
enum Command {
    Settle(Vec<SettleRange>),
    SetTopics(Vec<Arc<str>>),
    Close(Duration),
}

impl ShareSource {
    /// The member's id in the group.
    #[must_use]
    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    /// Subscribes to these topics in place of the former ones. What is open of
    /// a topic that leaves can still be settled.
    pub fn set_topics(&self, topics: Vec<Arc<str>>) {
        self.send(Command::SetTopics(topics));
    }

    /// A source that has ended answers nothing more.
    fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }
}

impl Source for ShareSource {
    fn settle(&self, ranges: Vec<SettleRange>) {
        self.send(Command::Settle(ranges));
    }

    fn close(&self, deadline: Duration) -> BoxFuture<'static, SourceClosed> {
        self.send(Command::Close(deadline));
        let mut closed = self.closed.clone();
        async move {
            match closed.wait_for(Option::is_some).await {
                Ok(closed) => closed.clone().unwrap_or_default(),
                Err(_) => SourceClosed {
                    unconfirmed: 0,
                    cause: Some("the share client ended before it was closed".into()),
                },
            }
        }
        .boxed()
    }
}

struct Parts {
    cluster: Cluster,
    config: Arc<ShareSourceConfig>,
    credit: Arc<Credit>,
    member_id: Arc<str>,
}

/// Feeds the client and carries out what it plans.
struct Driver {
    client: Client,
    credit: Arc<Credit>,
    courier: Arc<Courier>,
    names: Arc<PartitionNames>,
    connections: BTreeMap<i32, SessionConnection>,
    requests: JoinSet<Done>,
    readings: JoinSet<HasRead>,
    logins: JoinSet<FreshCredentials>,
    commands: mpsc::UnboundedReceiver<Command>,
    teller: Teller,
    surveys: mpsc::Receiver<Survey>,
    memberships: mpsc::Receiver<Membership>,
    topics: watch::Sender<Vec<Arc<str>>>,
    waiting: watch::Sender<bool>,
    stale: Arc<Notify>,
    heart: JoinHandle<()>,
    leave: Option<oneshot::Sender<()>>,
    /// The source was dropped.
    deserted: bool,
    /// When closing has to be over.
    close_by: Option<Instant>,
}

/// Credentials for a broker, or why there are none.
type FreshCredentials = (i32, Result<Arc<AuthConfig>, Cause>);

/// Why the driver woke up.
enum Woken {
    Done(Result<Done, JoinError>),
    Read(Result<HasRead, JoinError>),
    Credentials(Result<FreshCredentials, JoinError>),
    Command(Option<Command>),
    Membership(Membership),
    Survey(Survey),
    Room(bool),
    Credit,
    Timer,
}

impl Driver {
    fn new(parts: Parts, commands: mpsc::UnboundedReceiver<Command>, teller: Teller) -> Self {
        let Parts {
            cluster,
            config,
            credit,
            member_id,
        } = parts;
        let (waiting, waiting_of_heart) = watch::channel(false);
        let (topics, topics_of_others) = watch::channel(config.topics.clone());
        let (found, surveys) = mpsc::channel(1);
        let (news, memberships) = mpsc::channel(1);
        let (leave, left) = oneshot::channel();
        let stale = Arc::new(Notify::new());
        let surveyor = Surveyor {
            cluster: cluster.clone(),
            topics: topics_of_others.clone(),
            stale: Arc::clone(&stale),
            max_age: config.metadata_max_age,
            found,
        };
        tokio::spawn(surveyor.run());
        let heart = Heart {
            cluster: cluster.clone(),
            member: Member::new(Arc::clone(&config), Arc::clone(&member_id)),
            topics: topics_of_others,
            waiting: waiting_of_heart,
            waits: 0,
            is_blind: false,
            news,
        };
        Self {
            client: Client::new(Arc::clone(&config), Arc::clone(&credit), Instant::now()),
            credit: Arc::clone(&credit),
            courier: Arc::new(Courier {
                cluster,
                config,
                member_id,
                credit,
                acquisitions: AtomicU64::new(0),
            }),
            names: Arc::default(),
            connections: BTreeMap::new(),
            requests: JoinSet::new(),
            readings: JoinSet::new(),
            logins: JoinSet::new(),
            commands,
            teller,
            surveys,
            memberships,
            topics,
            waiting,
            stale,
            heart: tokio::spawn(heart.run(left)),
            leave: Some(leave),
            deserted: false,
            close_by: None,
        }
    }

    /// Runs until closed: settles, closes the sessions, leaves the group.
    async fn run(mut self) -> SourceClosed {
        while !self.client.is_closed() {
            let now = Instant::now();
            if self.close_by.is_some_and(|by| by <= now) {
                break;
            }
            // Before the window is read: who sets it to zero and then finds
            // that nothing is awaited must not have a fetch come after that.
            self.credit.set_awaiting(true);
            for request in self.client.plan(now) {
                self.send(request);
            }
            self.read();
            self.fetch_credentials();
            let awaits = self.client.awaits_records() || !self.readings.is_empty();
            self.credit.set_awaiting(awaits);
            if self.client.take_metadata_is_stale() {
                self.stale.notify_one();
            }
            self.show_waiting();
            self.wait(now).await;
        }
        self.end().await
    }

    fn show_waiting(&self) {
        let waits = self.client.assignment.is_waiting();
        self.waiting
            .send_if_modified(|shown| std::mem::replace(shown, waits) != waits);
    }

    fn send(&mut self, request: Request) {
        let broker = request.broker;
        let route = Route {
            connection: self.connections.get(&broker).cloned(),
            names: Arc::clone(&self.names),
        };
        let connection = route.connection.clone();
        let delivery = AssertUnwindSafe(Arc::clone(&self.courier).deliver(request, route));
        self.requests
            .spawn(delivery.catch_unwind().map(move |done| {
                // A session must never wait for an answer that cannot come.
                done.unwrap_or_else(|_| Done {
                    broker,
                    connection,
                    result: Err(Failure::Lost("the answer could not be read (panic)".into())),
                })
            }));
    }

    /// Has records read, beside the requests that were just sent: much of it
    /// in pieces, so that the first of it goes on while the rest is read.
    fn read(&mut self) {
        for piece in self.client.take_unread() {
            let courier = Arc::clone(&self.courier);
            self.readings.spawn(async move { courier.read(piece) });
        }
    }

    /// Has credentials fetched that are due, beside the requests.
    fn fetch_credentials(&mut self) {
        for (broker, limit) in self.client.take_due_credentials() {
            let courier = Arc::clone(&self.courier);
            let fetch = async move { courier.fresh_credentials(limit).await };
            let fetch = AssertUnwindSafe(fetch).catch_unwind();
            // A session must never wait for credentials that cannot come.
            let none = |_| Err("fetching them panicked".into());
            self.logins
                .spawn(fetch.map(move |fresh| (broker, fresh.unwrap_or_else(none))));
        }
    }

    /// Waits until something has happened, and takes it in.
    async fn wait(&mut self, now: Instant) {
        let connector = Arc::clone(&self.client.config.connector);
        match self.woken(now).await {
            Woken::Done(Ok(done)) => self.done(done),
            Woken::Done(Err(error)) => {
                tracing::error!(%connector, %error, "a share request was cut off");
            }
            Woken::Read(Ok(read)) => self.client.read(read),
            // Their locks end, and they come again.
            Woken::Read(Err(error)) => {
                // What it panicked with may quote a record.
                let panicked = error.is_panic();
                tracing::error!(%connector, panicked, "records could not be read");
            }
            Woken::Credentials(Ok((broker, fresh))) => {
                self.client.credentials(broker, fresh, Instant::now());
            }
            Woken::Credentials(Err(error)) => {
                tracing::error!(%connector, %error, "fetching credentials was cut off");
            }
            Woken::Command(command) => self.command(command),
            Woken::Membership(membership) => self.client.membership(membership, Instant::now()),
            Woken::Survey(survey) => {
                self.client.surveyed(survey, Instant::now());
                self.names = Arc::new(names(self.client.layout()));
            }
            // Nobody listens any more.
            Woken::Room(false) => while self.client.next_event().is_some() {},
            Woken::Room(true) | Woken::Credit | Woken::Timer => {}
        }
        while let Ok(command) = self.commands.try_recv() {
            self.command(Some(command));
        }
        self.flush_events();
    }

    async fn woken(&mut self, now: Instant) -> Woken {
        let wake_at = self
            .client
            .wake_at(now)
            .into_iter()
            .chain(self.close_by)
            .min();
        let timer = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(done) = self.requests.join_next() => Woken::Done(done),
            Some(read) = self.readings.join_next() => Woken::Read(read),
            Some(fresh) = self.logins.join_next() => Woken::Credentials(fresh),
            command = self.commands.recv(), if !self.deserted => Woken::Command(command),
            Some(membership) = self.memberships.recv() => Woken::Membership(membership),
            Some(survey) = self.surveys.recv() => Woken::Survey(survey),
            room = self.teller.events.reserve(), if self.client.has_events() => Woken::Room(room.is_ok()),
            () = self.credit.changed() => Woken::Credit,
            () = timer => Woken::Timer,
        }
    }

    fn done(&mut self, done: Done) {
        let broker = done.broker;
        match done.connection {
            Some(connection) => self.connections.insert(broker, connection),
            None => self.connections.remove(&broker),
        };
        if self.client.answered(broker, done.result, Instant::now())
            && let Some(session) = self.connections.remove(&broker)
        {
            tokio::spawn(async move { session.connection.close().await });
        }
    }

    fn command(&mut self, command: Option<Command>) {
        match command {
            Some(Command::Settle(ranges)) => self.client.settle(&ranges, Instant::now()),
            Some(Command::SetTopics(topics)) => {
                self.topics.send_replace(topics);
            }
            Some(Command::Close(deadline)) => self.close(deadline),
            None => {
                self.deserted = true;
                self.close(DROPPED);
            }
        }
    }

    /// Hands over what the pipeline has room for.
    fn flush_events(&mut self) {
        while self.client.has_events()
            && let Ok(permit) = self.teller.events.try_reserve()
        {
            let event = self.client.next_event();
            if let Some(event) = event.and_then(&mut self.teller.tell) {
                permit.send(event);
            }
        }
    }

    /// The first call counts. A quarter of the time is kept for closing the
    /// sessions and leaving.
    fn close(&mut self, deadline: Duration) {
        if self.close_by.is_none() {
            let now = Instant::now();
            self.close_by = Some(now + deadline);
            self.client.close(now + deadline * 3 / 4);
        }
    }

    /// Leaves the group in what is left of the time; the last answers go out
    /// with it.
    async fn end(mut self) -> SourceClosed {
        let by = self.close_by.unwrap_or_else(Instant::now);
        self.requests.abort_all();
        let mut closed = self.client.finish();
        if let Some(leave) = self.leave.take() {
            let _ = leave.send(());
        }
        if tokio::time::timeout_at(by, &mut self.heart).await.is_err() {
            self.heart.abort();
            closed.cause.get_or_insert_with(|| {
                "the coordinator did not answer to leaving the group in time".into()
            });
        }
        for session in self.connections.values() {
            session.connection.close().await;
        }
        while let Some(event) = self.client.next_event() {
            let Some(event) = (self.teller.tell)(event) else {
                continue;
            };
            let sending = self.teller.events.send(event);
            if !matches!(tokio::time::timeout_at(by, sending).await, Ok(Ok(()))) {
                break;
            }
        }
        closed
    }
}
