//! The settings of a share source.

use std::sync::Arc;
use std::time::Duration;

use krafka::auth::AuthConfig;

use crate::kafka::client_config::Credentials;

/// `share.acquire.mode`: whether a fetch may acquire more records than it
/// asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole producer batches, so the last one may exceed the limit.
    #[default]
    BatchOptimized,
    /// Never more than asked for; costs the broker more.
    RecordLimit,
}

/// The settings of a share source.
#[derive(Clone, Debug)]
pub struct ShareSourceConfig {
    /// Whose source it is, for the log; as long as nobody says, the group.
    pub connector: Arc<str>,
    /// The share group.
    pub group_id: Arc<str>,
    /// `client.rack`.
    pub rack: Option<Arc<str>>,
    /// The topics to start with.
    pub topics: Vec<Arc<str>>,
    /// `share.acquire.mode`.
    pub acquire_mode: AcquireMode,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: u32,
    /// `fetch.max.bytes`, over all partitions of one broker.
    pub fetch_max_bytes: u32,
    /// `fetch.max.wait.ms`: how long a fetch may wait while nothing is open.
    pub fetch_max_wait: Duration,
    /// What sessions authenticate with anew before their credentials end.
    pub credentials: Credentials,
    /// `request.timeout.ms` of share requests; an answer that takes longer
    /// counts as a lost connection.
    pub request_timeout: Duration,
    /// `metadata.max.age.ms`.
    pub metadata_max_age: Duration,
    /// The largest size of one record batch once decompressed; a larger one
    /// counts as corrupt. Kafka has no such limit, so it is far above what
    /// producers make.
    pub max_decompressed_bytes: usize,
}

impl ShareSourceConfig {
    /// The settings of Kafka's share consumer.
    #[must_use]
    pub fn new(group_id: impl Into<Arc<str>>, topics: Vec<Arc<str>>) -> Self {
        let group_id = group_id.into();
        Self {
            connector: Arc::clone(&group_id),
            group_id,
            rack: None,
            topics,
            acquire_mode: AcquireMode::default(),
            fetch_min_bytes: 1,
            fetch_max_bytes: 50 * 1024 * 1024,
            fetch_max_wait: Duration::from_millis(500),
            credentials: Credentials::Constant(Arc::new(AuthConfig::plaintext())),
            request_timeout: Duration::from_secs(30),
            metadata_max_age: Duration::from_secs(300),
            max_decompressed_bytes: 1 << 30,
        }
    }
}
