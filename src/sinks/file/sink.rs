//! Appends at `put`, makes it last at `flush`.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
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
    /// Not blocking: encoding, writes and syncs run on tokio's blocking
    /// threads.
    fn traits(&self) -> SinkTraits {
        SinkTraits {
            buffers: true,
            idempotent: false,
            blocking: false,
        }
    }

    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError> {
        let path: PathBuf = self
            .config
            .path(context)
            .map_err(|message| SinkError::Fatal(message.into()))?;
        let writer = Writer::new(path, self.config.format, self.config.limits);
        Ok(Box::new(FileSink {
            writer: Arc::new(Mutex::new(writer)),
            rotate_every: self.config.limits.age,
            clock: None,
        }))
    }
}

struct FileSink {
    /// Locked on blocking threads only. A put that was dropped may still hold
    /// it.
    writer: Arc<Mutex<Writer>>,
    rotate_every: Option<Duration>,
    /// Completes files when nothing is put.
    clock: Option<AbortOnDropHandle<()>>,
}

#[async_trait]
impl Sink for FileSink {
    async fn open(&mut self) -> Result<(), SinkError> {
        with(&self.writer, Writer::open).await?;
        self.clock = self
            .rotate_every
            .map(|every| rotate(Arc::clone(&self.writer), every));
        Ok(())
    }

    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError> {
        let now = Instant::now();
        with(&self.writer, move |writer| writer.put(&chunk, &report, now)).await
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        with(&self.writer, Writer::flush).await
    }

    async fn close(&mut self) {
        drop(self.clock.take());
        if let Err(error) = with(&self.writer, Writer::close).await {
            tracing::warn!(%error, "file was not closed as it should be");
        }
    }
}

/// Works with the writer where it may block.
async fn with<T: Send + 'static>(
    writer: &Arc<Mutex<Writer>>,
    work: impl FnOnce(&mut Writer) -> Result<T, SinkError> + Send + 'static,
) -> Result<T, SinkError> {
    let writer = Arc::clone(writer);
    let done = spawn_blocking(move || work(&mut writer.lock())).await;
    done.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => Err(SinkError::Retry("the worker is stopping".into())),
    })
}

/// Completes files by the wall clock, also when no records come.
fn rotate(writer: Arc<Mutex<Writer>>, every: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            let now = Instant::now();
            let next = with(&writer, move |writer| writer.rotate_when_due(now)).await;
            let next = next.unwrap_or_else(|error| {
                tracing::warn!(%error, "file could not be rotated");
                None
            });
            // A file begun while this sleeps is not due before it wakes.
            sleep_until(next.unwrap_or(now + every)).await;
        }
    }))
}
