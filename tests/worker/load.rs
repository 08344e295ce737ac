//! Records that keep coming while workers come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Result;
use sluice_test_support::produce::{NewRecord, json_records, produce_with};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stage::Stage;

/// Records go out in steps of so many.
const STEP: usize = 20;

/// A producer of `id-000000`, `id-000001`, ... at a steady rate.
pub struct Load {
    stop: Sender<()>,
    sent: Arc<AtomicUsize>,
    producer: JoinHandle<Result<usize>>,
}

impl Load {
    /// Produces so many records a second over all partitions of the topic.
    pub fn start(stage: &Stage, partitions: i32, per_second: usize) -> Self {
        let records = json_records(usize::MAX, partitions, 100);
        let servers = stage.kafka.bootstrap_servers();
        Self::of(servers, &stage.name, records, per_second, &[])
    }

    /// Produces these records, until they end or it is stopped.
    pub fn of(
        servers: &str,
        topic: &str,
        records: impl Iterator<Item = NewRecord> + Send + 'static,
        per_second: usize,
        properties: &'static [(&'static str, &'static str)],
    ) -> Self {
        let (stop, stopped) = channel();
        let sent = Arc::new(AtomicUsize::new(0));
        let pace = Pace {
            stopped,
            began: Instant::now(),
            step: Duration::from_secs(1) * STEP as u32 / per_second as u32,
            sent: Arc::clone(&sent),
        };
        let records = records.take_while(move |_| pace.go_on());
        let (servers, topic) = (servers.to_owned(), topic.to_owned());
        let producer =
            tokio::spawn(async move { produce_with(&servers, &topic, records, properties).await });
        Self {
            stop,
            sent,
            producer,
        }
    }

    /// How many records were handed to the producer so far.
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Acquire)
    }

    /// Ends it, and tells how many records the broker confirmed: all of them.
    pub async fn stop(self) -> Result<usize> {
        drop(self.stop);
        self.producer.await?
    }
}

struct Pace {
    stopped: Receiver<()>,
    began: Instant,
    step: Duration,
    sent: Arc<AtomicUsize>,
}

impl Pace {
    /// Waits until the next record is due; false when it is over.
    fn go_on(&self) -> bool {
        let sent = self.sent.fetch_add(1, Ordering::AcqRel);
        if !sent.is_multiple_of(STEP) {
            return true;
        }
        let due = self.began + self.step * (sent / STEP) as u32;
        let wait = due.saturating_duration_since(Instant::now());
        let goes_on = self.stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
        if !goes_on {
            self.sent.fetch_sub(1, Ordering::AcqRel);
        }
        goes_on
    }
}
