//! A sink in a pipeline, by what the worker tells of it.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::books::{ErrorTotals, Tolerance};
use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView, TaskState};
use sluice_actors::ports::sink::SinkFactory;
use sluice_actors::supervisor::{Pipeline, PipelineSpec};
use sluice_actors::testing::{
    AsTheyAre, FakeDeadLetters, FakeSource, Post, TestPipeline, conversion_of_values, policy, spec,
};
use sluice_test_support::wait::eventually;
use tokio::time::Instant;

use crate::telemetry::exposition::render;
use crate::telemetry::rates::Rates;
use crate::telemetry::sight::{ConnectorSight, Standing, Status, WorkerSight};

const TASKS: usize = 2;
const NAME: &str = "audit";
/// So long that no lock ends in a test.
const LOCK: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(60);

const READY: &str = "sluice_connector_ready";
const IN_FLIGHT: &str = "sluice_records_in_flight";
const DELIVERED: &str = "sluice_records_delivered_total";
const ACCEPTED: &str = "kafka_connect_sink_task_sink_record_acknowledge_total";
const REJECTED: &str = "kafka_connect_sink_task_sink_record_reject_total";
const FAILURES: &str = "kafka_connect_task_error_total_record_failures";

/// A connector with the sink, in a worker without Kafka. It puts aside whatever
/// the sink rejects.
pub(super) struct Worker {
    source: FakeSource,
    letters: FakeDeadLetters,
    view: Arc<LiveView>,
    pipeline: Pipeline,
    appended: u64,
}

impl Worker {
    /// Needs a running actix `System`.
    pub(super) fn start(factory: &Arc<dyn SinkFactory>) -> Self {
        let policy = policy(TASKS, Tolerance::All);
        let letters = FakeDeadLetters::new(|_, _| Post::Keep);
        let spec = PipelineSpec {
            connector: NAME.to_owned(),
            dead_letters: Some(Arc::new(letters.clone())),
            ..spec(policy, conversion_of_values(AsTheyAre), Arc::clone(factory))
        };
        let TestPipeline {
            source,
            view,
            pipeline,
            ..
        } = TestPipeline::start(spec, &[0], LOCK);
        Self {
            source,
            letters,
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

    /// What health and status are made of.
    fn sight(&self) -> Option<ConnectorSight> {
        let (rates, now) = (Rates::default(), Instant::now());
        ConnectorSight::of(&self.view, &rates, NAME, TASKS, now)
    }

    /// A connector's count in what Prometheus reads.
    fn exported(&self, metric: &str) -> u64 {
        let worker = WorkerSight {
            connectors: self.sight().into_iter().collect(),
            ..WorkerSight::default()
        };
        let text = render(worker).expect("the exposition");
        let series = format!("{metric}{{connector=\"{NAME}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(&series));
        let count = count.unwrap_or_else(|| panic!("no {series}in {text}"));
        count.parse::<f64>().expect("a number") as u64
    }

    /// Health and metrics tell of a connector that is well and has delivered
    /// all.
    fn is_shown_well(&self) {
        let sight = self.sight().expect("the connector is shown");
        assert_eq!(sight.standing(), Standing::Ready);
        assert_eq!(sight.sinks_open(), TASKS, "{:?}", sight.tasks);
        assert_eq!(sight.tasks_in(Status::Running), TASKS, "{:?}", sight.tasks);
        for (metric, expected) in [
            (READY, 1),
            (IN_FLIGHT, 0),
            (ACCEPTED, self.appended),
            (DELIVERED, self.appended),
            (REJECTED, 0),
            (FAILURES, 0),
        ] {
            assert_eq!(self.exported(metric), expected, "{metric}");
        }
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
        self.is_shown_well();
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

    /// Waits until health and status tell that the sink is away, and why.
    pub(super) async fn tells_of_an_outage(&self) {
        let before = self.connector().totals.accepted;
        let check = async || {
            let sight = self.sight();
            match &sight {
                Some(sight) if tells_that_the_sink_is_away(sight) => Ok(()),
                _ => Err(format!("{sight:?}")),
            }
        };
        let seen = eventually("a task says that its sink is away", PATIENCE, check).await;
        seen.unwrap_or_else(|error| panic!("{error}"));
        let connector = self.connector();
        assert_eq!(connector.state, ConnectorState::Running);
        assert_eq!(connector.totals.accepted, before, "delivered in an outage");
        assert_eq!(connector.errors.rejected, 0, "a record is blamed");
        assert!(self.exported(IN_FLIGHT) > 0);
        for (metric, expected) in [(ACCEPTED, before), (DELIVERED, before), (FAILURES, 0)] {
            assert_eq!(self.exported(metric), expected, "{metric}");
        }
    }

    pub(super) async fn end(self) {
        let drained = self.pipeline.drain(PATIENCE).await;
        assert!(drained.clean, "{drained:?}");
        let letters = self.letters.kept_offsets();
        assert!(letters.is_empty(), "put aside: {letters:?}");
        let stopped = |task: &TaskState| *task == TaskState::Stopped;
        assert!(self.tasks().iter().all(stopped), "{:?}", self.tasks());
    }
}

/// Some task backs off and says why, and its records are open. Where no sink
/// is open, the connector is in bad health for a cause of theirs.
fn tells_that_the_sink_is_away(sight: &ConnectorSight) -> bool {
    let causes = || {
        let told = sight.tasks.iter().filter_map(|task| match &task.state {
            TaskState::BackingOff(cause) => Some(cause),
            _ => None,
        });
        told.filter(|cause| !cause.is_empty())
    };
    let is_told = sight.view.in_flight > 0 && causes().next().is_some();
    let is_bad = matches!(sight.standing(), Standing::Bad(told) if causes().any(|it| *it == told));
    is_told && (sight.sinks_open() > 0 || is_bad)
}
