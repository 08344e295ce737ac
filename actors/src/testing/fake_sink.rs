//! A sink by plan: what it does with each record is a function of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::chunk::Chunk;
use crate::outcome::Cause;
use crate::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use crate::record::SinkRecord;
use crate::report::Report;

/// What to do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Deliver,
    /// Reported after that time, the others of the put before.
    DeliverAfter(Duration),
    Retry,
    Reject,
    Panic,
    /// The put ends in this error before anything is reported.
    Fail(SinkError),
}

type Plan = Arc<dyn Fn(&SinkRecord, usize) -> Act + Send + Sync>;
type FlushPlan = Arc<dyn Fn(usize, &[(i32, i64)]) -> Result<(), SinkError> + Send + Sync>;

/// What all instances have seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Partition and offset of each record, in the order of delivery.
    pub delivered: Mutex<Vec<(i32, i64)>>,
    pub puts: AtomicUsize,
    pub created: AtomicUsize,
    pub flushes: AtomicUsize,
    pub closed: AtomicUsize,
}

/// Makes fake sinks that share a plan.
#[derive(Clone)]
pub struct FakeSinkFactory {
    plan: Plan,
    flush_plan: FlushPlan,
    traits: SinkTraits,
    seen: Arc<Seen>,
}

impl FakeSinkFactory {
    /// The plan gets each record and how many puts there were before.
    pub fn new(plan: impl Fn(&SinkRecord, usize) -> Act + Send + Sync + 'static) -> Self {
        Self {
            plan: Arc::new(plan),
            flush_plan: Arc::new(|_, _| Ok(())),
            traits: SinkTraits::default(),
            seen: Arc::default(),
        }
    }

    #[must_use]
    pub fn with_traits(mut self, traits: SinkTraits) -> Self {
        self.traits = traits;
        self
    }

    /// The plan gets how many flushes there were before.
    #[must_use]
    pub fn with_flush(
        mut self,
        plan: impl Fn(usize) -> Result<(), SinkError> + Send + Sync + 'static,
    ) -> Self {
        self.flush_plan = Arc::new(move |flushes, _| plan(flushes));
        self
    }

    /// The plan gets partition and offset of each record that is flushed.
    #[must_use]
    pub fn with_flush_of(
        mut self,
        plan: impl Fn(&[(i32, i64)]) -> Result<(), SinkError> + Send + Sync + 'static,
    ) -> Self {
        self.flush_plan = Arc::new(move |_, records| plan(records));
        self
    }

    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }
}

impl SinkFactory for FakeSinkFactory {
    fn traits(&self) -> SinkTraits {
        self.traits
    }

    fn create(&self, _context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        self.seen.created.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FakeSink {
            plan: Arc::clone(&self.plan),
            flush_plan: Arc::clone(&self.flush_plan),
            buffers: self.traits.buffers,
            seen: Arc::clone(&self.seen),
            buffered: Vec::new(),
        }))
    }
}

/// See the module.
pub struct FakeSink {
    plan: Plan,
    flush_plan: FlushPlan,
    buffers: bool,
    seen: Arc<Seen>,
    buffered: Vec<(i32, i64)>,
}

impl FakeSink {
    fn deliver(&mut self, record: &SinkRecord) {
        let id = (record.partition.partition, record.offset);
        if self.buffers {
            self.buffered.push(id);
        } else {
            self.seen.delivered.lock().push(id);
        }
    }
}

#[async_trait]
impl Sink for FakeSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        let puts = self.seen.puts.fetch_add(1, Ordering::SeqCst);
        let acts: Vec<Act> = chunk
            .iter()
            .map(|record| (self.plan)(record, puts))
            .collect();
        for (place, act) in acts.iter().enumerate() {
            match act {
                Act::Fail(error) => return Err(error.clone()),
                Act::Panic => panic!("by plan at offset {}", chunk[place].offset),
                Act::Retry => report.retry(place, Cause::from("by plan")),
                Act::Reject => report.reject(place, Cause::from("by plan")),
                Act::Deliver => {
                    self.deliver(&chunk[place]);
                    if !self.buffers {
                        report.delivered(place);
                    }
                }
                Act::DeliverAfter(_) => {}
            }
        }
        for (place, act) in acts.iter().enumerate() {
            if let Act::DeliverAfter(time) = act {
                tokio::time::sleep(*time).await;
                self.deliver(&chunk[place]);
                if !self.buffers {
                    report.delivered(place);
                }
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        let flushes = self.seen.flushes.fetch_add(1, Ordering::SeqCst);
        // What a failed flush had is put again.
        let buffered = std::mem::take(&mut self.buffered);
        (self.flush_plan)(flushes, &buffered)?;
        self.seen.delivered.lock().extend(buffered);
        Ok(())
    }

    async fn close(&mut self) {
        self.seen.closed.fetch_add(1, Ordering::SeqCst);
    }
}
