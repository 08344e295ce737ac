//! From a sound configuration to a running pipeline: looks at the cluster,
//! makes the share group ready, and only then joins.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use krafka::Kafka;
use krafka::error::KrafkaError;
use sluice_actors::books::{Policy, Retriable, Tolerance};
use sluice_actors::conversion::Conversion;
use sluice_actors::credit::Credit;
use sluice_actors::flush::FlushPolicy;
use sluice_actors::live_view::LiveView;
use sluice_actors::parking::ParkingPolicy;
use sluice_actors::ports::source::Source;
use sluice_actors::retry::RetryPolicy;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::terms::Terms;
use sluice_actors::threads::Threads;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::group::{self, ReadGroup, ReadGroups, no_renewal};
use super::lag::Groups;
use super::parking::{OwnSource, ParkingPlace};
use super::{dead_letters, lag, parking, topics};
use crate::config::connector::{ConnectorConfig, ConverterConfig, Topics};
use crate::config::definition::Faults;
use crate::config::overrides::AcquireMode;
use crate::config::producer::ProducerConfig;
use crate::config::worker::FLUSH_INTERVAL;
use crate::converters;
use crate::kafka::admin::{
    Admin, AdminError, GroupSettings, ShareGroupCheck, TopicPattern, TopicSelection,
    WantedSettings, remedy,
};
use crate::kafka::client_config::ClientConfig;
use crate::kafka::share::{self, ShareSourceConfig};
use crate::sinks;
use crate::telemetry::traces::{TracedConnector, Traces};
use crate::transforms;

/// What the configuration calls the servers that are read from.
pub(super) const SERVERS: &str = "bootstrap.servers";

/// The part of a lock's time that a buffered record may wait for its flush,
/// so that it is settled before its lock must be renewed.
const FLUSHES_IN_A_LOCK: u32 = 3;
/// The part of a drain's time that an idle fetch may wait: half of what the
/// look before a restart has, and little of what is left for its records.
const FETCHES_IN_A_DRAIN: u32 = 8;
/// Brokers are not to be asked without a pause, however short a drain may be.
const SHORTEST_IDLE_WAIT: Duration = Duration::from_millis(50);

/// Why a connector did not start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// The same may work later; it is tried again.
    #[error("{0}")]
    Later(String),
    /// The operator must mend something first.
    #[error("{0}")]
    Refused(String),
}

impl From<AdminError> for StartError {
    fn from(error: AdminError) -> Self {
        if error.is_retriable() {
            Self::Later(error.to_string())
        } else {
            Self::Refused(error.to_string())
        }
    }
}

/// What all connectors of a worker run on.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) worker: String,
    pub(super) runtime: Handle,
    pub(super) threads: Threads,
    pub(super) view: Arc<LiveView>,
    pub(super) cluster_id: ClusterId,
    pub(super) traces: Traces,
    /// How long a connector finishes what it has begun before it is restarted.
    pub(super) drain_timeout: Duration,
}

/// The Kafka cluster's id, as the first connector that met it learnt it.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterId(Arc<OnceLock<String>>);

impl ClusterId {
    pub(super) fn get(&self) -> Option<String> {
        self.0.get().cloned()
    }

    fn learn(&self, id: &str) {
        self.0.get_or_init(|| id.to_owned());
    }
}

/// A connector that runs.
pub(super) struct Running {
    pub(super) pipeline: Pipeline,
    /// What keeps the topics and the lag up to date.
    pub(super) topics: Option<AbortOnDropHandle<()>>,
    pub(super) lag: AbortOnDropHandle<()>,
    /// What keeps the pipeline to its groups' settings.
    pub(super) group: AbortOnDropHandle<()>,
}

