//! Takes records and forgets them, unless a rule says otherwise.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use sluice_actors::chunk::Chunk;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;

use crate::sinks::null::config::{Action, NullConfig};

/// Makes null sinks that share their rules: what a record did to one task, it
/// did to the connector.
pub struct NullFactory {
    shared: Arc<Shared>,
}

struct Shared {
    config: NullConfig,
    /// Set when nothing is to be done for any put.
    free: bool,
    /// When the outage ends, if there was one.
    outage_end: Mutex<Option<Instant>>,
}

impl NullFactory {
    #[must_use]
    pub fn new(config: NullConfig) -> Self {
        let free = config.rules.is_empty() && config.put_latency(1).is_zero();
        Self {
            shared: Arc::new(Shared {
                config,
                free,
                outage_end: Mutex::new(None),
            }),
        }
    }
}

impl SinkFactory for NullFactory {
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: false,
            idempotent: true,
            blocking: self.shared.config.blocks(),
        }
    }

    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(NullSink {
            shared: Arc::clone(&self.shared),
            context: context.clone(),
            puts: 0,
            records: 0,
        }))
    }
}

struct NullSink {
    shared: Arc<Shared>,
    context: TaskContext,
    puts: u64,
    records: u64,
}

#[async_trait]
impl Sink for NullSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        self.puts += 1;
        self.records += chunk.len() as u64;
        if self.shared.free {
            return Ok(());
        }
        let slow = self.shared.apply_rules(&chunk, &report)?;
        pause(self.shared.config.put_latency(chunk.len())).await;
        if let Some(slow) = slow {
            slow.report_others(chunk.len(), &report);
            pause(slow.lasts).await;
        }
        Ok(())
    }

    async fn close(&mut self) {
        tracing::info!(
            connector = self.context.connector,
            task = self.context.task,
            puts = self.puts,
            records = self.records,
            "null sink closed"
        );
    }
}

/// The slow records of a put, which the others do not wait for.
struct Slow {
    places: Vec<usize>,
    lasts: Duration,
}

impl Slow {
    fn report_others(&self, records: usize, report: &Report) {
        (0..records)
            .filter(|place| self.places.binary_search(place).is_err())
            .for_each(|place| report.delivered(place));
    }
}

impl Shared {
    /// Does what the rules say, and tells which records are slow.
    fn apply_rules(&self, chunk: &Chunk, report: &Report) -> Result<Option<Slow>, SinkError> {
        self.check_outage()?;
        let mut slow: Option<Slow> = None;
        for (place, record) in chunk.iter().enumerate() {
            match self.action(record) {
                None => {}
                Some(Action::Panic) => panic!("{} matches panic.match", record.id()),
                Some(Action::Fatal) => return Err(SinkError::Fatal(cause(record, "fatal"))),
                Some(Action::Outage(lasts)) => {
                    *self.outage_end.lock() = Some(Instant::now() + lasts);
                    return Err(SinkError::Unavailable(cause(record, "unavailable")));
                }
                Some(Action::Reject) => report.reject(place, cause(record, "reject")),
                Some(Action::Retry) => report.retry(place, cause(record, "retry")),
                Some(Action::Block(lasts)) => block_thread(lasts),
                Some(Action::Slow(lasts)) => slow
                    .get_or_insert(Slow {
                        places: Vec::new(),
                        lasts,
                    })
                    .places
                    .push(place),
            }
        }
        Ok(slow)
    }

    fn check_outage(&self) -> Result<(), SinkError> {
        match *self.outage_end.lock() {
            Some(end) if Instant::now() < end => Err(SinkError::Unavailable(
                "an outage began by unavailable.match".into(),
            )),
            _ => Ok(()),
        }
    }

    fn action(&self, record: &SinkRecord) -> Option<Action> {
        self.config
            .rules
            .iter()
            .find(|(_, rule)| rule.applies(record))
            .map(|(action, _)| *action)
    }
}

fn cause(record: &SinkRecord, rule: &str) -> Arc<str> {
    format!("{} matches {rule}.match", record.id()).into()
}

/// A timer of no length would still wait for the next tick.
async fn pause(lasts: Duration) {
    if !lasts.is_zero() {
        sleep(lasts).await;
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "a sink that blocks its thread is what the rule asks for"
)]
fn block_thread(lasts: Duration) {
    std::thread::sleep(lasts);
}
