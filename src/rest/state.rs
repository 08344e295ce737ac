//! What all handlers share.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_actors::live_view::LiveView;
use tokio::time::Instant;

use super::error::RestError;
use crate::config::plugins::Plugins;
use crate::config::worker::WorkerConfig;
use crate::connectors::{Manager, OrderError};
use crate::plugins::Plugin;
use crate::telemetry::loggers::Loggers;
use crate::telemetry::make::Make;
use crate::telemetry::process::ProcessFigures;
use crate::telemetry::rates::Rates;
use crate::telemetry::sight::{ConnectorSight, WorkerSight};
use crate::telemetry::traces::{RequestTracer, TraceFigures};

/// Of a request's query; one may be repeated.
pub(super) type Parameters = Vec<(String, String)>;

/// A parameter that is true or false, if it was given.
pub(super) fn is_set(parameters: &Parameters, name: &str) -> Option<bool> {
    let mut given = parameters.iter();
    let (_, value) = given.find(|(key, _)| key == name)?;
    Some(value.eq_ignore_ascii_case("true"))
}

/// A connector as it was configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// What was given, secrets hidden.
    pub config: BTreeMap<String, String>,
    pub tasks: usize,
    pub make: Arc<Make>,
}

/// The connectors of a worker, as REST needs them. No call waits.
pub trait Connectors: Send + Sync + 'static {
    fn names(&self) -> Vec<String>;
    fn described(&self, connector: &str) -> Option<Described>;
    /// Once it is known.
    fn cluster_id(&self) -> Option<String>;
    /// Drains the pipeline and starts another, in the background.
    fn restart(&self, connector: &str) -> Result<(), OrderError>;
    /// Replaces one task, in the background.
    fn restart_task(&self, connector: &str, task: u32) -> Result<(), OrderError>;
}

impl Connectors for Manager {
    fn names(&self) -> Vec<String> {
        self.names()
    }

    fn described(&self, connector: &str) -> Option<Described> {
        let (config, make) = self.described(connector)?;
        Some(Described {
            config: config.shown.clone(),
            tasks: config.tasks_max,
            make,
        })
    }

    fn cluster_id(&self) -> Option<String> {
        self.cluster_id()
    }

    fn restart(&self, connector: &str) -> Result<(), OrderError> {
        self.restart(connector)
    }

    fn restart_task(&self, connector: &str, task: u32) -> Result<(), OrderError> {
        self.restart_task(connector, task)
    }
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Rest {
    pub connectors: Arc<dyn Connectors>,
    pub view: Arc<LiveView>,
    pub rates: Arc<Rates>,
    pub plugins: Arc<[Plugin]>,
    /// What a connector's configuration is read with.
    pub worker: Arc<WorkerConfig>,
    pub checks: Plugins,
    pub loggers: Loggers,
    /// `host:port`, as Connect names its workers.
    pub worker_id: Arc<str>,
    pub traces: Arc<TraceFigures>,
    /// If requests are traced.
    pub requests: Option<Arc<dyn RequestTracer>>,
}

impl Rest {
    pub(super) fn described(&self, connector: &str) -> Result<Described, RestError> {
        let described = self.connectors.described(connector);
        described.ok_or_else(|| RestError::not_found(format!("Connector {connector} not found")))
    }

    /// A look at one connector.
    pub(super) fn sight(&self, connector: &str) -> Option<ConnectorSight> {
        let described = self.connectors.described(connector)?;
        let (tasks, now) = (described.tasks, Instant::now());
        let sight = ConnectorSight::of(&self.view, &self.rates, connector, tasks, now)?;
        Some(ConnectorSight {
            make: Some(described.make),
            ..sight
        })
    }

    /// A look at the whole worker.
    #[must_use]
    pub fn worker_sight(&self) -> WorkerSight {
        WorkerSight {
            connectors: self.sights(),
            connector_starts: self.view.connector_starts().figures(),
            task_starts: self.view.task_starts().figures(),
            process: ProcessFigures::now(),
            traces: self.traces.counts(),
        }
    }

    /// A look at all connectors, in the order of their names.
    pub(super) fn sights(&self) -> Vec<ConnectorSight> {
        let names = self.connectors.names().into_iter();
        names.filter_map(|name| self.sight(&name)).collect()
    }
}