/// Starts a connector, once.
pub(super) async fn start(
    config: &ConnectorConfig,
    ground: &Ground,
) -> Result<Running, StartError> {
    let admin = Arc::new(admin(&config.consumer.client, SERVERS).await?);
    let producer = producer(config, ground, &admin).await?;
    let selection = selection(&config.topics)?;
    let resolved = admin.resolve_topics(&selection).await?;
    for topic in &resolved.missing {
        tracing::warn!(connector = %config.name, %topic, "topic is not there, waiting for it");
    }
    let names = match &selection {
        // Also those that are still to come.
        TopicSelection::Names(names) => names.clone(),
        TopicSelection::Pattern(_) => resolved.topics.keys().cloned().collect(),
    };
    if names.is_empty() {
        let cause = "topics.regex: no topic matches it yet";
        return Err(StartError::Later(cause.to_owned()));
    }
    let settings = make_group_ready(config, &admin, &names).await?;
    if resolved.missing.is_empty() {
        let partitions = resolved.topics.values().map(|topic| topic.partitions);
        check_flush(config, &settings, partitions)?;
    }
    let dead_letters = dead_letters::prepare(config, &admin).await?;
    // Before joining: what does not fit must not hold partitions first.
    let mut spec = pipeline_spec(config, &producer, &settings, &ground.worker)?;
    spec.dead_letters = dead_letters.ours;
    let parked = parking::prepare(config, &admin, &settings).await?;
    spec.parking = parked.as_ref().map(ParkingPlace::core);
    let groups = ReadGroups {
        own: ReadGroup {
            id: config.share.group_id.clone(),
            settings,
        },
        parked: parked.as_ref().map(ParkingPlace::group),
        letters: dead_letters.brokers,
    };

    let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
    let credit = Credit::new(config.share.max_in_flight_bytes);
    let own = OwnSource {
        kafka: connect(&config.consumer.client, SERVERS).await?,
        config: source_config(config, names, ground.drain_timeout),
        credit: Arc::clone(&credit),
    };
    let (source, joined, events) = match parked {
        None => {
            let (source, events) = share::start(own.kafka, own.config, own.credit, &ground.runtime);
            let source = Arc::new(source);
            (Arc::clone(&source), source as Arc<dyn Source>, events)
        }
        Some(place) => place.start(config, own, &ground.runtime),
    };
    tracing::info!(
        connector = %config.name, group = %config.share.group_id, member = source.member_id(),
        tasks = config.tasks_max, "joining"
    );
    let traced = TracedConnector {
        connector: config.name.clone(),
        worker: ground.worker.clone(),
        client_id: config.consumer.client.client_id.clone(),
        group: config.share.group_id.clone(),
        member: source.member_id().to_owned(),
        includes_messages: config.errors.log.include_messages,
    };
    let lag = lag::keep(
        config.name.clone(),
        Groups {
            own: config.share.group_id.clone(),
            parked: config.parking.as_ref().map(|it| it.topic.clone()),
        },
        Arc::clone(&admin),
        Arc::clone(&ground.view),
        &ground.runtime,
    );
    let topics = topics::keep(
        config,
        selection,
        Arc::clone(&admin),
        source,
        &ground.runtime,
    );
    spec.tracer = ground.traces.tracer(&traced);
    let pipeline = Pipeline::start(
        spec,
        joined,
        events,
        credit,
        ground.threads.clone(),
        Arc::clone(&ground.view),
    );
    let group = group::keep(
        config,
        groups,
        admin,
        pipeline.clone(),
        Arc::clone(&ground.view),
        &ground.runtime,
    );
    Ok(Running {
        pipeline,
        topics,
        lag,
        group,
    })
}

/// The producer's settings, which know the source's cluster by its id if the
/// sink writes to Kafka. Else the id is for show only: it is asked for until it
/// is known, and a broker that does not tell is no trouble.
async fn producer(
    config: &ConnectorConfig,
    ground: &Ground,
    admin: &Admin,
) -> Result<ProducerConfig, StartError> {
    let producer = config.producer.clone();
    let produces = sinks::registry::produces(&config.class);
    if !produces && ground.cluster_id.get().is_some() {
        return Ok(producer);
    }
    match admin.cluster_id().await {
        Ok(id) => {
            ground.cluster_id.learn(&id);
            Ok(match produces {
                true => producer.beside_cluster(id),
                false => producer,
            })
        }
        Err(_) if !produces => Ok(producer),
        Err(error) => Err(StartError::Later(format!(
            "the cluster's id cannot be read: {error}; trying on"
        ))),
    }
}

/// `key` is what the configuration calls the servers.
pub(super) async fn admin(client: &ClientConfig, key: &str) -> Result<Admin, StartError> {
    let kafka = connect(client, key).await?;
    Ok(Admin::new(
        kafka.admin(),
        client.bootstrap_servers.join(","),
    ))
}

pub(super) async fn connect(client: &ClientConfig, key: &str) -> Result<Kafka, StartError> {
    client.builder().connect().await.map_err(|error| {
        let servers = client.bootstrap_servers.join(",");
        let remedy = remedy(&error);
        let text = format!("cannot connect to {key} {servers}: {error}; {remedy}");
        if is_final(&error) {
            StartError::Refused(text)
        } else {
            StartError::Later(text)
        }
    })
}

/// Whether trying again cannot help: credentials, certificates, settings.
fn is_final(error: &KrafkaError) -> bool {
    !error.is_retriable()
}

async fn make_group_ready(
    config: &ConnectorConfig,
    admin: &Admin,
    topics: &[String],
) -> Result<GroupSettings, StartError> {
    let share = &config.share;
    let check = ShareGroupCheck {
        connector: config.name.clone(),
        group: share.group_id.clone(),
        consumer_group: config.connect_group(),
        topics: topics.to_vec(),
        reset_given: share.auto_offset_reset.is_given,
    };
    let reset = &share.auto_offset_reset;
    let wanted = WantedSettings {
        auto_offset_reset: reset.is_given.then(|| reset.strategy.clone()),
        max_record_locks: share
            .partition_max_record_locks
            .and_then(|n| u32::try_from(n).ok()),
        delivery_limit: share
            .delivery_count_limit
            .and_then(|n| u16::try_from(n).ok()),
        lock_duration: share.record_lock_duration,
    };
    prepare_group(admin, &check, &wanted).await
}

