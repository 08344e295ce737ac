//! Starts a worker's connectors and ends them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sluice_actors::live_view::{ConnectorState, LiveView};
use sluice_actors::messages::Drained;
use sluice_actors::retry::RetryPolicy;
use sluice_actors::threads::Threads;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::start::{Ground, Running, StartError, start};
use crate::config::connector::ConnectorConfig;

/// All connectors of this worker.
pub struct Manager {
    ground: Ground,
    starting: Vec<(String, JoinHandle<Option<Running>>)>,
}

impl Manager {
    #[must_use]
    pub fn new(worker: String, runtime: Handle, threads: Threads, view: Arc<LiveView>) -> Self {
        Self {
            ground: Ground {
                worker,
                runtime,
                threads,
                view,
            },
            starting: Vec::new(),
        }
    }

    /// Starts a connector, and goes on trying while that may help. What keeps
    /// it from starting shows in the live view.
    pub fn start(&mut self, config: ConnectorConfig) {
        let name = config.name.clone();
        let starting = AssertUnwindSafe(start_until_done(config, self.ground.clone()));
        let (view, connector) = (Arc::clone(&self.ground.view), name.clone());
        let starting = async move {
            starting.catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!(%connector, "starting the connector panicked");
                view.fail(&connector, "starting it panicked; see the log".into());
                None
            })
        };
        self.starting
            .push((name, self.ground.runtime.spawn(starting)));
    }

    /// Whether no connector runs or could still run.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let failed = |(name, starting): &(String, JoinHandle<_>)| {
            let view = self.ground.view.connector(name).unwrap_or_default();
            starting.is_finished()
                && view.generation == 0
                && matches!(view.state, ConnectorState::Failed(_))
        };
        self.starting.iter().all(failed)
    }

    /// Drains all connectors at once, within `deadline`. Tells whether all
    /// ended cleanly.
    pub async fn drain(self, deadline: Duration) -> bool {
        let drains = self
            .starting
            .into_iter()
            .map(|(name, starting)| async move {
                if !starting.is_finished() {
                    starting.abort();
                }
                let Ok(Some(running)) = starting.await else {
                    return true;
                };
                drop(running.topics);
                let drained = running.pipeline.drain(deadline).await;
                log_drained(&name, &drained);
                drained.clean
            });
        let ended = futures::future::join_all(drains).await;
        ended.into_iter().all(|clean| clean)
    }
}

fn log_drained(connector: &str, drained: &Drained) {
    let cause = drained.closed.cause.as_deref().unwrap_or("none");
    let (released, unconfirmed) = (drained.released, drained.closed.unconfirmed);
    if drained.clean {
        tracing::info!(connector, "drained, all settlements confirmed");
    } else {
        tracing::warn!(
            connector,
            released,
            unconfirmed,
            cause,
            "drain cut short, some records come again"
        );
    }
}

async fn start_until_done(config: ConnectorConfig, ground: Ground) -> Option<Running> {
    let backoff = RetryPolicy {
        timeout: None,
        max_delay: Duration::from_secs(30),
    };
    let mut failures = 0;
    loop {
        match start(&config, &ground).await {
            Ok(running) => return Some(running),
            Err(StartError::Refused(cause)) => {
                tracing::error!(connector = %config.name, error = %cause, "connector does not start");
                ground.view.fail(&config.name, cause.into());
                return None;
            }
            Err(StartError::Later(cause)) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(
                        connector = %config.name, error = %cause,
                        "connector does not start yet, trying again"
                    );
                }
                ground.view.trouble(&config.name, cause.into());
                tokio::time::sleep(backoff.delay(failures, fastrand::f64())).await;
            }
        }
    }
}
