//! Filling topics, fast and confirmed.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext},
};

const FLUSH_TIMEOUT: Duration = Duration::from_secs(120);
/// Delivery reports are taken in after so many records.
const POLL_EVERY: usize = 1000;

/// A record to produce.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewRecord {
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl NewRecord {
    #[must_use]
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// A record with a key and no value.
    #[must_use]
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Self {
        Self::default().key(key)
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), Some(value.into())));
        self
    }

    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    #[must_use]
    pub fn timestamp(mut self, milliseconds: i64) -> Self {
        self.timestamp = Some(milliseconds);
        self
    }
}

/// `id-000000`, `id-000001`, ...: what tests count.
pub fn ids(count: usize) -> impl Iterator<Item = String> + Send + 'static {
    (0..count).map(|number| format!("id-{number:06}"))
}

/// Records `{"id":"id-000000","pad":"..."}` of about `size` bytes, one
/// partition after the other.
pub fn json_records(
    count: usize,
    partitions: i32,
    size: usize,
) -> impl Iterator<Item = NewRecord> + Send + 'static {
    ids(count)
        .zip((0..partitions).cycle())
        .map(move |(id, partition)| {
            let mut value = format!("{{\"id\":\"{id}\"");
            let pad = size.saturating_sub(value.len() + r#","pad":""}"#.len());
            if pad > 0 {
                value.push_str(",\"pad\":\"");
                value.extend(std::iter::repeat_n('x', pad));
                value.push('"');
            }
            value.push('}');
            NewRecord::value(value).partition(partition)
        })
}

/// Produces over PLAINTEXT and returns how many records the broker confirmed:
/// all of them.
///
/// # Errors
/// If one was not confirmed.
pub async fn produce<I>(bootstrap_servers: &str, topic: &str, records: I) -> Result<usize>
where
    I: IntoIterator<Item = NewRecord> + Send + 'static,
{
    produce_with(bootstrap_servers, topic, records, &[]).await
}

/// The same with producer properties of librdkafka.
///
/// # Errors
/// If a property is wrong or a record was not confirmed.
pub async fn produce_with<I>(
    bootstrap_servers: &str,
    topic: &str,
    records: I,
    properties: &[(&str, &str)],
) -> Result<usize>
where
    I: IntoIterator<Item = NewRecord> + Send + 'static,
{
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", bootstrap_servers)
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("queue.buffering.max.messages", "500000")
        .set("batch.size", "262144")
        .set("linger.ms", "5");
    for (key, value) in properties {
        config.set(*key, *value);
    }
    let name = topic.to_owned();
    tokio::task::spawn_blocking(move || send_all(&config, &name, records))
        .await?
        .with_context(|| format!("cannot produce to {topic}"))
}

fn send_all(
    config: &ClientConfig,
    topic: &str,
    records: impl IntoIterator<Item = NewRecord>,
) -> Result<usize> {
    let reports = Reports::default();
    let producer: BaseProducer<Reports> = config.create_with_context(reports.clone())?;
    let mut sent = 0;
    for record in records {
        send(&producer, topic, &record)?;
        sent += 1;
        if sent % POLL_EVERY == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(FLUSH_TIMEOUT)?;
    let tally = reports.0.lock();
    match &tally.failure {
        Some(failure) => bail!("{} of {sent} were confirmed: {failure}", tally.confirmed),
        None => Ok(tally.confirmed),
    }
}

fn send(producer: &BaseProducer<Reports>, topic: &str, record: &NewRecord) -> Result<()> {
    let mut outgoing = BaseRecord::<[u8], [u8]>::to(topic);
    outgoing.partition = record.partition;
    outgoing.key = record.key.as_deref();
    outgoing.payload = record.value.as_deref();
    outgoing.timestamp = record.timestamp;
    outgoing.headers = headers(&record.headers);
    loop {
        match producer.send(outgoing) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), returned)) => {
                outgoing = returned;
                producer.poll(Duration::from_millis(10));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

fn headers(headers: &[(String, Option<Vec<u8>>)]) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let mut outgoing = OwnedHeaders::new_with_capacity(headers.len());
    for (key, value) in headers {
        outgoing = outgoing.insert(Header {
            key,
            value: value.as_deref(),
        });
    }
    Some(outgoing)
}

#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Tally>>);

#[derive(Default)]
struct Tally {
    confirmed: usize,
    failure: Option<KafkaError>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let mut tally = self.0.lock();
        match result {
            Ok(_) => tally.confirmed += 1,
            Err((error, _)) => {
                tally.failure.get_or_insert_with(|| error.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_records_have_the_asked_size_and_go_round_the_partitions() {
        let records: Vec<_> = json_records(5, 2, 100).collect();
        let partitions: Vec<_> = records.iter().filter_map(|it| it.partition).collect();
        assert_eq!(partitions, [0, 1, 0, 1, 0]);
        for record in &records {
            let value = record.value.as_deref().unwrap();
            assert_eq!(value.len(), 100);
            serde_json::from_slice::<serde_json::Value>(value).unwrap();
        }
    }

    #[test]
    fn a_size_below_the_id_leaves_the_padding_out() {
        let record = json_records(1, 1, 0).next().unwrap();
        assert_eq!(record.value.unwrap(), br#"{"id":"id-000000"}"#);
    }
}
