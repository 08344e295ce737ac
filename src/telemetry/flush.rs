//! The end of what is exported.

use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// Does what blocks, and leaves it when the time is up, or when the caller
/// does. It has a thread of its own: a runtime would wait for its end.
pub(super) async fn flush(within: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = oneshot::channel();
    let thread = thread::Builder::new().name("sluice-flush".into());
    let started = thread.spawn(move || {
        work();
        let _ = done.send(());
    });
    match started {
        Ok(_) => drop(timeout(within, is_done).await),
        Err(error) => tracing::warn!(%error, "the last spans or metrics were not sent"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_blocks_is_left_when_its_time_is_up() {
        let (go_on, blocked) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        flush(Duration::from_millis(1), move || {
            let _ = blocked.recv();
            let _ = tell.send(());
        })
        .await;
        assert!(told.try_recv().is_err(), "it was waited for");
        drop(go_on);
        told.recv().unwrap();
        flush(Duration::from_secs(60), || {}).await;
    }
}
