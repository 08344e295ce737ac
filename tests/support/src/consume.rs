//! Reading topics whole, to count what a sink or a dead letter wrote there.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};

/// No answer of the broker for so long is an error.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap_servers)
        // The client wants a group id even if it joins no group.
        .set("group.id", "reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed");
    let name = topic.to_owned();
    tokio::task::spawn_blocking(move || read_all(&config, &name))
        .await?
        .with_context(|| format!("cannot read topic {topic}"))
}

fn read_all(config: &ClientConfig, topic: &str) -> Result<Vec<Received>> {
    let consumer: BaseConsumer = config.create()?;
    let mut open = partitions(&consumer, topic)?;
    let mut assignment = TopicPartitionList::new();
    for partition in open.keys() {
        assignment.add_partition_offset(topic, *partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
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
