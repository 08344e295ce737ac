//! Appends at `put`, makes it last at `flush`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use sluice_actors::chunk::Chunk;
use sluice_actors::ports::sink::{Sink, SinkError, SinkFactory, SinkTraits, TaskContext};
use sluice_actors::report::Report;

use crate::sinks::file::config::FileConfig;
use crate::sinks::file::writer::Writer;

/// Makes file sinks; each task has a handle of its own on the file.
pub struct FileFactory {
    config: FileConfig,
}

impl FileFactory {
    #[must_use]
    pub const fn new(config: FileConfig) -> Self {
        Self { config }
    }
}

impl SinkFactory for FileFactory {
    /// Writes and syncs may hang, on a file of a server that is away: on a
    /// thread of the task's own, which is counted when it does not come back.
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: true,
            idempotent: false,
            blocking: true,
        }
    }

    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        let path: PathBuf = self
            .config
            .path(context)
            .map_err(|message| SinkError::Fatal(message.into()))?;
        let writer = Writer::new(path, self.config.format, self.config.limits);
        Ok(Box::new(FileSink {
            context: context.clone(),
            writer: Arc::new(Mutex::new(writer)),
            rotate_every: self.config.limits.age,
            clock: None,
        }))
    }
}

struct FileSink {
    context: TaskContext,
    /// Shared with the clock, which runs on the same thread.
    writer: Arc<Mutex<Writer>>,
    rotate_every: Option<Duration>,
    /// Completes files when nothing is put.
    clock: Option<AbortOnDropHandle<()>>,
}

#[async_trait]
impl Sink for FileSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        self.writer.lock().open()?;
        self.clock = self
            .rotate_every
            .map(|every| rotate(self.context.clone(), Arc::clone(&self.writer), every));
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        self.writer.lock().put(&chunk, &report, Instant::now())
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        self.writer.lock().flush()
    }

    async fn close(&mut self) {
        drop(self.clock.take());
        if let Err(error) = self.writer.lock().close() {
            let TaskContext {
                connector, task, ..
            } = &self.context;
            tracing::warn!(connector, task, %error, "file was not closed as it should be");
        }
    }
}

/// Completes files by the wall clock, also when no records come.
fn rotate(
    context: TaskContext,
    writer: Arc<Mutex<Writer>>,
    every: Duration,
) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let TaskContext {
            connector, task, ..
        } = context;
        loop {
            let now = Instant::now();
            let next = writer.lock().rotate_when_due(now);
            let next = next.unwrap_or_else(|error| {
                tracing::warn!(connector, task, %error, "file could not be rotated");
                None
            });
            // A file begun while this sleeps is not due before it wakes.
            sleep_until(next.unwrap_or(now + every)).await;
        }
    }))
}
