//! Parked records in a topic: written with headers that say where they come
//! from, and read again by the same connector.
//!
//! They are read as a share group of their own: it begins at the topic's start
//! wherever the connector's group begins, its lag is what is parked, and what
//! waits there keeps no partition of the connector's topics back.

mod headers;
mod joined;
mod returned;

use std::sync::Arc;

use async_trait::async_trait;

use sluice_actors::outcome::Cause;
use sluice_actors::ports::parking::{ParkingLot, ToPark};
use tokio::time::Instant;

use crate::config::connector::{PARK_AFTER, ParkingConfig};
use crate::kafka::letters::LetterTopic;

pub use joined::{JoinedSource, Of, States};
pub use returned::returned;

use headers::Clock;

/// A connector's parking topic, to write to.
pub struct ParkingTopic {
    letters: LetterTopic,
    backoff: std::time::Duration,
}

impl ParkingTopic {
    #[must_use]
    pub fn new(config: &ParkingConfig) -> Self {
        Self {
            letters: LetterTopic::new(&config.topic, config.producer.clone()),
            backoff: config.backoff,
        }
    }
}

#[async_trait]
impl ParkingLot for ParkingTopic {
    async fn park(&self, record: &ToPark) -> Result<(), Cause> {
        let due = Instant::now() + self.backoff;
        let headers = headers::of(record, due, Clock::now());
        let original = Arc::clone(&record.original);
        let written = self.letters.write(Some(&original), Some(headers)).await;
        written.map_err(|cause| {
            let topic = self.letters.name();
            format!("{PARK_AFTER}: records cannot be parked in {topic}: {cause}").into()
        })
    }
}
