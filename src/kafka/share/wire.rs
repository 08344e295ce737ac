//! The one place that names krafka's internals: connections, metadata, the
//! codecs of answers, and encoders of our own for the two share requests.
//!
//! A share session lives with one TCP connection, so it needs one that nothing
//! else uses or replaces. The pool keeps two connections per address; here the
//! one meant for coordination carries the share session (only
//! [`Cluster::session_connection`] asks for it), and heartbeats go over the
//! other, where nothing waits long. So the handle must not be shared with a
//! group consumer, nor with another share source.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use krafka::__private::kafka_metadata;
use krafka::__private::metadata::{BrokerInfo, TopicInfo};
use krafka::__private::network::{ChallengeResponse, ConnectionPool, SaslAuthenticator};
use krafka::__private::protocol::{
    ApiKey, FindCoordinatorRequest, FindCoordinatorResponse, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, VersionedDecode, VersionedEncode,
    versions,
};
use krafka::__private::util::{BackoffPolicy, varint};
use krafka::Kafka;
use krafka::auth::AuthConfig;
use krafka::error::{ErrorCode, KrafkaError};
use sluice_actors::record::TopicId;

use super::config::{AcquireMode, ShareSourceConfig};
use super::request::{Acknowledgements, Fetch};
use super::session::PartitionKey;

pub(super) use krafka::__private::network::BrokerConnection as Connection;
pub(super) use krafka::__private::protocol::{
    Record, RecordBatch as Batch, RecordBatchHeader as BatchHeader,
    ShareAcknowledgeResponse as AcknowledgeAnswer, ShareAcquiredRecords,
    ShareFetchResponse as FetchAnswer, ShareGroupHeartbeatRequest as Heartbeat,
    ShareGroupHeartbeatResponse as HeartbeatAnswer, ShareLeaderIdAndEpoch as LeaderHint,
    ShareNodeEndpoint as Endpoint, TimestampType,
};

type Result<T> = std::result::Result<T, KrafkaError>;

/// The version of the share requests that knows renewals and record limits.
const SHARE_VERSION: i16 = 2;

/// The version of both SASL requests that tells how long a login holds
/// (KIP-368), as krafka's own login has it.
const SASL_VERSION: i16 = 1;

/// Acquisition that keeps to `MaxRecords`; the other mode takes whole batches.
const RECORD_LIMIT: i8 = 1;

const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial_backoff: Duration::from_millis(50),
    max_backoff: Duration::from_secs(5),
    backoff_multiplier: 2.0,
    jitter_factor: 0.2,
};

/// The pause after that many failures in a row, with jitter.
pub(super) fn backoff(failures: u32) -> Duration {
    BACKOFF.calculate_backoff(failures)
}

/// The cluster as the client knows it, and the connections to it.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    kafka: Kafka,
}

impl Cluster {
    pub(super) fn new(kafka: Kafka) -> Self {
        Self { kafka }
    }

    fn pool(&self) -> &Arc<ConnectionPool> {
        krafka::__private::kafka_pool(&self.kafka)
    }

    /// Asks the cluster about these topics, whatever is known.
    pub(super) async fn refresh(&self, topics: &[Arc<str>]) -> Result<()> {
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        kafka_metadata(&self.kafka)
            .force_refresh(Some(&names))
            .await
    }

    /// What the last answer said about a topic.
    pub(super) fn topic(&self, name: &str) -> std::result::Result<Arc<TopicInfo>, ErrorCode> {
        let metadata = kafka_metadata(&self.kafka);
        match (metadata.topic_error(name), metadata.topic_arc(name)) {
            (None, Some(topic)) => Ok(topic),
            (code, _) => Err(code.unwrap_or(ErrorCode::UnknownTopicOrPartition)),
        }
    }

    /// Takes a leader that a broker named in place of itself.
    pub(super) fn apply_leader(
        &self,
        topic: &str,
        partition: i32,
        hint: &LeaderHint,
        endpoints: &[Endpoint],
    ) {
        let endpoint = endpoints
            .iter()
            .find(|endpoint| endpoint.node_id == hint.leader_id)
            .map(|found| {
                BrokerInfo::new(
                    found.node_id,
                    found.host.clone(),
                    found.port,
                    found.rack.clone(),
                )
            });
        kafka_metadata(&self.kafka).apply_leader_hint(
            topic,
            partition,
            hint.leader_id,
            hint.leader_epoch,
            endpoint,
        );
    }