/// Makes sure that a share group can be read and held on to.
pub(super) async fn prepare_group(
    admin: &Admin,
    check: &ShareGroupCheck,
    wanted: &WantedSettings,
) -> Result<GroupSettings, StartError> {
    let group = &check.group;
    let mut warnings = admin.check_share_group(check).await?;
    let prepared = admin.prepare_share_group(group, wanted).await?;
    warnings.extend(prepared.warnings);
    for warning in warnings {
        tracing::warn!(connector = %check.connector, "{warning}");
    }
    match prepared.settings.renew_enabled.value {
        true => Ok(prepared.settings),
        false => Err(StartError::Refused(no_renewal(group))),
    }
}

pub(super) fn selection(topics: &Topics) -> Result<TopicSelection, StartError> {
    match topics {
        Topics::Named(names) => Ok(TopicSelection::Names(names.clone())),
        Topics::Matching(regex) => TopicPattern::compile(regex.as_str())
            .map(TopicSelection::Pattern)
            .map_err(|error| StartError::Refused(format!("topics.regex: {error}"))),
    }
}

fn source_config(
    config: &ConnectorConfig,
    topics: Vec<Arc<str>>,
    drain_timeout: Duration,
) -> ShareSourceConfig {
    let consumer = &config.consumer;
    let size = |bytes: i64| u32::try_from(bytes.max(0)).unwrap_or(u32::MAX);
    ShareSourceConfig {
        connector: config.name.as_str().into(),
        rack: consumer.rack.as_deref().map(Arc::from),
        acquire_mode: match consumer.acquire_mode {
            AcquireMode::BatchOptimized => share::AcquireMode::BatchOptimized,
            AcquireMode::RecordLimit => share::AcquireMode::RecordLimit,
        },
        fetch_min_bytes: size(consumer.fetch_min_bytes),
        fetch_max_bytes: size(consumer.fetch_max_bytes),
        fetch_max_wait: consumer
            .fetch_max_wait
            .min(idle_wait(drain_timeout, consumer.client.request_timeout)),
        credentials: consumer.client.credentials(),
        request_timeout: consumer.client.request_timeout,
        metadata_max_age: consumer.client.metadata_max_age,
        ..ShareSourceConfig::new(config.share.group_id.as_str(), topics)
    }
}

/// A fetch cannot be called back: what ends has to wait for its answer, which
/// may bring records that are still to be delivered. An answer that comes later
/// than requests may take is none.
fn idle_wait(drain_timeout: Duration, request_timeout: Duration) -> Duration {
    let of_drain = drain_timeout / FETCHES_IN_A_DRAIN;
    let longest = of_drain.min(request_timeout / 6 * 5);
    longest.max(SHORTEST_IDLE_WAIT)
}

fn pipeline_spec(
    config: &ConnectorConfig,
    producer: &ProducerConfig,
    settings: &GroupSettings,
    worker: &str,
) -> Result<PipelineSpec, StartError> {
    let mut faults = Faults::default();
    let sink = sinks::registry::factory(&config.class, config.properties(), producer, &mut faults);
    let conversion = conversion(config, &mut faults);
    let (Some(sink), Some(conversion)) = (sink, conversion) else {
        return Err(StartError::Refused(faults.to_string()));
    };
    Ok(PipelineSpec {
        connector: config.name.clone(),
        worker: worker.to_owned(),
        policy: Policy {
            tolerance: if config.errors.tolerates {
                Tolerance::All
            } else {
                Tolerance::None
            },
            retry: RetryPolicy {
                timeout: config.errors.retry_timeout,
                max_delay: config.errors.retry_delay_max,
            },
            retriable: match config.share.releases_retriable {
                true => Retriable::Release,
                false => Retriable::Hold,
            },
            terms: Terms::new(
                settings.delivery_limit.value,
                settings.max_record_locks.value as usize,
            ),
            max_put_records: config.max_put_records,
            tasks: config.tasks_max,
            max_in_flight_records: config.share.max_in_flight_records,
            parking: config.parking.as_ref().map(|parking| ParkingPolicy {
                after: parking.after,
                backoff: parking.backoff,
                span: u64::from(settings.max_record_locks.value),
            }),
        },
        conversion,
        sink,
        delivery_timeout: config.share.delivery_timeout,
        flush: FlushPolicy {
            interval: flush_interval(
                &config.name,
                config.flush.interval,
                settings.lock_duration.value,
            ),
            idle: config.flush.idle,
            records: config.flush.records,
            bytes: config.flush.bytes,
        },
        accepts_after_put: config.flush.accepts_after_put,
        error_log: config.errors.log,
        dead_letters: None,
        parking: None,
        tracer: None,
    })
}

