//! Where a sink instance lives: with its task, or, when it may block, on a
//! thread of its own. Panics are caught either way.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};

use crate::chunk::Chunk;
use crate::outcome::Cause;
use crate::ports::sink::{Sink, SinkError};
use crate::report::Report;

/// More sink threads than this that nobody waits for are not replaced.
const MAX_ABANDONED_THREADS: usize = 64;

/// What a sink said, or the panic that it ended in.
pub(crate) type Called<T> = Result<T, Cause>;

pub(crate) enum SinkHost {
    Inline(Box<dyn Sink>),
    Thread(SinkThread),
}

impl SinkHost {
    pub(crate) async fn open(&mut self) -> Called<Result<(), SinkError>> {
        match self {
            Self::Inline(sink) => caught(sink.open()).await,
            Self::Thread(thread) => thread.call(Call::Open).await,
        }
    }

    pub(crate) async fn put(
        &mut self,
        chunk: Chunk,
        report: Report,
    ) -> Called<Result<(), SinkError>> {
        match self {
            Self::Inline(sink) => caught(sink.put(chunk, report)).await,
            Self::Thread(thread) => thread.call(|reply| Call::Put(chunk, report, reply)).await,
        }
    }

    pub(crate) async fn flush(&mut self) -> Called<Result<(), SinkError>> {
        match self {
            Self::Inline(sink) => caught(sink.flush()).await,
            Self::Thread(thread) => thread.call(Call::Flush).await,
        }
    }

    pub(crate) async fn close(&mut self) {
        let closed = match self {
            Self::Inline(sink) => caught(sink.close()).await,
            Self::Thread(thread) => thread.call(Call::Close).await.map(|_| ()),
        };
        if let Err(cause) = closed {
            tracing::warn!(%cause, "closing the sink panicked");
        }
    }
}

/// Runs a plugin's future; a panic becomes its message.
pub(crate) async fn caught<T>(call: impl Future<Output = T>) -> Called<T> {
    AssertUnwindSafe(call)
        .catch_unwind()
        .await
        .map_err(|panic| panic_message(&*panic))
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> Cause {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("panicked: {text}").into()
}

type Reply = oneshot::Sender<Called<Result<(), SinkError>>>;

enum Call {
    Open(Reply),
    Put(Chunk, Report, Reply),
    Flush(Reply),
    Close(Reply),
}

/// A sink on its own thread. Dropping it while it is busy abandons the thread,
/// which ends when its call does.
pub(crate) struct SinkThread {
    calls: mpsc::UnboundedSender<Call>,
    busy: bool,
    abandoned: Arc<AtomicUsize>,
}

impl SinkThread {
    /// Starts a thread; refused when too many are abandoned already.
    pub(crate) fn start(
        name: String,
        sink: Box<dyn Sink>,
        abandoned: &Arc<AtomicUsize>,
    ) -> Result<Self, SinkError> {
        let stuck = abandoned.load(Ordering::Acquire);
        if stuck >= MAX_ABANDONED_THREADS {
            let cause = format!("{stuck} threads of this sink are stuck, no more are started");
            return Err(SinkError::Fatal(cause.into()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SinkError::Retry(format!("no runtime for a sink: {error}").into()))?;
        let (calls, receiver) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name(name)
            .spawn({
                let abandoned = Arc::clone(abandoned);
                move || runtime.block_on(serve(sink, receiver, &abandoned))
            })
            .map_err(|error| SinkError::Retry(format!("no thread for a sink: {error}").into()))?;
        Ok(Self {
            calls,
            busy: false,
            abandoned: Arc::clone(abandoned),
        })
    }

    async fn call(&mut self, call: impl FnOnce(Reply) -> Call) -> Called<Result<(), SinkError>> {
        let (reply, answer) = oneshot::channel();
        self.busy = true;
        // A closed channel shows in the answer.
        let _ = self.calls.send(call(reply));
        let answer = answer.await;
        self.busy = false;
        answer.unwrap_or_else(|_| Err("its thread is gone".into()))
    }
}

impl Drop for SinkThread {
    fn drop(&mut self) {
        if self.busy && !self.calls.is_closed() {
            self.abandoned.fetch_add(1, Ordering::AcqRel);
        }
    }
}

async fn serve(
    mut sink: Box<dyn Sink>,
    mut calls: mpsc::UnboundedReceiver<Call>,
    abandoned: &AtomicUsize,
) {
    while let Some(call) = calls.recv().await {
        let (result, reply) = match call {
            Call::Open(reply) => (caught(sink.open()).await, reply),
            Call::Put(chunk, report, reply) => (caught(sink.put(chunk, report)).await, reply),
            Call::Flush(reply) => (caught(sink.flush()).await, reply),
            Call::Close(reply) => (caught(sink.close()).await.map(Ok), reply),
        };
        let panicked = result.is_err();
        let abandoned_here = reply.send(result).is_err();
        if abandoned_here {
            // The call has ended after all: the thread is not stuck.
            abandoned.fetch_sub(1, Ordering::AcqRel);
        }
        if panicked || abandoned_here {
            break;
        }
    }
}
