//! Where records go.

use std::time::Duration;

use async_trait::async_trait;

use crate::chunk::Chunk;
use crate::outcome::Cause;
use crate::report::Report;

/// What kind of sink this is. The same for all instances of a connector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkTraits {
    /// `put` only buffers; `flush` makes it last. Records are settled after
    /// the flush.
    pub buffers: bool,
    /// The same record twice does no harm.
    pub idempotent: bool,
    /// `put` may block its thread; it gets one of its own. Without it no call
    /// may keep its thread for 60 s: it would be taken for a hang, and handled
    /// as a panic.
    pub blocking: bool,
}

/// Why a sink could not do as it was told. Causes, here and in a report, never
/// quote a record; what somebody else said, who has seen it, goes into
/// [`Cause::quoting`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// Transient trouble with these records; the same put may work later.
    #[error("{0}")]
    Retry(Cause),
    /// The sink as a whole cannot take records now (refused, overloaded,
    /// credentials). No record is to blame.
    #[error("sink unavailable: {0}")]
    Unavailable(Cause),
    /// The same, and it is known for how long: the task leaves it alone so
    /// long, whatever its own back-off would be.
    #[error("sink unavailable for {1:?}: {0}")]
    UnavailableFor(Cause, Duration),
    /// Some record of this chunk can never be delivered, and the sink cannot
    /// tell which. The chunk is split until it is found, and so is what a flush
    /// covered.
    #[error("{0}")]
    RejectedOne(Cause),
    /// This instance is of no use any more; the connector must be mended.
    #[error("{0}")]
    Fatal(Cause),
}

/// One instance of a sink, owned by one task.
///
/// Calls come one at a time, `open` first and `close` last. A call may be
/// dropped at any await when it takes too long or the worker stops: the
/// instance is then closed or thrown away, and what it reports afterwards is
/// ignored. The same record may come again, also to another instance while an
/// abandoned put is still under way.
#[async_trait]
pub trait Sink: Send {
    /// Gets ready. Tried again with a back-off unless it is `Fatal`.
    async fn open(&mut self) -> Result<(), SinkError>;

    /// Delivers a chunk. Outcomes may be reported one by one, from anywhere,
    /// while it runs; each is settled at once. When it returns `Ok`, records
    /// without an outcome are delivered (buffered, for a sink that buffers);
    /// when it returns an error, the error is theirs. Never called with an
    /// empty chunk.
    async fn put(&mut self, chunk: Chunk, report: Report) -> Result<(), SinkError>;

    /// Makes all buffered records last. On an error none of them counts as
    /// delivered, and they are put again.
    async fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Lets go of what it holds; buffered records were flushed before, or are
    /// delivered again.
    async fn close(&mut self) {}
}

/// Which instance is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskContext {
    pub connector: String,
    pub task: u32,
    pub worker: String,
}

/// Makes the instances of a connector's sink.
pub trait SinkFactory: Send + Sync + 'static {
    fn traits(&self) -> SinkTraits;
    /// Called for each task, and again when a task is replaced.
    fn create(&self, context: &TaskContext) -> Result<Box<dyn Sink>, SinkError>;
}
