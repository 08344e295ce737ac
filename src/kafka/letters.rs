//! A topic that records are written to before they are accepted where they
//! were: dead letters, and parked records.

mod receipt;

use std::sync::Arc;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use tokio::sync::Mutex;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::SinkError;
use sluice_actors::record::{RawHeader, RawRecord};

use crate::config::producer::ProducerConfig;
use crate::kafka::producer::{Handle, Outgoing, Producers};

use receipt::{Fate, LetterReceipt};

/// See the module.
pub(super) struct LetterTopic {
    topic: String,
    producers: Producers<LetterReceipt>,
    /// The last letter failed, so that the topic is to be looked up: what the
    /// producer believes of it may be old.
    is_doubtful: Mutex<bool>,
}

impl LetterTopic {
    pub(super) fn new(topic: &str, producer: ProducerConfig) -> Self {
        Self {
            topic: topic.to_owned(),
            producers: Producers::new(producer),
            is_doubtful: Mutex::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.topic
    }

    /// Writes key and value as they were, with these headers.
    pub(super) async fn write(
        &self,
        original: Option<&RawRecord>,
        headers: Option<OwnedHeaders>,
    ) -> Result<(), Cause> {
        let written = self.try_write(original, headers).await;
        if written.is_err() {
            *self.is_doubtful.lock().await = true;
        }
        written
    }

    async fn try_write(
        &self,
        original: Option<&RawRecord>,
        headers: Option<OwnedHeaders>,
    ) -> Result<(), Cause> {
        let producer = self.producer().await.map_err(cause)?;
        match self.send(&producer, original, headers.clone()).await {
            Fate::Written => Ok(()),
            Fate::Failed(cause) => Err(cause),
            // Another letter of its batch may be the one to blame.
            Fate::Suspect => {
                let producer = self.producers.alone().await.map_err(cause)?;
                match self.send(&producer, original, headers).await {
                    Fate::Written => Ok(()),
                    Fate::Failed(cause) => Err(cause),
                    Fate::Suspect => Err("refused by the broker".into()),
                }
            }
        }
    }

    async fn producer(&self) -> Result<Arc<Handle<LetterReceipt>>, SinkError> {
        let mut is_doubtful = self.is_doubtful.lock().await;
        if !std::mem::take(&mut *is_doubtful) {
            return self.producers.together().await;
        }
        let topic = self.topic.clone();
        self.producers.together_after_look_up(topic).await
    }

    async fn send(
        &self,
        producer: &Handle<LetterReceipt>,
        original: Option<&RawRecord>,
        headers: Option<OwnedHeaders>,
    ) -> Fate {
        let (receipt, fate) = LetterReceipt::new();
        let mut outgoing: Outgoing<'_, LetterReceipt> =
            BaseRecord::with_opaque_to(&self.topic, Box::new(receipt));
        if let Some(original) = original {
            outgoing.key = original.key.as_deref();
            outgoing.payload = original.value.as_deref();
            outgoing.timestamp = timestamp(original.timestamp);
        }
        outgoing.headers = headers;
        producer.send(outgoing).await;
        fate.await
    }
}

/// A record's headers: their order, repeats and nulls are kept.
pub(super) fn own_headers(own: &[RawHeader]) -> OwnedHeaders {
    own.iter().fold(OwnedHeaders::new(), |headers, header| {
        // Kafka's header keys are text by its own rule, the client's always.
        let key = String::from_utf8_lossy(&header.key);
        headers.insert(Header {
            key: &key,
            value: header.value.as_deref(),
        })
    })
}

/// In the words that the status shows.
fn cause(error: SinkError) -> Cause {
    match error {
        SinkError::Retry(cause)
        | SinkError::Unavailable(cause)
        | SinkError::UnavailableFor(cause, _)
        | SinkError::RejectedOne(cause)
        | SinkError::Fatal(cause) => cause,
    }
}

/// The record's own; librdkafka takes 0 for none given. Without one the letter
/// bears the time at which it is written, as in Connect.
const fn timestamp(timestamp: Option<i64>) -> Option<i64> {
    match timestamp {
        Some(0) => Some(1),
        other => other,
    }
}
