//! Takes records and forgets them, unless a rule says otherwise.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use sluice_actors::chunk::Chunk;
use sluice_actors::outcome::Cause;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::record::SinkRecord;
use sluice_actors::report::Report;

use crate::sinks::null::config::{Action, NullConfig};
use crate::sinks::null::record_file::RecordFile;

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
        let free = config.rules.is_empty()
            && config.put_latency(1).is_zero()
            && config.record_file.is_none();
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
            record_file: None,
            puts: 0,
            records: 0,
            busy: Duration::ZERO,
        }))
    }
}

struct NullSink {
    shared: Arc<Shared>,
    context: TaskContext,
    record_file: Option<RecordFile>,
    puts: u64,
    records: u64,
    /// In puts, as far as they came to their end.
    busy: Duration,
}

#[async_trait]
impl Sink for NullSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        let path = self.shared.config.record_file.as_deref();
        self.record_file = path.map(RecordFile::open).transpose()?;
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        self.puts += 1;
        self.records += chunk.len() as u64;
        if self.shared.free {
            return Ok(());
        }
        let begin = Instant::now();
        let parts = self.shared.apply_rules(&chunk, &report)?;
        pause(self.shared.config.put_latency(chunk.len())).await;
        self.record(&chunk, &parts.prompt)?;
        if !parts.slow.is_empty() {
            parts
                .prompt
                .iter()
                .for_each(|place| report.delivered(*place));
            pause(parts.lasts).await;
            self.record(&chunk, &parts.slow)?;
        }
        self.busy += begin.elapsed();
        Ok(())
    }

    async fn close(&mut self) {
        tracing::info!(
            connector = self.context.connector,
            task = self.context.task,
            puts = self.puts,
            records = self.records,
            busy_ms = u64::try_from(self.busy.as_millis()).unwrap_or(u64::MAX),
            "null sink closed"
        );
    }
}

impl NullSink {
    fn record(&mut self, chunk: &Chunk, places: &[usize]) -> Result<(), SinkError> {
        let records = places.iter().filter_map(|place| chunk.get(*place));
        match &mut self.record_file {
            Some(file) => file.append(records),
            None => Ok(()),
        }
    }
}

/// The places of a put's good records: the prompt do not wait for the slow.
#[derive(Default)]
struct Parts {
    prompt: Vec<usize>,
    slow: Vec<usize>,
    /// How much longer the slow ones take.
    lasts: Duration,
}

impl Shared {
    /// Does what the rules say, and tells which records are good.
    fn apply_rules(&self, chunk: &Chunk, report: &Report) -> Result<Parts, SinkError> {
        self.check_outage()?;
        let mut parts = Parts::default();
        for (place, record) in chunk.iter().enumerate() {
            match self.action(record) {
                None => parts.prompt.push(place),
                Some(Action::Panic) => panic!("{} matches panic.match", record.id()),
                Some(Action::Fatal) => return Err(SinkError::Fatal(cause(record, "fatal"))),
                Some(Action::Outage(lasts)) => {
                    *self.outage_end.lock() = Some(Instant::now() + lasts);
                    return Err(SinkError::Unavailable(cause(record, "unavailable")));
                }
                Some(Action::Reject) => report.reject(place, cause(record, "reject")),
                Some(Action::Retry) => report.retry(place, cause(record, "retry")),
                Some(Action::Block(lasts)) => {
                    block_thread(lasts);
                    parts.prompt.push(place);
                }
                Some(Action::Slow(lasts)) => {
                    parts.lasts = lasts;
                    parts.slow.push(place);
                }
            }
        }
        Ok(parts)
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

fn cause(record: &SinkRecord, rule: &str) -> Cause {
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
