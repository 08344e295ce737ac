//! Reading topics whole, to count what a sink or a dead letter wrote there, also
//! those from which somebody deletes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::Instant,
};

/// No answer of the broker for so long is an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a follower waits for the next record before it looks up.
const LOOK: Duration = Duration::from_millis(100);

/// A record as it lies in its topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl Received {
    /// The value of the last header `name`, as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().rfind(|(key, _)| key == name)?;
        Some(String::from_utf8_lossy(value.as_deref()?).into_owned())
    }
}

/// All records of `topic` up to its present end, those of open and aborted
/// transactions left out.
///
/// # Errors
/// If there is no such topic or the broker does not answer.
pub async fn read_topic(bootstrap_servers: &str, topic: &str) -> Result<Vec<Received>> {
    let (config, name) = (config(bootstrap_servers), topic.to_owned());
    spawn_blocking(move || read_all(&config, &name))
        .await?
        .with_context(|| format!("cannot read topic {topic}"))
}

/// Reads a topic as it grows, so that nothing of it is missed if its records are
/// deleted once somebody has used them.
pub struct Follower {
    topic: String,
    is_over: Arc<AtomicBool>,
    reading: JoinHandle<Result<Vec<Received>>>,
}

impl Follower {
    /// Begins at the topic's start; the topic must be there.
    #[must_use]
    pub fn start(bootstrap_servers: &str, topic: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let (config, name) = (config(bootstrap_servers), topic.to_owned());
        Self {
            topic: topic.to_owned(),
            is_over,
            reading: spawn_blocking(move || follow(&config, &name, &over)),
        }
    }

    /// All records up to the present end.
    ///
    /// # Errors
    /// If one was deleted before it was read, or the broker does not answer.
    pub async fn stop(mut self) -> Result<Vec<Received>> {
        self.is_over.store(true, Ordering::SeqCst);
        let followed = (&mut self.reading).await?;
        followed.with_context(|| format!("cannot follow topic {}", self.topic))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

fn follow(config: &ClientConfig, topic: &str, is_over: &AtomicBool) -> Result<Vec<Received>> {
    let (consumer, ends) = at_the_beginning(config, topic)?;
    let mut next: BTreeMap<i32, i64> = ends.keys().map(|partition| (*partition, 0)).collect();
    let mut records = Vec::new();
    let mut deadline = None;
    loop {
        // The client gets over errors by itself, those of brokers that die too.
        if let Some(Ok(message)) = consumer.poll(LOOK) {
            let expected = next.entry(message.partition()).or_default();
            let (partition, offset) = (message.partition(), message.offset());
            ensure!(
                offset == *expected,
                "{partition}@{expected} was deleted before it was read, {offset} came"
            );
            *expected = offset + 1;
            records.push(received(&message));
            continue;
        }
        if is_over.load(Ordering::SeqCst) {
            if partitions(&consumer, topic)? == next {
                return Ok(records);
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            ensure!(
                Instant::now() < deadline,
                "the end is not reached: {next:?}"
            );
        }
    }
}

fn config(bootstrap_servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap_servers)
        // The client wants a group id even if it joins no group.
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed");
    config
}

/// A consumer of all partitions, and the present end of each.
fn at_the_beginning(
    config: &ClientConfig,
    topic: &str,
) -> Result<(BaseConsumer, BTreeMap<i32, i64>)> {
    let consumer: BaseConsumer = config.create()?;
    let ends = partitions(&consumer, topic)?;
    let mut assignment = TopicPartitionList::new();
    for partition in ends.keys() {
        assignment.add_partition_offset(topic, *partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    Ok((consumer, ends))
}

fn read_all(config: &ClientConfig, topic: &str) -> Result<Vec<Received>> {
    let (consumer, mut open) = at_the_beginning(config, topic)?;
    let mut records = Vec::new();
    while !open.is_empty() {
        match consumer.poll(PATIENCE) {
            // In a topic that grows all the time no end is ever told.
            Some(Ok(message)) => {
                let end = open.get(&message.partition()).copied().unwrap_or_default();
                if message.offset() < end {
                    records.push(received(&message));
                }
                if message.offset() + 1 >= end {
                    open.remove(&message.partition());
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            Some(Err(error)) => return Err(error.into()),
            None => bail!("no answer for partitions {open:?} in {PATIENCE:?}"),
        }
    }
    Ok(records)
}

/// The present end of each partition.
fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<BTreeMap<i32, i64>> {
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
    let ids = metadata
        .topics()
        .iter()
        .flat_map(|topic| topic.partitions());
    let ends = ids.map(|partition| {
        let (_, end) = consumer.fetch_watermarks(topic, partition.id(), PATIENCE)?;
        Ok((partition.id(), end))
    });
    let partitions: BTreeMap<i32, i64> = ends.collect::<Result<_>>()?;
    if partitions.is_empty() {
        bail!("there is no such topic");
    }
    Ok(partitions)
}

fn received(message: &BorrowedMessage<'_>) -> Received {
    let headers = message.headers().into_iter().flat_map(|headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
    });
    Received {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.collect(),
        timestamp: message.timestamp().to_millis(),
    }
}
