//! Where a sink instance lives: with its task, or, when it may block, on a
//! thread of its own. Panics are caught either way.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};

use crate::chunk::Chunk;
use crate::error_log::INCLUDE_MESSAGES;
use crate::outcome::Cause;
use crate::ports::sink::{Sink, SinkError, TaskContext};
use crate::report::Report;
use crate::stuck_threads::{StuckThreads, ThreadLife};

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

    /// The context is for the log.
    pub(crate) async fn close(&mut self, context: &TaskContext) {
        let closed = match self {
            Self::Inline(sink) => caught(sink.close()).await,
            Self::Thread(thread) => thread.call(Call::Close).await.map(|_| ()),
        };
        if let Err(cause) = closed {
            let TaskContext {
                connector, task, ..
            } = context;
            tracing::warn!(connector, task, %cause, "closing the sink panicked");
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

/// A message that is a literal is the program's own. One that was put together
/// may quote what it was about: a text that is cut amid a letter, say.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> Cause {
    if let Some(literal) = panic.downcast_ref::<&'static str>() {
        return format!("panicked: {literal}").into();
    }
    match panic.downcast_ref::<String>() {
        Some(text) => Cause::quoting(
            format!(
                "panicked, with a message of {} bytes that {INCLUDE_MESSAGES}=true shows",
                text.len()
            ),
            format!("panicked: {text}"),
        ),
        None => "panicked without a message".into(),
    }
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
    life: ThreadLife,
}

impl SinkThread {
    /// Starts a thread; refused while too many are stuck.
    pub(crate) fn start(
        name: String,
        sink: Box<dyn Sink>,
        stuck: &Arc<StuckThreads>,
    ) -> Result<Self, SinkError> {
        stuck.allow_another().map_err(SinkError::Unavailable)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| SinkError::Retry(format!("no runtime for a sink: {error}").into()))?;
        let (calls, receiver) = mpsc::unbounded_channel();
        let life = ThreadLife::new(stuck);
        let until_end = life.until_end();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let _until_end = until_end;
                runtime.block_on(serve(sink, receiver));
                // It may wait for what the sink has started.
                drop(runtime);
            })
            .map_err(|error| SinkError::Retry(format!("no thread for a sink: {error}").into()))?;
        Ok(Self {
            calls,
            busy: false,
            life,
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
        if self.busy {
            self.life.abandon();
        }
    }
}

async fn serve(mut sink: Box<dyn Sink>, mut calls: mpsc::UnboundedReceiver<Call>) {
    while let Some(call) = calls.recv().await {
        let (result, reply) = match call {
            Call::Open(reply) => (caught(sink.open()).await, reply),
            Call::Put(chunk, report, reply) => (caught(sink.put(chunk, report)).await, reply),
            Call::Flush(reply) => (caught(sink.flush()).await, reply),
            Call::Close(reply) => (caught(sink.close()).await.map(Ok), reply),
        };
        let panicked = result.is_err();
        let abandoned = reply.send(result).is_err();
        if panicked || abandoned {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as blocking;

    use async_trait::async_trait;

    use super::*;
    use crate::testing::records;

    /// Blocks in a put until it is let go.
    struct Stuck {
        entered: blocking::Sender<()>,
        let_go: blocking::Receiver<()>,
    }

    #[async_trait]
    impl Sink for Stuck {
        async fn open(&mut self) -> Result<(), SinkError> {
            Ok(())
        }

        async fn put(&mut self, _chunk: Chunk, _report: Report) -> Result<(), SinkError> {
            self.entered.send(()).unwrap();
            // Let go, or the test is over.
            let _ = self.let_go.recv();
            Ok(())
        }
    }

    fn start(
        stuck: &Arc<StuckThreads>,
    ) -> (SinkHost, blocking::Receiver<()>, blocking::Sender<()>) {
        let (entered, has_entered) = blocking::channel();
        let (go, let_go) = blocking::channel();
        let sink = Box::new(Stuck { entered, let_go });
        let thread = SinkThread::start("test".into(), sink, stuck).unwrap();
        (SinkHost::Thread(thread), has_entered, go)
    }

    fn put(host: &mut SinkHost) -> impl Future<Output = Called<Result<(), SinkError>>> {
        host.put(Chunk::new(records(0..1)), Report::new(1))
    }

    async fn until_none_is_stuck(stuck: &StuckThreads) {
        while stuck.count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_thread_that_is_dropped_in_a_call_is_stuck_until_the_call_ends() {
        let stuck = StuckThreads::new();
        let (mut host, has_entered, go) = start(&stuck);
        assert!(put(&mut host).now_or_never().is_none());
        has_entered.recv().unwrap();
        drop(host);
        assert_eq!(stuck.count(), 1);
        go.send(()).unwrap();
        until_none_is_stuck(&stuck).await;
    }

    #[tokio::test]
    async fn a_thread_that_is_dropped_between_calls_is_not_stuck() {
        let stuck = StuckThreads::new();
        let (mut host, _has_entered, go) = start(&stuck);
        go.send(()).unwrap();
        assert_eq!(put(&mut host).await, Ok(Ok(())));
        drop(host);
        assert_eq!(stuck.count(), 0);
    }

    #[tokio::test]
    async fn a_thread_is_refused_only_for_as_long_as_too_many_are_stuck() {
        let stuck = StuckThreads::at_most(1);
        let (mut host, has_entered, go) = start(&stuck);
        assert!(put(&mut host).now_or_never().is_none());
        has_entered.recv().unwrap();
        drop(host);
        let (entered, _has_entered) = blocking::channel();
        let (_go, let_go) = blocking::channel();
        let another = Box::new(Stuck { entered, let_go });
        let refused = SinkThread::start("test".into(), another, &stuck).err();
        assert!(
            matches!(refused, Some(SinkError::Unavailable(_))),
            "{refused:?}"
        );
        go.send(()).unwrap();
        until_none_is_stuck(&stuck).await;
        let (mut host, _has_entered, go) = start(&stuck);
        go.send(()).unwrap();
        assert_eq!(put(&mut host).await, Ok(Ok(())));
    }

    /// Nobody has taken the answer when the thread is given up.
    #[tokio::test]
    async fn a_call_that_ends_while_its_thread_is_given_up_leaves_no_count() {
        let stuck = StuckThreads::new();
        for _ in 0..50 {
            let (mut host, has_entered, go) = start(&stuck);
            assert!(put(&mut host).now_or_never().is_none());
            has_entered.recv().unwrap();
            go.send(()).unwrap();
            drop(host);
        }
        until_none_is_stuck(&stuck).await;
    }
}
