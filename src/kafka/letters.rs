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

/// What is written of a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Letter<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    /// Milliseconds since the epoch; `None` for the time at which it is written.
    pub(super) timestamp: Option<i64>,
    pub(super) headers: Option<OwnedHeaders>,
}

impl<'a> Letter<'a> {
    /// Of a record with its own key and value, as they were.
    pub(super) fn of(original: &'a RawRecord, headers: Option<OwnedHeaders>) -> Self {
        Self {
            key: original.key.as_deref(),
            value: original.value.as_deref(),
            timestamp: None,
            headers,
        }
    }
}

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
            producers: Producers::new(producer.creating_no_topics()),
            is_doubtful: Mutex::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.topic
    }

    pub(super) async fn write(&self, letter: Letter<'_>) -> Result<(), Cause> {
        let written = self.try_write(letter).await;
        if written.is_err() {
            *self.is_doubtful.lock().await = true;
        }
        written
    }

    async fn try_write(&self, letter: Letter<'_>) -> Result<(), Cause> {
        let producer = self.producer().await.map_err(cause)?;
        match self.send(&producer, letter.clone()).await {
            Fate::Written => Ok(()),
            Fate::Failed(cause) => Err(cause),
            // Another letter of its batch may be the one to blame.
            Fate::Suspect => {
                let producer = self.producers.alone().await.map_err(cause)?;
                match self.send(&producer, letter).await {
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

    async fn send(&self, producer: &Handle<LetterReceipt>, letter: Letter<'_>) -> Fate {
        let (receipt, fate) = LetterReceipt::new();
        let mut outgoing: Outgoing<'_, LetterReceipt> =
            BaseRecord::with_opaque_to(&self.topic, Box::new(receipt));
        outgoing.key = letter.key;
        outgoing.payload = letter.value;
        outgoing.timestamp = timestamp(letter.timestamp);
        outgoing.headers = letter.headers;
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

/// librdkafka takes 0 for none given.
const fn timestamp(timestamp: Option<i64>) -> Option<i64> {
    match timestamp {
        Some(0) => Some(1),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::connector::tests::good;

    use super::*;

    #[test]
    fn a_topic_that_was_deleted_is_not_made_anew_by_a_letter_to_it() {
        let topic = LetterTopic::new("dlq", good(&[]).producer);
        let config = topic.producers.config().librdkafka();
        assert_eq!(config.get("allow.auto.create.topics"), Some("false"));
        config.create_native_config().unwrap();
    }
}
