//! Sends a session's requests and turns the answers into records.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use krafka::auth::AuthConfig;
use krafka::error::{ErrorCode, KrafkaError};
use sluice_actors::credit::Credit;
use sluice_actors::outcome::Cause;
use sluice_actors::record::{AcquiredBatch, CorruptRange, SourcePartition, TopicId};
use tokio::time::Instant;

use super::config::ShareSourceConfig;
use super::layout::Layout;
use super::reauthentication::Validity;
use super::records::{self, AcquiredRange, Limits};
use super::request::{
    Acquired, Acquisition, Body, Failure, HasRead, PartitionReply, Read, Refusal, Reply, Request,
    ToRead, Unread,
};
use super::session::PartitionKey;
use super::wire::{self, Cluster, Connection, Endpoint, LeaderHint, Sender};

/// What all requests of a source share.
#[derive(Debug)]
pub(super) struct Courier {
    pub(super) cluster: Cluster,
    pub(super) config: Arc<ShareSourceConfig>,
    pub(super) member_id: Arc<str>,
    pub(super) credit: Arc<Credit>,
    /// How many there were.
    pub(super) acquisitions: AtomicU64,
}

/// The names of partitions, shared by the requests of one layout.
pub(super) type PartitionNames = BTreeMap<PartitionKey, Arc<SourcePartition>>;

pub(super) fn names(layout: &Layout) -> PartitionNames {
    layout
        .places
        .iter()
        .map(|(key, place)| (*key, Arc::clone(&place.partition)))
        .collect()
}

/// A request that has ended, with the connection to send the next one on.
pub(super) struct Done {
    pub(super) broker: i32,
    pub(super) connection: Option<SessionConnection>,
    pub(super) result: Result<Reply, Failure>,
}

/// The connection of a session. How long its credentials hold is kept here:
/// krafka knows it from the login only.
#[derive(Clone)]
pub(super) struct SessionConnection {
    pub(super) connection: Arc<Connection>,
    validity: Option<Validity>,
}

/// The connection and the partition names that a request goes out with.
pub(super) struct Route {
    /// `None` makes a new one: then the session must be a new one as well.
    pub(super) connection: Option<SessionConnection>,
    pub(super) names: Arc<PartitionNames>,
}

impl Courier {
    /// Sends a request on its session's connection. A connection that failed
    /// is closed, so that the broker gives out anew what it had locked.
    pub(super) async fn deliver(self: Arc<Self>, request: Request, route: Route) -> Done {
        let broker = request.broker;
        let connection = match route.connection {
            Some(connection) => Ok(connection),
            None => self.connect(broker).await,
        };
        let mut connection = match connection {
            Ok(connection) => connection,
            Err(failure) => {
                return Done {
                    broker,
                    connection: None,
                    result: Err(failure),
                };
            }
        };
        let result = self.exchange(&mut connection, &request, &route.names).await;
        Done {
            broker,
            connection: Some(connection),
            result,
        }
    }

    async fn connect(&self, broker: i32) -> Result<SessionConnection, Failure> {
        let began = Instant::now();
        let connecting = self.cluster.session_connection(broker);
        let connection = self.in_time(connecting).await?;
        let ends_at = connection.session_expiry();
        let (connector, group) = (&self.config.connector, &self.config.group_id);
        tracing::debug!(%connector, %group, broker, "connected for a share session");
        Ok(SessionConnection {
            connection,
            validity: ends_at.map(|end| Validity::new(began, end)),
        })
    }

    /// Credentials to authenticate a connection with anew.
    pub(super) async fn fresh_credentials(
        &self,
        limit: Duration,
    ) -> Result<Arc<AuthConfig>, Cause> {
        let fresh = self.config.credentials.fresh();
        match tokio::time::timeout(limit, fresh).await {
            Ok(fresh) => fresh.map_err(|error| error.to_string().into()),
            Err(_) => Err(format!("none came within {} ms", limit.as_millis()).into()),
        }
    }

