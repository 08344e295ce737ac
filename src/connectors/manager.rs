//! All connectors of a worker: one keeper for each.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use sluice_actors::live_view::LiveView;
use sluice_actors::threads::Threads;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;

use super::keeper::{Keeper, Order, never_ran};
use super::start::{ClusterId, Ground};
use crate::config::connector::ConnectorConfig;
use crate::plugins;
use crate::telemetry::make::Make;
use crate::telemetry::traces::Traces;

/// Orders that may wait for a keeper, which may be draining.
const ORDERS: usize = 16;

/// Why an order was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("there is no such connector")]
    UnknownConnector,
    #[error("there is no such task")]
    UnknownTask,
    /// Too many orders wait already, or the worker stops.
    #[error("the connector is busy with orders, or stops")]
    Busy,
}

struct Kept {
    config: Arc<ConnectorConfig>,
    make: Arc<Make>,
    orders: mpsc::Sender<Order>,
}

/// All connectors of this worker.
pub struct Manager {
    ground: Ground,
    kept: Mutex<BTreeMap<String, Kept>>,
    keepers: Mutex<Vec<JoinHandle<bool>>>,
}

impl Manager {
    #[must_use]
    pub fn new(
        worker: String,
        runtime: Handle,
        threads: Threads,
        view: Arc<LiveView>,
        drain_timeout: Duration,
        traces: Traces,
    ) -> Self {
        Self {
            ground: Ground {
                worker,
                runtime,
                threads,
                view,
                cluster_id: ClusterId::default(),
                traces,
                drain_timeout,
            },
            kept: Mutex::default(),
            keepers: Mutex::default(),
        }
    }

    /// Starts a connector, and goes on trying while that may help. What keeps
    /// it from starting shows in the live view.
    pub fn start(&self, config: ConnectorConfig) {
        let name = config.name.clone();
        self.ground.view.enter(&name);
        let (orders, orders_of_keeper) = mpsc::channel(ORDERS);
        let kept = Kept {
            make: Arc::new(Make::of(&config, &plugins::all())),
            config: Arc::new(config.clone()),
            orders,
        };
        self.kept.lock().insert(name.clone(), kept);
        let keeper = Keeper {
            config,
            ground: self.ground.clone(),
            orders: orders_of_keeper,
        };
        let view = Arc::clone(&self.ground.view);
        let keeping = AssertUnwindSafe(keeper.run()).catch_unwind();
        let keeping = keeping.map(move |ended| {
            ended.unwrap_or_else(|_| {
                tracing::error!(connector = %name, "starting the connector panicked");
                view.fail(&name, "starting it panicked; see the log".into());
                true
            })
        });
        self.keepers.lock().push(self.ground.runtime.spawn(keeping));
    }

    /// The names of all connectors, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.kept.lock().keys().cloned().collect()
    }

    /// A connector's configuration, and its plugins.
    #[must_use]
    pub fn described(&self, connector: &str) -> Option<(Arc<ConnectorConfig>, Arc<Make>)> {
        let kept = self.kept.lock();
        let kept = kept.get(connector)?;
        Some((Arc::clone(&kept.config), Arc::clone(&kept.make)))
    }

    /// The Kafka cluster's id, once a connector has met it.
    #[must_use]
    pub fn cluster_id(&self) -> Option<String> {
        self.ground.cluster_id.get()
    }

    /// Drains a connector's pipeline and starts another, in the background.
    pub fn restart(&self, connector: &str) -> Result<(), OrderError> {
        self.order(connector, Order::Restart)?;
        self.ground.view.restarting(connector);
        Ok(())
    }

    /// Replaces one task, in the background.
    pub fn restart_task(&self, connector: &str, task: u32) -> Result<(), OrderError> {
        let config = self.described(connector);
        let (config, _) = config.ok_or(OrderError::UnknownConnector)?;
        if task as usize >= config.tasks_max {
            return Err(OrderError::UnknownTask);
        }
        self.order(connector, Order::RestartTask(task))
    }

    fn order(&self, connector: &str, order: Order) -> Result<(), OrderError> {
        let kept = self.kept.lock();
        let kept = kept.get(connector).ok_or(OrderError::UnknownConnector)?;
        kept.orders.try_send(order).map_err(|error| match error {
            TrySendError::Full(_) | TrySendError::Closed(_) => OrderError::Busy,
        })
    }

    /// Whether no connector runs or could still run.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let kept = self.kept.lock();
        kept.keys().all(|name| never_ran(&self.ground, name))
    }

    /// Drains all connectors at once, within `deadline`. Tells whether all
    /// ended cleanly.
    pub async fn drain(&self, deadline: Duration) -> bool {
        let orders: Vec<_> = {
            let kept = self.kept.lock();
            kept.values().map(|kept| kept.orders.clone()).collect()
        };
        let keepers = std::mem::take(&mut *self.keepers.lock());
        for orders in orders {
            // A keeper that is gone has nothing left to drain.
            let _ = orders.send(Order::Stop(deadline)).await;
        }
        let ended = futures::future::join_all(keepers).await;
        ended.into_iter().all(|clean| clean.unwrap_or(true))
    }
}
