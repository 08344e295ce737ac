//! What spans say: OpenTelemetry's names for messaging, and ours.
//!
//! Never what a record contains.

use std::sync::Arc;

use opentelemetry::{Key, KeyValue, Value};
use sluice_actors::life::{Choice, Event, FinishedLife};
use sluice_actors::outcome::Cause;
use sluice_actors::record::RecordId;

use super::TracedConnector;

pub(super) const OPERATION_NAME: &str = "messaging.operation.name";
pub(super) const OPERATION_TYPE: &str = "messaging.operation.type";
pub(super) const BATCH_COUNT: &str = "messaging.batch.message_count";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const CAUSE: &str = "sluice.cause";
pub(super) const TASK: &str = "sluice.task";
pub(super) const OUTCOME: &str = "sluice.outcome";

/// Strings as they are needed: shared, or static.
pub(super) fn text(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(Key::from_static_str(key), value)
}

/// Of every span of a connector.
#[derive(Debug)]
pub(super) struct Common {
    attributes: Vec<KeyValue>,
    includes_messages: bool,
}

impl Common {
    pub(super) fn of(it: &TracedConnector) -> Self {
        let of = |key, value: &str| text(key, Value::from(Arc::<str>::from(value)));
        let attributes = vec![
            text("messaging.system", "kafka"),
            of("messaging.consumer.group.name", &it.group),
            of("messaging.client.id", &it.client_id),
            of("sluice.connector", &it.connector),
            of("sluice.worker", &it.worker),
            of("sluice.member", &it.member),
        ];
        Self {
            attributes,
            includes_messages: it.includes_messages,
        }
    }

    /// What may be told of a cause: as much as in the log.
    pub(super) fn words(&self, cause: &Cause) -> String {
        match self.includes_messages {
            true => cause.whole().to_owned(),
            false => cause.to_string(),
        }
    }

    pub(super) fn with(&self, others: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
        let mut all = self.attributes.clone();
        all.extend(others);
        all
    }

    /// What a delivery's own span says of its record.
    pub(super) fn of_life(&self, finished: &FinishedLife) -> Vec<KeyValue> {
        let life = &*finished.life;
        let mut all = self.with([
            text(OPERATION_NAME, "process"),
            text(OPERATION_TYPE, "process"),
            text("sluice.delivery_count", i64::from(life.delivery_count)),
            text("sluice.chosen", choice(life.choice)),
            text(OUTCOME, finished.outcome()),
        ]);
        all.extend(place(
            &life.origin,
            [
                "messaging.destination.name",
                "messaging.destination.partition.id",
                "messaging.kafka.offset",
            ],
        ));
        if life.place != life.origin {
            all.extend(place(
                &life.place,
                [
                    "sluice.parked.topic",
                    "sluice.parked.partition",
                    "sluice.parked.offset",
                ],
            ));
        }
        if finished.left_out > 0 {
            all.push(text("sluice.steps_left_out", finished.left_out as i64));
        }
        all
    }

    /// What became of a put, or of a conversion, as its last event tells.
    pub(super) fn verdict(&self, event: &Event) -> Vec<KeyValue> {
        let mut all = vec![text(OUTCOME, event.name())];
        if let Some(cause) = event.cause() {
            all.push(text(ERROR_TYPE, event.name()));
            all.push(text(CAUSE, self.words(cause)));
        }
        if let Event::Rejected(rejection) = event {
            all.push(text("sluice.stage", rejection.stage.name()));
        }
        all
    }
}

fn place(record: &RecordId, [topic, partition, offset]: [&'static str; 3]) -> [KeyValue; 3] {
    let of = &record.partition;
    [
        text(topic, Arc::clone(&of.topic)),
        text(partition, of.partition.to_string()),
        text(offset, record.offset),
    ]
}

const fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Sampled => "sampled",
        Choice::Redelivered => "redelivered",
        Choice::Failed => "failed",
        Choice::Slow => "slow",
    }
}
