//! Keeps one connector: starts it, again while that may help, begins anew when
//! the operator wants it, and drains it in the end.

use std::time::Duration;

use sluice_actors::live_view::ConnectorState;
use sluice_actors::messages::Drained;
use sluice_actors::retry::RetryPolicy;
use tokio::sync::mpsc;

use super::start::{Ground, Running, StartError, start};
use crate::config::connector::ConnectorConfig;

/// What a keeper may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Drain the pipeline and start another.
    Restart,
    RestartTask(u32),
    /// Drain, within this time, and end.
    Stop(Duration),
}

/// See the module.
pub(super) struct Keeper {
    pub(super) config: ConnectorConfig,
    pub(super) ground: Ground,
    pub(super) orders: mpsc::Receiver<Order>,
    /// How long a drain before a restart may take.
    pub(super) drain_timeout: Duration,
}

impl Keeper {
    /// Runs until told to stop; tells whether the last pipeline ended cleanly.
    pub(super) async fn run(self) -> bool {
        let Self {
            config,
            ground,
            orders,
            drain_timeout,
        } = self;
        let mut orders = Orders {
            orders,
            drain_timeout,
        };
        loop {
            let running = tokio::select! {
                running = start_until_done(&config, &ground) => Ok(running),
                end = orders.next_end(None) => Err(end),
            };
            let (running, end) = match running {
                Ok(running) => {
                    let end = orders.next_end(running.as_ref()).await;
                    (running, end)
                }
                Err(end) => (None, end),
            };
            let deadline = match end {
                End::Restart => drain_timeout,
                End::Stop(deadline) => deadline,
            };
            let clean = match running {
                Some(running) => drain(&config.name, running, deadline).await,
                None => true,
            };
            if end != End::Restart {
                return clean;
            }
            tracing::info!(connector = %config.name, "starting anew");
            ground.view.begin_anew(&config.name);
        }
    }
}

/// How a pipeline is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Restart,
    Stop(Duration),
}

struct Orders {
    orders: mpsc::Receiver<Order>,
    drain_timeout: Duration,
}

impl Orders {
    /// The next order that ends the pipeline; those for tasks are passed on to
    /// it, if there is one.
    async fn next_end(&mut self, running: Option<&Running>) -> End {
        loop {
            match self.orders.recv().await {
                Some(Order::RestartTask(task)) => {
                    if let Some(running) = running {
                        running.pipeline.restart_task(task).await;
                    }
                }
                Some(Order::Restart) => return End::Restart,
                Some(Order::Stop(deadline)) => return End::Stop(deadline),
                None => return End::Stop(self.drain_timeout),
            }
        }
    }
}

async fn drain(connector: &str, running: Running, deadline: Duration) -> bool {
    drop(running.topics);
    drop(running.lag);
    let drained = running.pipeline.drain(deadline).await;
    log_drained(connector, &drained);
    drained.clean
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

/// `None` when the operator must mend something first.
async fn start_until_done(config: &ConnectorConfig, ground: &Ground) -> Option<Running> {
    let backoff = RetryPolicy {
        timeout: None,
        max_delay: Duration::from_secs(30),
    };
    let mut failures = 0;
    loop {
        let starts = ground.view.connector_starts();
        starts.begun();
        let started = start(config, ground).await;
        starts.ended(&started);
        match started {
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

/// Whether a connector has failed before it ever ran.
pub(super) fn never_ran(ground: &Ground, connector: &str) -> bool {
    let view = ground.view.connector(connector).unwrap_or_default();
    view.generation == 0 && matches!(view.state, ConnectorState::Failed(_))
}
