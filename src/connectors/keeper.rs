//! Keeps one connector: starts it, again while that may help, begins anew when
//! the operator wants it, and drains it in the end.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::live_view::{ConnectorState, LiveView};
use sluice_actors::messages::Drained;
use sluice_actors::retry::RetryPolicy;
use sluice_actors::supervisor::Pipeline;
use tokio::sync::mpsc;
use tokio::time::Instant;

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
}

impl Keeper {
    /// Runs until told to stop; tells whether the last pipeline ended cleanly.
    pub(super) async fn run(self) -> bool {
        let Self {
            config,
            ground,
            orders,
        } = self;
        let mut orders = Orders {
            orders,
            drain_timeout: ground.drain_timeout,
            connector: config.name.clone(),
            view: Arc::clone(&ground.view),
        };
        loop {
            let running = tokio::select! {
                running = start_until_done(&config, &ground) => Ok(running),
                end = orders.next_end(None) => Err(end),
            };
            let (running, end) = match running {
                Ok(running) => {
                    let end = orders
                        .next_end(running.as_ref().map(|it| &it.pipeline))
                        .await;
                    (running, end)
                }
                Err(end) => (None, end),
            };
            let (End::Restart(deadline) | End::Stop(deadline)) = end;
            let clean = match running {
                Some(running) => drain(&config.name, running, deadline).await,
                None => true,
            };
            if matches!(end, End::Stop(_)) {
                return clean;
            }
            tracing::info!(connector = %config.name, "starting anew");
            ground.view.begin_anew(&config.name);
        }
    }
}

/// How a pipeline is to end, and how long it has for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Restart(Duration),
    Stop(Duration),
}

struct Orders {
    orders: mpsc::Receiver<Order>,
    drain_timeout: Duration,
    connector: String,
    view: Arc<LiveView>,
}

impl Orders {
    /// The next order that ends the pipeline; those for tasks are passed on to
    /// it, if there is one.
    async fn next_end(&mut self, pipeline: Option<&Pipeline>) -> End {
        loop {
            match self.orders.recv().await {
                Some(Order::RestartTask(task)) => {
                    if let Some(pipeline) = pipeline {
                        pipeline.restart_task(task).await;
                    }
                }
                Some(Order::Restart) => {
                    if let Some(left) = self.may_restart(pipeline).await {
                        return End::Restart(left);
                    }
                }
                Some(Order::Stop(deadline)) => return End::Stop(deadline),
                None => return End::Stop(self.drain_timeout),
            }
        }
    }

    /// How long the drain may still take; `None` if it could lose a record.
    /// Who gave the order has looked too, but not at what has come since.
    async fn may_restart(&self, pipeline: Option<&Pipeline>) -> Option<Duration> {
        let began = Instant::now();
        let Some(pipeline) = pipeline else {
            return Some(self.drain_timeout);
        };
        let last = pipeline.quiesce(self.drain_timeout / 4).await;
        let Some(record) = last.first() else {
            return Some(self.drain_timeout.saturating_sub(began.elapsed()));
        };
        tracing::error!(
            connector = %self.connector, records = last.len(), %record,
            "not restarted: records are on their last delivery attempt, and the broker would archive \
             those that the drain gives back"
        );
        self.view.not_restarting(&self.connector);
        None
    }
}

async fn drain(connector: &str, running: Running, deadline: Duration) -> bool {
    drop(running.topics);
    drop(running.group);
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
    } else if drained.lost > 0 {
        tracing::error!(
            connector,
            lost = drained.lost,
            released,
            unconfirmed,
            cause,
            "drain cut short, records on their last delivery attempt do not come again"
        );
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

#[cfg(test)]
mod tests {
    use sluice_actors::books::{Policy, Tolerance};
    use sluice_actors::ports::sink::SinkError;
    use sluice_actors::terms::Terms;
    use sluice_actors::testing::{
        Act, AsTheyAre, FakeSinkFactory, TestPipeline, conversion_of_values, policy, spec,
    };
    use sluice_actors::threads::Threads;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    /// A pipeline whose sink is down, with a record that may be delivered so
    /// often.
    async fn pipeline_with_its_sink_down(limit: u16, view: &Arc<LiveView>) -> Pipeline {
        let sink = FakeSinkFactory::new(|_, _| Act::Fail(SinkError::Unavailable("down".into())));
        let policy = Policy {
            terms: Terms::new(limit, 2000),
            ..policy(1, Tolerance::None)
        };
        let spec = spec(policy, conversion_of_values(AsTheyAre), Arc::new(sink));
        let (threads, view) = (Threads::current(), Arc::clone(view));
        let TestPipeline { view, pipeline, .. } =
            TestPipeline::start_on(threads, view, spec, &[1], LONG);
        while view.connector("test").is_none_or(|it| it.in_flight == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        pipeline
    }

    #[actix::test]
    async fn a_restart_is_not_carried_out_over_a_record_on_its_last_attempt() {
        tokio::time::pause();
        for (limit, expected) in [(1, false), (2, true)] {
            let view = LiveView::new();
            let pipeline = pipeline_with_its_sink_down(limit, &view).await;
            let (give, orders) = mpsc::channel(2);
            give.send(Order::Restart).await.unwrap();
            give.send(Order::Stop(LONG)).await.unwrap();
            view.restarting("test");
            let mut orders = Orders {
                orders,
                drain_timeout: LONG,
                connector: "test".to_owned(),
                view: Arc::clone(&view),
            };
            let end = orders.next_end(Some(&pipeline)).await;
            let restarts = matches!(end, End::Restart(_));
            assert_eq!(restarts, expected, "{limit}: {end:?}");
            let shown = view.connector("test").unwrap();
            assert_eq!(shown.is_restarting, expected, "{limit}");
        }
    }
}
