//! Sends a task's records through the connector's producer.

use std::collections::HashSet;
use std::sync::Arc;

use ahash::RandomState;
use async_trait::async_trait;
use rdkafka::producer::BaseRecord;

use sluice_actors::chunk::Chunk;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;

use crate::config::connector::is_topic;
use crate::kafka::producer::{Handle, Outgoing, Producers};
use crate::sinks::kafka::config::{KafkaConfig, loop_message};
use crate::sinks::kafka::encode::Encoding;
use crate::sinks::kafka::receipts::{PutReceipt, Receipts};

/// Makes sinks that share one producer.
pub struct KafkaFactory {
    config: Arc<KafkaConfig>,
    producers: Arc<Producers<PutReceipt>>,
}

impl KafkaFactory {
    #[must_use]
    pub fn new(config: KafkaConfig) -> Self {
        Self {
            producers: Arc::new(Producers::new(config.producer.clone())),
            config: Arc::new(config),
        }
    }
}

impl SinkFactory for KafkaFactory {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: false,
            idempotent: false,
            blocking: false,
        }
    }

    fn create(&self, _: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(KafkaSink {
            config: Arc::clone(&self.config),
            producers: Arc::clone(&self.producers),
            good_topics: HashSet::default(),
            denied_topic: None,
            unsettled: Vec::new(),
        }))
    }
}

struct KafkaSink {
    config: Arc<KafkaConfig>,
    producers: Arc<Producers<PutReceipt>>,
    /// Topics that records may go to, found by looking once.
    good_topics: HashSet<String, RandomState>,
    /// What the last put was not allowed to write to.
    denied_topic: Option<String>,
    /// Puts whose records were on their way when last looked at.
    unsettled: Vec<Arc<Receipts>>,
}

#[async_trait]
impl Sink for KafkaSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        self.producers.together().await.map(drop)
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        let producer = match self.denied_topic.take() {
            Some(topic) => self.producers.together_after_look_up(topic).await?,
            None => self.producers.together().await?,
        };
        let receipts = Receipts::new(report);
        self.unsettled.retain(|earlier| !earlier.is_settled());
        self.unsettled.push(Arc::clone(&receipts));
        self.send_all(&producer, &chunk, 0..chunk.len(), &receipts)
            .await;
        receipts.all_told().await;
        let suspects = receipts.take_suspects();
        if !suspects.is_empty() {
            let producer = self.producers.alone().await?;
            self.send_all(&producer, &chunk, suspects, &receipts).await;
            receipts.all_told().await;
        }
        self.denied_topic = receipts.take_denied_topic();
        receipts.result()
    }

    /// Records of puts that were given up may still be on their way.
    async fn close(&mut self) {
        for receipts in self.unsettled.drain(..) {
            receipts.all_told().await;
        }
    }
}

impl KafkaSink {
    /// Sends records until one fails the sink as a whole.
    async fn send_all(
        &mut self,
        producer: &Handle<PutReceipt>,
        records: &[SinkRecord],
        places: impl IntoIterator<Item = usize> + Send,
        receipts: &Arc<Receipts>,
    ) {
        for place in places {
            let Some(record) = records.get(place) else {
                continue;
            };
            let config = Arc::clone(&self.config);
            let topic = config.route.fill(&record.topic);
            match self.check_topic(&topic, record, producer) {
                Ok(()) => {}
                Err(TopicFlaw::Name(cause)) => {
                    receipts.reject(place, cause);
                    continue;
                }
                Err(TopicFlaw::Loop(cause)) => {
                    return receipts.fail(SinkError::Fatal(cause.into()));
                }
            }
            let encoding = match Encoding::of(record, config.key_format, config.value_format) {
                Ok(encoding) => encoding,
                Err(cause) => {
                    receipts.reject(place, cause);
                    continue;
                }
            };
            let mut outgoing: Outgoing<'_, PutReceipt> =
                BaseRecord::with_opaque_to(&topic, receipts.receipt(place));
            outgoing.partition = config.keeps_partition.then_some(record.partition.partition);
            outgoing.key = encoding.key.as_deref();
            outgoing.payload = encoding.value.as_deref();
            outgoing.timestamp = Some(timestamp(record.timestamp));
            outgoing.headers = encoding.headers;
            producer.send(outgoing).await;
            if receipts.result().is_err() {
                return;
            }
        }
    }

    fn check_topic(
        &mut self,
        topic: &str,
        record: &SinkRecord,
        producer: &Handle<PutReceipt>,
    ) -> Result<(), TopicFlaw> {
        if self.good_topics.contains(topic) {
            return Ok(());
        }
        if !is_topic(topic) {
            let id = record.id();
            return Err(TopicFlaw::Name(format!(
                "{id}: {topic:?} is no topic's name; it has up to 249 letters, digits, '.', '_' and '-'"
            )));
        }
        let reads = self.producers.config().reads.as_ref();
        if reads.is_some_and(|reads| reads.contains(topic, producer.cluster_id())) {
            return Err(TopicFlaw::Loop(format!("topic: {}", loop_message(topic))));
        }
        self.good_topics.insert(topic.to_owned());
        Ok(())
    }
}

/// Why a record does not go to its topic.
enum TopicFlaw {
    /// The record's fault.
    Name(String),
    /// The settings' fault.
    Loop(String),
}

/// None is -1, as Kafka writes it. librdkafka takes 0 for none given, in each of
/// its calls, and would write the present time, which is further off than a
/// millisecond.
const fn timestamp(timestamp: Option<i64>) -> i64 {
    match timestamp {
        None => -1,
        Some(0) => 1,
        Some(timestamp) => timestamp,
    }
}