/// A task gets no more records than the group may lock.
fn check_flush(
    config: &ConnectorConfig,
    settings: &GroupSettings,
    partitions: impl Iterator<Item = i32>,
) -> Result<(), StartError> {
    let partitions = partitions.map(|it| usize::try_from(it).unwrap_or_default());
    let (partitions, locks) = (partitions.sum::<usize>(), settings.max_record_locks.value);
    match config.flush.records {
        Some(records) if records > partitions * locks as usize => {
            Err(StartError::Refused(format!(
                "share.flush.records {records} is more than share group {} may lock, {locks} in \
                 each of {partitions} partitions, so it is never reached; set it lower, or \
                 share.partition.max.record.locks higher",
                config.share.group_id
            )))
        }
        _ => Ok(()),
    }
}

/// Tells when it is less than what was asked for.
fn flush_interval(connector: &str, wanted: Duration, lock: Duration) -> Duration {
    let longest = lock / FLUSHES_IN_A_LOCK;
    if wanted > longest {
        let (lock_ms, taken_ms) = (lock.as_millis() as u64, longest.as_millis() as u64);
        tracing::info!(
            connector,
            lock_ms,
            taken_ms,
            "{FLUSH_INTERVAL} is too long for the locks"
        );
    }
    wanted.min(longest)
}

fn conversion(config: &ConnectorConfig, faults: &mut Faults) -> Option<Conversion> {
    let build = |converter: &ConverterConfig, faults: &mut Faults| {
        converters::registry::converter(
            &converter.class,
            converter.part,
            converter.properties(),
            faults,
        )
    };
    let header = &config.header_converter;
    Some(Conversion {
        key: build(&config.key_converter, faults)?,
        value: build(&config.value_converter, faults)?,
        header: converters::registry::header_converter(&header.class, header.properties(), faults)?,
        transforms: transforms::registry::chain(&config.transforms, config.properties(), faults)?,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::connector::tests::good;

    use super::*;

    #[test]
    fn what_is_set_for_the_consumer_reaches_the_share_client() {
        let connector = good(&[
            ("share.group.id", "g"),
            ("consumer.override.client.rack", "r"),
            ("consumer.override.share.acquire.mode", "record_limit"),
            ("consumer.override.fetch.min.bytes", "7"),
            ("consumer.override.fetch.max.bytes", "4000"),
            ("consumer.override.fetch.max.wait.ms", "123"),
            ("consumer.override.request.timeout.ms", "4567"),
            ("consumer.override.metadata.max.age.ms", "89000"),
        ]);
        let source = source_config(&connector, vec!["orders".into()], Duration::from_secs(5));
        assert_eq!(&*source.group_id, "g");
        assert_eq!(&*source.connector, &*connector.name);
        assert_eq!(source.rack.as_deref(), Some("r"));
        assert_eq!(source.topics, ["orders".into()]);
        assert_eq!(source.acquire_mode, share::AcquireMode::RecordLimit);
        assert_eq!((source.fetch_min_bytes, source.fetch_max_bytes), (7, 4000));
        assert_eq!(source.fetch_max_wait, Duration::from_millis(123));
        assert_eq!(source.request_timeout, Duration::from_millis(4567));
        assert_eq!(source.metadata_max_age, Duration::from_secs(89));
        let brief = source_config(&connector, Vec::new(), Duration::from_millis(800));
        assert_eq!(brief.fetch_max_wait, Duration::from_millis(100));
    }

    #[test]
    fn an_idle_fetch_leaves_time_for_what_it_brings_and_for_its_answer() {
        let second = Duration::from_secs(1);
        assert!(
            idle_wait(5 * second, 30 * second) > second / 2,
            "the default"
        );
        assert_eq!(idle_wait(60 * second, 30 * second), 7500 * second / 1000);
        assert_eq!(idle_wait(second / 2, 30 * second), second / 16);
        assert_eq!(idle_wait(Duration::ZERO, 30 * second), SHORTEST_IDLE_WAIT);
        assert_eq!(idle_wait(600 * second, 30 * second), 25 * second);
    }

    #[test]
    fn buffered_records_are_flushed_well_before_their_locks_end() {
        let (second, lock) = (Duration::from_secs(1), Duration::from_secs(30));
        let taken = |wanted| flush_interval("orders", wanted, lock);
        assert_eq!(taken(second), second);
        assert_eq!(taken(10 * second), 10 * second);
        assert_eq!(taken(60 * second), 10 * second);
    }
}