    /// The connection that carries the share session with a broker.
    pub(super) async fn session_connection(&self, broker: i32) -> Result<Arc<Connection>> {
        let info = kafka_metadata(&self.kafka).broker(broker).ok_or_else(|| {
            KrafkaError::broker(
                ErrorCode::BrokerNotAvailable,
                "not in the cluster's metadata",
            )
        })?;
        self.pool().get_coordinator_connection(info.address()).await
    }

    /// The connection that heartbeats go over.
    pub(super) async fn member_connection(&self, address: &str) -> Result<Arc<Connection>> {
        self.pool().get_connection(address).await
    }

    /// The address of the group's coordinator, asked of one broker after the
    /// other until one knows it.
    pub(super) async fn coordinator(&self, group_id: &str) -> Result<String> {
        let mut failure = KrafkaError::broker(ErrorCode::BrokerNotAvailable, "no broker is known");
        for broker in kafka_metadata(&self.kafka).brokers() {
            match self.coordinator_from(broker.address(), group_id).await {
                Ok(address) => return Ok(address),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn coordinator_from(&self, address: &str, group_id: &str) -> Result<String> {
        let connection = self.pool().get_connection(address).await?;
        let request = FindCoordinatorRequest::for_group(group_id);
        let version = negotiate(
            &connection,
            ApiKey::FindCoordinator,
            versions::FIND_COORDINATOR_MIN,
            versions::FIND_COORDINATOR_MAX,
        )?;
        let mut answer = connection
            .send_request(ApiKey::FindCoordinator, version, |buf| {
                request.encode_versioned(version, buf)
            })
            .await?;
        let found = FindCoordinatorResponse::decode_versioned(version, &mut answer)?;
        if !found.error_code.is_ok() {
            let message = found.error_message.unwrap_or_default();
            return Err(KrafkaError::broker(found.error_code, message));
        }
        let info = BrokerInfo::new(found.node_id, found.host, found.port, None);
        Ok(info.address().to_owned())
    }
}

fn negotiate(connection: &Connection, api: ApiKey, min: i16, max: i16) -> Result<i16> {
    connection
        .negotiate_api_version(api, max, min)
        .ok_or_else(|| {
            let message = format!(
                "the broker at {} does not offer {api:?} version {min}; share groups with renewal \
                 need Kafka 4.2 or later",
                connection.address()
            );
            KrafkaError::broker(ErrorCode::UnsupportedVersion, message)
        })
}

/// Sends a heartbeat of the member.
pub(super) async fn heartbeat(
    connection: &Connection,
    request: &Heartbeat,
) -> Result<HeartbeatAnswer> {
    let api = ApiKey::ShareGroupHeartbeat;
    let version = negotiate(
        connection,
        api,
        versions::SHARE_GROUP_HEARTBEAT_MIN,
        versions::SHARE_GROUP_HEARTBEAT_MAX,
    )?;
    let mut answer = connection
        .send_request(api, version, |buf| request.encode_versioned(version, buf))
        .await?;
    HeartbeatAnswer::decode_versioned(version, &mut answer)
}

/// The partitions of these topics that a group has assigned to its members.
pub(super) async fn assigned(
    connection: &Connection,
    group_id: &str,
    of: &[Arc<str>],
) -> Result<BTreeSet<PartitionKey>> {
    let api = ApiKey::ShareGroupDescribe;
    let version = negotiate(
        connection,
        api,
        versions::SHARE_GROUP_DESCRIBE_MIN,
        versions::SHARE_GROUP_DESCRIBE_MAX,
    )?;
    let request = ShareGroupDescribeRequest {
        group_ids: vec![group_id.to_owned()],
        include_authorized_operations: false,
    };
    let mut answer = connection
        .send_request(api, version, |buf| request.encode_versioned(version, buf))
        .await?;
    let described = ShareGroupDescribeResponse::decode_versioned(version, &mut answer)?;
    let mut partitions = BTreeSet::new();
    for group in described.groups {
        if !group.error_code.is_ok() {
            let message = group.error_message.unwrap_or_default();
            return Err(KrafkaError::broker(group.error_code, message));
        }
        let topics = group.members.into_iter().flat_map(|it| it.assignment);
        let topics = topics.filter(|it| of.iter().any(|of| **of == *it.topic_name));
        partitions.extend(topics.flat_map(|topic| {
            let topic_id = TopicId(topic.topic_id);
            let indices = topic.partitions.into_iter();
            indices.map(move |partition| PartitionKey {
                topic_id,
                partition,
            })
        }));
    }
    Ok(partitions)
}

/// Authenticates a connection anew, while nothing else is under way on it.
/// How long that holds; `None` for ever. The last twentieth is left to what is
/// on its way when it ends, as krafka does after a login.
pub(super) async fn reauthenticate(
    connection: &Connection,
    auth: &AuthConfig,
) -> Result<Option<Duration>> {
    let mut login = SaslAuthenticator::new(auth)?
        .ok_or_else(|| KrafkaError::auth("there are no credentials to authenticate with anew"))?;
    let first = login.initial_response()?;
    choose_mechanism(connection, login.mechanism_name()).await?;
    let mut answer = authenticate(connection, &first).await?;
    while !login.is_complete() {
        match login.process_challenge(&answer.auth_bytes).await? {
            ChallengeResponse::Done => break,
            ChallengeResponse::Continue(proof) => answer = authenticate(connection, &proof).await?,
            ChallengeResponse::AckThenFail { ack, error } => {
                // The broker closes the connection after it, with or without an answer.
                let _ = authenticate(connection, &ack).await;
                return Err(error);
            }
            other => {
                return Err(KrafkaError::auth(format!("unknown challenge {other:?}")));
            }
        }
    }
    let lifetime = u64::try_from(answer.session_lifetime_ms).unwrap_or(0);
    let lifetime = Duration::from_millis(lifetime) * 19 / 20;
    Ok((!lifetime.is_zero()).then_some(lifetime))
}

async fn choose_mechanism(connection: &Connection, mechanism: &str) -> Result<()> {
    let request = SaslHandshakeRequest::new(mechanism);
    let mut answer = connection
        .send_request(ApiKey::SaslHandshake, SASL_VERSION, |buf| {
            request.encode_versioned(SASL_VERSION, buf)
        })
        .await?;
    let answer = SaslHandshakeResponse::decode_versioned(SASL_VERSION, &mut answer)?;
    authenticated(answer.error_code, "")
}

async fn authenticate(connection: &Connection, message: &[u8]) -> Result<SaslAuthenticateResponse> {
    let request = SaslAuthenticateRequest::new(message.to_vec());
    let mut answer = connection
        .send_request(ApiKey::SaslAuthenticate, SASL_VERSION, |buf| {
            request.encode_versioned(SASL_VERSION, buf)
        })
        .await?;
    let answer = SaslAuthenticateResponse::decode_versioned(SASL_VERSION, &mut answer)?;
    let words = answer.error_message.as_deref().unwrap_or_default();
    authenticated(answer.error_code, words)?;
    Ok(answer)
}

fn authenticated(code: ErrorCode, words: &str) -> Result<()> {
    if code.is_ok() {
        return Ok(());
    }
    Err(KrafkaError::auth(format!(
        "it refuses to authenticate the connection anew: {code:?} {words}"
    )))
}

/// Who sends a share request, and at which epoch of its session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender<'a> {
    pub(super) config: &'a ShareSourceConfig,
    pub(super) member_id: &'a str,
    pub(super) epoch: i32,
}

/// Sends a fetch. The answer's records are slices of its buffer.
pub(super) async fn share_fetch(
    connection: &Connection,
    sender: Sender<'_>,
    fetch: &Fetch,
) -> Result<FetchAnswer> {
    let api = ApiKey::ShareFetch;
    negotiate(connection, api, SHARE_VERSION, SHARE_VERSION)?;
    let mut answer = connection
        .send_request(api, SHARE_VERSION, |buf| encode_fetch(buf, sender, fetch))
        .await?;
    FetchAnswer::decode_versioned(SHARE_VERSION, &mut answer)
}

/// Sends settlements alone.
pub(super) async fn share_acknowledge(
    connection: &Connection,
    sender: Sender<'_>,
    acknowledgements: &Acknowledgements,
) -> Result<AcknowledgeAnswer> {
    let api = ApiKey::ShareAcknowledge;
    negotiate(connection, api, SHARE_VERSION, SHARE_VERSION)?;
    let mut answer = connection
        .send_request(api, SHARE_VERSION, |buf| {
            encode_acknowledge(buf, sender, acknowledgements)
        })
        .await?;
    AcknowledgeAnswer::decode_versioned(SHARE_VERSION, &mut answer)
}

fn encode_fetch(buf: &mut BytesMut, sender: Sender<'_>, fetch: &Fetch) -> Result<()> {
    put_sender(buf, sender)?;
    buf.put_i32(saturate(fetch.max_wait.as_millis()));
    buf.put_i32(saturate(sender.config.fetch_min_bytes));
    buf.put_i32(saturate(fetch.max_bytes));
    let max_records = saturate(fetch.max_records);
    buf.put_i32(max_records);
    // BatchSize: acquired ranges are as long as they may be.
    buf.put_i32(max_records);
    buf.put_i8(match fetch.acquire_mode {
        AcquireMode::BatchOptimized => 0,
        AcquireMode::RecordLimit => RECORD_LIMIT,
    });
    put_bool(buf, false);
    put_acknowledgements(buf, &fetch.acknowledgements)?;
    let forgotten: Vec<&[PartitionKey]> = by_topic(&fetch.delta.forgotten, |key| key);
    put_length(buf, forgotten.len())?;
    for topic in forgotten {
        buf.put_slice(&topic[0].topic_id.0);
        put_length(buf, topic.len())?;
        for key in topic {
            buf.put_i32(key.partition);
        }
        put_no_tags(buf);
    }
    put_no_tags(buf);
    Ok(())
}

fn encode_acknowledge(
    buf: &mut BytesMut,
    sender: Sender<'_>,
    acknowledgements: &Acknowledgements,
) -> Result<()> {
    put_sender(buf, sender)?;
    put_bool(buf, super::request::renews(acknowledgements));
    put_acknowledgements(buf, acknowledgements)?;
    put_no_tags(buf);
    Ok(())
}

fn put_sender(buf: &mut BytesMut, sender: Sender<'_>) -> Result<()> {
    put_string(buf, &sender.config.group_id)?;
    put_string(buf, sender.member_id)?;
    buf.put_i32(sender.epoch);
    Ok(())
}

fn put_acknowledgements(buf: &mut BytesMut, acknowledgements: &Acknowledgements) -> Result<()> {
    let topics = by_topic(acknowledgements, |(key, _)| key);
    put_length(buf, topics.len())?;
    for topic in topics {
        buf.put_slice(&topic[0].0.topic_id.0);
        put_length(buf, topic.len())?;
        for (key, batches) in topic {
            buf.put_i32(key.partition);
            put_length(buf, batches.len())?;
            for batch in batches {
                buf.put_i64(batch.first);
                buf.put_i64(batch.last);
                // One type stands for the whole batch.
                put_length(buf, 1)?;
                buf.put_i8(batch.kind as i8);
                put_no_tags(buf);
            }
            put_no_tags(buf);
        }
        put_no_tags(buf);
    }
    Ok(())
}

/// Neighbours of the same topic together.
fn by_topic<T>(items: &[T], key: impl Fn(&T) -> &PartitionKey) -> Vec<&[T]> {
    items
        .chunk_by(|left, right| key(left).topic_id == key(right).topic_id)
        .collect()
}

fn put_string(buf: &mut BytesMut, text: &str) -> Result<()> {
    put_length(buf, text.len())?;
    buf.put_slice(text.as_bytes());
    Ok(())
}

/// Compact lengths are one more than what they count.
fn put_length(buf: &mut BytesMut, length: usize) -> Result<()> {
    let encoded = u32::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(1))
        .ok_or_else(|| KrafkaError::config(format!("a request cannot hold {length} entries")))?;
    varint::encode_unsigned_varint(encoded, buf);
    Ok(())
}

fn put_bool(buf: &mut BytesMut, value: bool) {
    buf.put_u8(u8::from(value));
}

fn put_no_tags(buf: &mut BytesMut) {
    buf.put_u8(0);
}

fn saturate<N: TryInto<i32>>(number: N) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// The header of the batch at the front.
pub(super) fn batch_header(bytes: &Bytes) -> std::result::Result<BatchHeader, String> {
    BatchHeader::peek(bytes).map_err(|error| error.to_string())
}

/// Decodes the batch at the front and steps over it; leaves the bytes alone
/// when that fails.
pub(super) fn decode_batch(
    bytes: &mut Bytes,
    max_decompressed_bytes: usize,
) -> std::result::Result<Batch, String> {
    Batch::decode_with_limit(bytes, max_decompressed_bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::share::session::Delta;
    use crate::kafka::share::settlements::{AckBatch, AckType};
    use krafka::__private::protocol::{
        ShareAcknowledgeRequest, ShareAcknowledgeTopic, ShareFetchForgottenTopic,
        ShareFetchPartition, ShareFetchRequest, ShareFetchTopic,
    };
    use sluice_actors::record::TopicId;
    use tokio::time::Instant;

    fn key(topic: u8, partition: i32) -> PartitionKey {
        PartitionKey {
            topic_id: TopicId([topic; 16]),
            partition,
        }
    }

    fn config() -> ShareSourceConfig {
        ShareSourceConfig::new("share-orders", Vec::new())
    }

    fn sender(config: &ShareSourceConfig) -> Sender<'_> {
        Sender {
            config,
            member_id: "member",
            epoch: 4,
        }
    }

    fn bare(partition_index: i32) -> ShareFetchPartition {
        ShareFetchPartition {
            partition_index,
            acknowledgement_batches: Vec::new(),
        }
    }

    #[test]
    fn a_fetch_without_settlements_is_encoded_as_krafka_does() {
        let config = config();
        let fetch = Fetch {
            max_wait: Duration::from_millis(500),
            max_bytes: 7_000_000_000,
            max_records: 300,
            acquire_mode: AcquireMode::RecordLimit,
            delta: Delta {
                added: Vec::new(),
                forgotten: vec![key(3, 9)],
            },
            acknowledgements: [key(1, 0), key(1, 4), key(2, 0)]
                .map(|key| (key, Vec::new()))
                .to_vec(),
        };
        let mut ours = BytesMut::new();
        encode_fetch(&mut ours, sender(&config), &fetch).unwrap();
        let request = ShareFetchRequest {
            group_id: Some("share-orders".to_owned()),
            member_id: Some("member".to_owned()),
            share_session_epoch: 4,
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: i32::MAX,
            max_records: 300,
            batch_size: 300,
            topics: vec![
                ShareFetchTopic {
                    topic_id: [1; 16],
                    partitions: vec![bare(0), bare(4)],
                },
                ShareFetchTopic {
                    topic_id: [2; 16],
                    partitions: vec![bare(0)],
                },
            ],
            forgotten_topics: vec![ShareFetchForgottenTopic {
                topic_id: [3; 16],
                partitions: vec![9],
            }],
        };
        let mut theirs = BytesMut::new();
        request.encode_v2(&mut theirs, 1, false).unwrap();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn an_empty_acknowledgement_is_encoded_as_krafka_does() {
        let config = config();
        let mut ours = BytesMut::new();
        encode_acknowledge(&mut ours, sender(&config), &Vec::new()).unwrap();
        let request = ShareAcknowledgeRequest {
            group_id: Some("share-orders".to_owned()),
            member_id: Some("member".to_owned()),
            share_session_epoch: 4,
            topics: Vec::<ShareAcknowledgeTopic>::new(),
        };
        let mut theirs = BytesMut::new();
        request.encode_v2(&mut theirs, false).unwrap();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_range_carries_one_type_and_a_renewal_is_flagged() {
        let config = config();
        let batch = |first, last, kind| AckBatch {
            first,
            last,
            kind,
            deadline: Instant::now(),
        };
        let batches = vec![batch(2, 5, AckType::Accept), batch(6, 6, AckType::Renew)];
        let mut ours = BytesMut::new();
        encode_acknowledge(&mut ours, sender(&config), &vec![(key(1, 3), batches)]).unwrap();
        let mut expected = BytesMut::new();
        expected.put_slice(b"\x0dshare-orders\x07member\0\0\0\x04");
        // Flagged; one topic, its id, one partition, two ranges.
        expected.put_slice(b"\x01\x02");
        expected.put_slice(&[1; 16]);
        expected.put_slice(b"\x02\0\0\0\x03\x03");
        for (first, last, kind) in [(2, 5, 1), (6, 6, 4)] {
            expected.put_i64(first);
            expected.put_i64(last);
            expected.put_slice(&[2, kind, 0]);
        }
        expected.put_slice(&[0, 0, 0]);
        assert_eq!(ours, expected);
    }
}
