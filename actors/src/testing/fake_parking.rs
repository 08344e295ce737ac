//! A parking topic in memory, beside the source of a connector's own topics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{FakeSource, partition};
use crate::credit::Credit;
use crate::outcome::Cause;
use crate::ports::parking::{ParkingLot, ToPark};
use crate::ports::source::{SettleRange, Source, SourceClosed, SourceEvent, SourceEvents};
use crate::record::{Parked, RawRecord, RecordId};
use crate::supervisor::Parking;

const TOPIC: &str = "parked";
const EVENTS: usize = 64;

/// A record, and what it says when it comes back.
type Kept = (ToPark, Arc<Parked>);

/// See the module. Clones are the same topic.
#[derive(Clone)]
pub struct FakeParking {
    source: FakeSource,
    credit: Arc<Credit>,
    kept: Arc<Mutex<Vec<Kept>>>,
    backoff: Duration,
    is_away: Arc<AtomicBool>,
}

impl FakeParking {
    /// An empty topic beside a source; returns both as one, with their events.
    #[must_use]
    pub fn beside(
        own: FakeSource,
        events: SourceEvents,
        backoff: Duration,
        lock: Duration,
    ) -> (Self, Arc<dyn Source>, SourceEvents) {
        let credit = Credit::new(1 << 20);
        let (source, parked_events) = FakeSource::start_of(TOPIC, &credit, &[0], lock);
        let parking = Self {
            source: source.clone(),
            credit,
            kept: Arc::default(),
            backoff,
            is_away: Arc::default(),
        };
        let (sender, joined) = mpsc::channel(EVENTS);
        tokio::spawn(pass_on(events, sender.clone(), Some));
        let returned = parking.clone();
        tokio::spawn(pass_on(parked_events, sender, move |event| {
            returned.returned(event)
        }));
        (
            parking,
            Arc::new(Joined {
                own,
                parked: source,
            }),
            joined,
        )
    }

    /// Nothing can be written until it is back.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// What the pipeline needs of it.
    #[must_use]
    pub fn spec(&self) -> Parking {
        Parking {
            topic: TOPIC.into(),
            lot: Arc::new(self.clone()),
            credit: Arc::clone(&self.credit),
        }
    }

    /// The topic as a source.
    #[must_use]
    pub const fn source(&self) -> &FakeSource {
        &self.source
    }

    /// All that was ever written, in its order.
    #[must_use]
    pub fn kept(&self) -> Vec<ToPark> {
        let kept = self.kept.lock();
        kept.iter().map(|(record, _)| record.clone()).collect()
    }

    /// As the adapter of a real topic does it.
    fn returned(&self, mut event: SourceEvent) -> Option<SourceEvent> {
        match &mut event {
            SourceEvent::Ready => return None,
            SourceEvent::Acquired(batches) => {
                for raw in batches.iter_mut().flat_map(|batch| &mut batch.records) {
                    let (record, parked) = self.kept.lock()[raw.offset as usize].clone();
                    *raw = RawRecord {
                        offset: raw.offset,
                        delivery_count: raw.delivery_count,
                        parked: Some(parked),
                        ..(*record.original).clone()
                    };
                }
            }
            _ => {}
        }
        Some(event)
    }
}

#[async_trait]
impl ParkingLot for FakeParking {
    async fn park(&self, record: &ToPark) -> Result<(), Cause> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err("away by plan".into());
        }
        let mut kept = self.kept.lock();
        let parked = Parked {
            origin: record.record.clone(),
            place: RecordId {
                partition: partition(TOPIC, 0),
                offset: kept.len() as i64,
            },
            count: record.count,
            since: record.since,
            due: Instant::now() + self.backoff,
        };
        kept.push((record.clone(), Arc::new(parked)));
        self.source.append(0, b"");
        Ok(())
    }
}

struct Joined {
    own: FakeSource,
    parked: FakeSource,
}

impl Source for Joined {
    fn settle(&self, ranges: Vec<SettleRange>) {
        let is_parked = |range: &SettleRange| &*range.partition.topic == TOPIC;
        let (parked, own) = ranges.into_iter().partition(is_parked);
        self.own.settle(own);
        self.parked.settle(parked);
    }

    fn close(&self, deadline: Duration) -> BoxFuture<'static, SourceClosed> {
        let parked = self.parked.close(deadline);
        self.own.close(deadline).then(|_| parked).boxed()
    }
}

async fn pass_on(
    mut events: SourceEvents,
    to: mpsc::Sender<SourceEvent>,
    tell: impl Fn(SourceEvent) -> Option<SourceEvent>,
) {
    while let Some(event) = events.recv().await {
        if let Some(event) = tell(event)
            && to.send(event).await.is_err()
        {
            return;
        }
    }
}
