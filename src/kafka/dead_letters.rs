//! Dead letters in a topic: the record as it lay in the log, and headers that
//! say why it is there. Producer and headers are what Kafka Connect's are.

mod headers;
mod receipt;

use std::sync::Arc;

use async_trait::async_trait;
use rdkafka::producer::BaseRecord;
use tokio::sync::Mutex;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::dead_letter::{DeadLetter, DeadLetterQueue};
use sluice_actors::ports::sink::SinkError;

use crate::config::connector::{DEAD_LETTER_TOPIC, WrittenDeadLetters};
use crate::kafka::producer::{Handle, Outgoing, Producers};

pub use headers::Context;
use receipt::{Fate, LetterReceipt};

/// A connector's topic of dead letters.
pub struct DeadLetterTopic {
    topic: String,
    /// `None`: letters have the record's own headers only.
    context: Option<Context>,
    producers: Producers<LetterReceipt>,
    /// The last letter failed, so that the topic is to be looked up: what the
    /// producer believes of it may be old.
    is_doubtful: Mutex<bool>,
}

impl DeadLetterTopic {
    #[must_use]
    pub fn new(config: &WrittenDeadLetters, context: Context) -> Self {
        Self {
            topic: config.topic.clone(),
            context: config.context_headers.then_some(context),
            producers: Producers::new(config.producer.clone()),
            is_doubtful: Mutex::new(false),
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

    async fn try_write(&self, letter: &DeadLetter) -> Result<(), Cause> {
        let producer = self.producer().await.map_err(cause)?;
        match self.send(&producer, letter).await {
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

    async fn send(&self, producer: &Handle<LetterReceipt>, letter: &DeadLetter) -> Fate {
        let (receipt, fate) = LetterReceipt::new();
        let mut outgoing: Outgoing<'_, LetterReceipt> =
            BaseRecord::with_opaque_to(&self.topic, Box::new(receipt));
        if let Some(original) = letter.original.as_deref() {
            outgoing.key = original.key.as_deref();
            outgoing.payload = original.value.as_deref();
            outgoing.timestamp = timestamp(original.timestamp);
        }
        outgoing.headers = headers::of(letter, self.context.as_ref());
        producer.send(outgoing).await;
        fate.await
    }
}

#[async_trait]
impl DeadLetterQueue for DeadLetterTopic {
    async fn write(&self, letter: &DeadLetter) -> Result<(), Cause> {
        let written = self.try_write(letter).await;
        if written.is_err() {
            *self.is_doubtful.lock().await = true;
        }
        written.map_err(|cause| {
            let topic = &self.topic;
            format!("{DEAD_LETTER_TOPIC}: dead letters cannot be written to {topic}: {cause}")
                .into()
        })
    }
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
