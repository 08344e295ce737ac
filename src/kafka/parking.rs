//! Parked records in a topic: written with headers that say where they come
//! from, and read again by the same connector.
//!
//! They are read as a share group of their own: it begins at the topic's start
//! wherever the connector's group begins, its lag is what is parked, and what
//! waits there keeps no partition of the connector's topics back.

mod headers;
mod joined;
mod returned;

use std::time::Duration;

use async_trait::async_trait;
use rdkafka::message::OwnedHeaders;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::parking::{ParkingLot, ToPark};
use tokio::time::Instant;

use crate::config::connector::{PARK_AFTER, ParkingConfig};
use crate::kafka::letters::{Letter, LetterTopic};

pub use joined::{JoinedSource, Of, States};
pub use returned::returned;

use headers::Clock;

/// A connector's parking topic, to write to.
pub struct ParkingTopic {
    letters: LetterTopic,
    group: String,
    backoff: Duration,
}

impl ParkingTopic {
    #[must_use]
    pub fn new(config: &ParkingConfig) -> Self {
        Self {
            letters: LetterTopic::new(&config.topic, config.producer.clone()),
            group: config.group.clone(),
            backoff: config.backoff,
        }
    }
}

#[async_trait]
impl ParkingLot for ParkingTopic {
    async fn park(&self, record: &ToPark) -> Result<(), Cause> {
        let due = Instant::now() + self.backoff;
        let headers = headers::of(record, &self.group, due, Clock::now());
        let written = self.letters.write(written(record, headers)).await;
        written.map_err(|cause| {
            let topic = self.letters.name();
            format!("{PARK_AFTER}: records cannot be parked in {topic}: {cause}").into()
        })
    }
}

/// With the time at which it is written, as its own is in the headers: brokers
/// refuse one that lies ahead, and delete what looks old.
fn written(record: &ToPark, headers: OwnedHeaders) -> Letter<'_> {
    Letter::of(&record.original, Some(headers))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_actors::record::{RawRecord, RecordId};
    use sluice_actors::testing::{partition, raw_record};

    use super::*;

    #[test]
    fn no_broker_judges_a_parked_record_by_its_own_timestamp() {
        let original = RawRecord {
            timestamp: Some(4_000_000_000_000),
            key: Some("k".into()),
            ..raw_record(1)
        };
        let record = ToPark {
            record: RecordId {
                partition: partition("orders", 0),
                offset: 1,
            },
            original: Arc::new(original),
            count: 1,
            since: Instant::now(),
        };
        let letter = written(&record, OwnedHeaders::new());
        assert_eq!(letter.timestamp, None);
        assert_eq!(letter.key, Some(&b"k"[..]));
        assert_eq!(letter.value, record.original.value.as_deref());
    }
}