    async fn exchange(
        &self,
        session: &mut SessionConnection,
        request: &Request,
        names: &PartitionNames,
    ) -> Result<Reply, Failure> {
        let sender = Sender {
            config: &self.config,
            member_id: &self.member_id,
            epoch: request.epoch,
        };
        let connection = &session.connection;
        // A throttled connection is no slow broker.
        connection.await_throttle().await;
        let sent_at = Instant::now();
        let mut throttle = None;
        let (lock_ms, partitions) = match &request.body {
            Body::Fetch(fetch) => {
                let answer = self
                    .in_time(wire::share_fetch(connection, sender, fetch))
                    .await?;
                accepted(answer.error_code, answer.error_message.as_deref())?;
                throttle = millis(answer.throttle_time_ms);
                self.fetched(answer, names, sent_at)
            }
            Body::Acknowledge(acknowledgements) => {
                let sending = wire::share_acknowledge(connection, sender, acknowledgements);
                let answer = self.in_time(sending).await?;
                accepted(answer.error_code, answer.error_message.as_deref())?;
                self.acknowledged(answer, names)
            }
            Body::Reauthenticate(auth) => {
                let lifetime = self.in_time(wire::reauthenticate(connection, auth)).await?;
                session.validity = lifetime.map(|time| Validity::new(sent_at, sent_at + time));
                let (connector, group) = (&self.config.connector, &self.config.group_id);
                let broker = request.broker;
                tracing::debug!(
                    %connector, %group, broker, ?lifetime, "authenticated a share session anew"
                );
                (0, Vec::new())
            }
        };
        Ok(Reply {
            sent_at,
            throttle,
            lock: millis(lock_ms),
            validity: session.validity,
            partitions,
        })
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, KrafkaError>>,
    ) -> Result<T, Failure> {
        let limit = self.config.request_timeout;
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failure(&error)),
            Err(_) => Err(Failure::Lost(
                format!("no answer within {} ms", limit.as_millis()).into(),
            )),
        }
    }

    fn fetched(
        &self,
        answer: wire::FetchAnswer,
        names: &PartitionNames,
        sent_at: Instant,
    ) -> (i32, Vec<PartitionReply>) {
        let lock_ms = answer.acquisition_lock_timeout_ms;
        let lock = millis(lock_ms).unwrap_or_default();
        let arrived_at = Instant::now();
        let mut replies = Vec::new();
        for topic in answer.responses {
            for part in topic.partitions {
                let key = key(topic.topic_id, part.partition_index);
                let name = names.get(&key);
                let fetch_error = refusal(part.error_code, part.error_message);
                let acknowledge_error =
                    refusal(part.acknowledge_error_code, part.acknowledge_error_message);
                if let Some(name) =
                    name.filter(|_| fetch_error.is_some() || acknowledge_error.is_some())
                {
                    self.apply_leader(name, &part.current_leader, &answer.node_endpoints);
                }
                let acquired = name
                    .filter(|_| !part.acquired_records.is_empty())
                    .map(|name| {
                        let (ranges, doubled) = ranges(&part.acquired_records);
                        Acquired {
                            acquisition: self.next_acquisition(),
                            partition: Arc::clone(name),
                            ranges,
                            doubled,
                            deadline: sent_at + lock,
                            lock,
                            arrived_at,
                            held: self
                                .credit
                                .hold(part.records.as_ref().map_or(0, Bytes::len)),
                            bytes: part.records,
                        }
                    });
                replies.push(PartitionReply {
                    key,
                    fetch_error,
                    acknowledge_error,
                    acquired,
                });
            }
        }
        (lock_ms, replies)
    }

    fn next_acquisition(&self) -> Acquisition {
        Acquisition(self.acquisitions.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes records of what was acquired. Should reading panic, the records
    /// are corrupt: they are told so, or they would come again for ever.
    pub(super) fn read(&self, to_read: ToRead) -> HasRead {
        let mut done = HasRead::default();
        let granted = to_read.room;
        let mut room = granted.bytes();
        let mut unread = to_read.unread.into_iter();
        for one in unread.by_ref() {
            let unreadable = self.unreadable(&one);
            let reading = AssertUnwindSafe(|| self.read_one(one, room));
            let (read, left) = catch_unwind(reading).unwrap_or((unreadable, None));
            let growth = read.growth();
            done.read.push(read);
            done.left.extend(left);
            if growth > room {
                break;
            }
            room -= growth;
        }
        done.left.extend(unread);
        // What was read has its own credit now.
        drop(granted);
        done
    }

    fn unreadable(&self, unread: &Unread) -> Read {
        let acquired = &unread.acquired;
        let corrupt = acquired.ranges.iter().map(|range| CorruptRange {
            first_offset: range.first,
            last_offset: range.last,
            delivery_count: range.delivery_count,
            cause: "reading it panicked".into(),
        });
        Read {
            broker: unread.broker,
            key: unread.key,
            batch: Some(AcquiredBatch {
                partition: Arc::clone(&acquired.partition),
                records: Vec::new(),
                corrupt: corrupt.collect(),
                strays: Vec::new(),
                lock_deadline: acquired.deadline,
                lock: acquired.lock,
                acquired_at: acquired.arrived_at,
                held: self.credit.hold(0),
            }),
            gaps: Vec::new(),
            acquisition: acquired.acquisition,
            packed: 0,
            unpacked: 0,
        }
    }

    /// Reads as far as there is room, at least one batch; what is left.
    fn read_one(&self, unread: Unread, room: usize) -> (Read, Option<Unread>) {
        let Unread {
            broker,
            key,
            acquired,
            reserved: _reserved,
        } = unread;
        let limits = Limits {
            batch: self.config.max_decompressed_bytes,
            room,
        };
        let collected = records::collect(acquired.bytes, acquired.ranges, limits);
        let held = self.credit.hold(collected.bytes);
        let left = collected.rest.map(|rest| Unread {
            broker,
            key,
            acquired: Acquired {
                partition: Arc::clone(&acquired.partition),
                ranges: rest.ranges,
                held: self.credit.hold(rest.bytes.len()),
                bytes: Some(rest.bytes),
                ..acquired
            },
            reserved: None,
        });
        drop(acquired.held);
        let batch = (!collected.kept.is_empty()).then(|| AcquiredBatch {
            partition: acquired.partition,
            records: collected.records,
            corrupt: collected.corrupt,
            strays: Vec::new(),
            lock_deadline: acquired.deadline,
            lock: acquired.lock,
            acquired_at: acquired.arrived_at,
            held,
        });
        let read = Read {
            broker,
            key,
            batch,
            gaps: collected.gaps,
            acquisition: acquired.acquisition,
            packed: collected.packed,
            unpacked: collected.unpacked,
        };
        (read, left)
    }

    fn acknowledged(
        &self,
        answer: wire::AcknowledgeAnswer,
        names: &PartitionNames,
    ) -> (i32, Vec<PartitionReply>) {
        let mut replies = Vec::new();
        for topic in answer.responses {
            for part in topic.partitions {
                let key = key(topic.topic_id, part.partition_index);
                let acknowledge_error = refusal(part.error_code, part.error_message);
                if let Some(name) = names.get(&key).filter(|_| acknowledge_error.is_some()) {
                    self.apply_leader(name, &part.current_leader, &answer.node_endpoints);
                }
                replies.push(PartitionReply {
                    key,
                    fetch_error: None,
                    acknowledge_error,
                    acquired: None,
                });
            }
        }
        (answer.acquisition_lock_timeout_ms, replies)
    }

    fn apply_leader(&self, name: &SourcePartition, hint: &LeaderHint, endpoints: &[Endpoint]) {
        self.cluster
            .apply_leader(&name.topic, name.partition, hint, endpoints);
    }
}

/// In order, each offset once; whether the broker named one twice.
pub(super) fn ranges(acquired: &[wire::ShareAcquiredRecords]) -> (Vec<AcquiredRange>, bool) {
    let ranges = acquired.iter().map(|range| AcquiredRange {
        first: range.first_offset,
        last: range.last_offset,
        delivery_count: u16::try_from(range.delivery_count).unwrap_or(1),
    });
    records::disjoint(ranges.collect())
}

fn key(topic_id: [u8; 16], partition: i32) -> PartitionKey {
    PartitionKey {
        topic_id: TopicId(topic_id),
        partition,
    }
}

fn millis(number: i32) -> Option<Duration> {
    let number = u64::try_from(number).ok().filter(|number| *number > 0)?;
    Some(Duration::from_millis(number))
}

fn refusal(code: ErrorCode, message: Option<String>) -> Option<Refusal> {
    (!code.is_ok()).then(|| Refusal {
        code,
        message: message.unwrap_or_default(),
    })
}

/// The answer's top level: an error there means that nothing was done.
fn accepted(code: ErrorCode, message: Option<&str>) -> Result<(), Failure> {
    match refusal(code, message.map(str::to_owned)) {
        Some(refusal) => Err(Failure::Refused(refusal)),
        None => Ok(()),
    }
}

fn failure(error: &KrafkaError) -> Failure {
    match error {
        KrafkaError::Broker {
            code: ErrorCode::UnsupportedVersion,
            message,
        } => Failure::Impossible(message.as_str().into()),
        error => Failure::Lost(error.to_string().into()),
    }
}
