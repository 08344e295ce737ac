//! Dead letters in a topic: the record as it lay in the log, and headers that
//! say why it is there. Producer and headers are what Kafka Connect's are.

mod headers;

use async_trait::async_trait;
use rdkafka::message::OwnedHeaders;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::dead_letter::{DeadLetter, DeadLetterQueue};

use crate::config::connector::{DEAD_LETTER_TOPIC, WrittenDeadLetters};
use crate::kafka::letters::{Letter, LetterTopic};

pub use headers::Context;

/// A connector's topic of dead letters.
pub struct DeadLetterTopic {
    letters: LetterTopic,
    /// `None`: letters have the record's own headers only.
    context: Option<Context>,
}

impl DeadLetterTopic {
    #[must_use]
    pub fn new(config: &WrittenDeadLetters, context: Context) -> Self {
        Self {
            letters: LetterTopic::new(&config.topic, config.producer.clone()),
            context: config.context_headers.then_some(context),
        }
    }
}

#[async_trait]
impl DeadLetterQueue for DeadLetterTopic {
    async fn write(&self, letter: &DeadLetter) -> Result<(), Cause> {
        let headers = headers::of(letter, self.context.as_ref());
        let written = self.letters.write(written(letter, headers)).await;
        written.map_err(|cause| {
            let topic = self.letters.name();
            format!("{DEAD_LETTER_TOPIC}: dead letters cannot be written to {topic}: {cause}")
                .into()
        })
    }
}

/// With the record's own timestamp, as in Connect.
fn written(letter: &DeadLetter, headers: Option<OwnedHeaders>) -> Letter<'_> {
    match letter.original.as_deref() {
        Some(original) => Letter {
            timestamp: original.timestamp,
            ..Letter::of(original, headers)
        },
        None => Letter {
            headers,
            ..Letter::default()
        },
    }
}
