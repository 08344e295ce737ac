//! A sink in a pipeline, by what the worker tells of it.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::books::{ErrorTotals, Tolerance};
use sluice_actors::credit::Credit;
use sluice_actors::error_log::ErrorLog;
use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView, TaskState};
use sluice_actors::ports::sink::SinkFactory;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{AsTheyAre, FakeSource, conversion_of_values, policy};
use sluice_actors::threads::Threads;
use sluice_test_support::wait::eventually;

const TASKS: usize = 2;
const NAME: &str = "audit";
/// So long that no lock ends in a test.
const LOCK: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

/// A connector with the sink, in a worker without Kafka.
pub(super) struct Worker {
    source: FakeSource,
    view: Arc<LiveView>,
    pipeline: Pipeline,
    appended: u64,
}

impl Worker {
    /// Needs a running actix `System`.
    pub(super) fn start(factory: &Arc<dyn SinkFactory>) -> Self {
        let credit = Credit::new(1 << 20);
        let (source, events) = FakeSource::start(&credit, &[0], LOCK);
        let view = LiveView::new();
        let pipeline = Pipeline::start(
            spec(factory),
            Arc::new(source.clone()),
            events,
            credit,
            Threads::current(),
            Arc::clone(&view),
        );
        Self {
            source,
            view,
            pipeline,
            appended: 0,
        }
    }

    pub(super) fn append(&mut self, values: &[&'static [u8]]) {
        for value in values {
            self.source.append(0, value);
            self.appended += 1;
        }
    }

    fn connector(&self) -> ConnectorView {
        self.view.connector(NAME).unwrap_or_default()
    }

    fn tasks(&self) -> Vec<TaskState> {
        let tasks = self.view.tasks(NAME).into_iter();
        tasks.map(|(_, state)| state).collect()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&ConnectorView, &[TaskState]) -> bool) {
        let check = async || {
            let (connector, tasks) = (self.connector(), self.tasks());
            match is_so(&connector, &tasks) {
                true => Ok(()),
                false => Err(format!("{tasks:?}, {connector:?}")),
            }
        };
        let seen = eventually(what, PATIENCE, check).await;
        seen.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until all is delivered, by sinks that are well.
    pub(super) async fn delivers_all(&self) {
        self.until("all is accepted and the tasks run", |connector, tasks| {
            let running = tasks.iter().filter(|it| **it == TaskState::Running);
            connector.totals.accepted == self.appended
                && connector.in_flight == 0
                && running.count() == TASKS
        })
        .await;
        let connector = self.connector();
        assert_eq!(connector.state, ConnectorState::Running);
        assert_eq!(connector.delivered, self.appended, "counted as delivered");
        assert_eq!(connector.errors.rejected, 0, "{:?}", connector.errors);
        assert_eq!(connector.tasks_replaced, 0, "a task died of its sink");
        let totals = connector.totals;
        let astray = totals.released + totals.rejected + totals.unknown + totals.fenced;
        assert_eq!(astray, 0, "{totals:?}");
    }

    /// What was delivered so far was delivered at once.
    pub(super) async fn has_no_trouble_to_tell(&self) {
        let connector = self.connector();
        assert_eq!(connector.errors, ErrorTotals::default());
        assert_eq!(connector.retries, 0, "records were tried again");
        let figures = || self.view.figures(NAME).into_iter().map(|(_, it)| it);
        self.until("puts are over", |_, _| figures().all(|it| it.active == 0))
            .await;
        assert_eq!(figures().filter(|it| it.opened).count(), TASKS);
        let sent: u64 = figures().map(|it| it.sent).sum();
        assert_eq!(sent, self.appended, "each record was put once");
    }

    /// Waits until a task tells that its sink is away, and why.
    pub(super) async fn tells_of_an_outage(&self) {
        let before = self.connector().totals.accepted;
        let is_told =
            |task: &TaskState| matches!(task, TaskState::BackingOff(cause) if !cause.is_empty());
        self.until("a task says that its sink is away", |connector, tasks| {
            connector.in_flight > 0 && tasks.iter().any(is_told)
        })
        .await;
        let connector = self.connector();
        assert_eq!(connector.state, ConnectorState::Running);
        assert_eq!(connector.totals.accepted, before, "delivered in an outage");
        assert_eq!(connector.errors.rejected, 0, "a record is blamed");
    }

    pub(super) async fn end(self) {
        let drained = self.pipeline.drain(PATIENCE).await;
        assert!(drained.clean, "{drained:?}");
        let stopped = |task: &TaskState| *task == TaskState::Stopped;
        assert!(self.tasks().iter().all(stopped), "{:?}", self.tasks());
    }
}

fn spec(factory: &Arc<dyn SinkFactory>) -> PipelineSpec {
    PipelineSpec {
        connector: NAME.to_owned(),
        worker: "worker-1".to_owned(),
        policy: policy(TASKS, Tolerance::None),
        conversion: conversion_of_values(AsTheyAre),
        sink: Arc::clone(factory),
        delivery_timeout: PATIENCE,
        flush_interval: Duration::from_millis(500),
        max_in_flight_records: None,
        span: 2000,
        error_log: ErrorLog::Records,
    }
}
