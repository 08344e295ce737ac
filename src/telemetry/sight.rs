//! One look at a worker, for status, health and metrics: taken from the live
//! view without waiting for anyone.

use std::sync::Arc;
use std::time::Duration;

use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView, TaskState};
use sluice_actors::meters::TaskFigures;
use sluice_actors::outcome::Cause;
use sluice_actors::starts::StartFigures;
use tokio::time::Instant;

use super::make::Make;
use super::process::ProcessFigures;
use super::rates::{ConnectorRates, Rates, TaskRates};
use super::traces::TraceCounts;

/// A state by Connect's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Not joined yet, or stopping.
    Unassigned,
    Running,
    Failed,
    Restarting,
}

impl Status {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unassigned => "UNASSIGNED",
            Self::Running => "RUNNING",
            Self::Failed => "FAILED",
            Self::Restarting => "RESTARTING",
        }
    }
}

/// One task.
#[derive(Clone, Debug)]
pub struct TaskSight {
    pub id: u32,
    pub state: TaskState,
    pub status: Status,
    /// Why its status is FAILED.
    pub trace: Option<Cause>,
    pub figures: TaskFigures,
    pub rates: TaskRates,
}

impl TaskSight {
    fn of(
        connector: &ConnectorView,
        id: u32,
        state: TaskState,
        figures: TaskFigures,
        rates: TaskRates,
    ) -> Self {
        let status = status_of_task(connector, &state, &figures);
        let cause = match &state {
            TaskState::Failed(cause) => Some(cause),
            _ => connector.state.cause(),
        };
        Self {
            id,
            trace: cause.filter(|_| status == Status::Failed).cloned(),
            state,
            status,
            figures,
            rates,
        }
    }
}

/// One connector with its tasks.
#[derive(Clone, Debug)]
pub struct ConnectorSight {
    pub name: Arc<str>,
    pub at: Instant,
    pub view: ConnectorView,
    pub status: Status,
    pub rates: ConnectorRates,
    pub tasks: Vec<TaskSight>,
    /// `None` where nobody has told.
    pub make: Option<Arc<Make>>,
}

/// One worker with its connectors.
#[derive(Clone, Debug, Default)]
pub struct WorkerSight {
    pub connectors: Vec<ConnectorSight>,
    pub connector_starts: StartFigures,
    pub task_starts: StartFigures,
    pub process: Option<ProcessFigures>,
    pub traces: TraceCounts,
}

/// Whether a connector does what it is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Joined, with a session on every leader, and with open sinks.
    Ready,
    /// On its way there, or to its end.
    Coming(&'static str),
    Bad(Cause),
}

impl ConnectorSight {
    /// A connector of so many tasks; none if there is no such connector.
    #[must_use]
    pub fn of(
        view: &LiveView,
        rates: &Rates,
        name: &str,
        tasks: usize,
        at: Instant,
    ) -> Option<Self> {
        let connector = view.connector(name)?;
        let name: Arc<str> = name.into();
        let (states, figures) = (view.tasks(&name), view.figures(&name));
        let tasks = (0..tasks as u32).map(|id| {
            let state = states.iter().find(|(task, _)| *task == id);
            let state = state.map_or(TaskState::Opening, |(_, state)| state.clone());
            let figures = figures.iter().find(|(task, _)| *task == id);
            let figures = figures.map_or_else(TaskFigures::default, |(_, figures)| *figures);
            TaskSight::of(&connector, id, state, figures, rates.task(&name, id))
        });
        Some(Self {
            tasks: tasks.collect(),
            rates: rates.connector(&name),
            status: status(&connector),
            view: connector,
            name,
            at,
            make: None,
        })
    }

    /// Why it has failed.
    #[must_use]
    pub const fn failure(&self) -> Option<&Cause> {
        self.view.state.cause()
    }

    /// For how long its sink has taken no records.
    #[must_use]
    pub fn outage_lasts(&self) -> Option<Duration> {
        let outage = self.view.outage.as_ref()?;
        Some(self.at.saturating_duration_since(outage.since))
    }

    /// What it does now.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if let Some(cause) = self.failure() {
            return Standing::Bad(cause.clone());
        }
        if self.view.is_restarting {
            return Standing::Bad("is restarting".into());
        }
        if let Some(trouble) = self.view.trouble() {
            return Standing::Bad(trouble.clone());
        }
        if let Some(outage) = &self.view.outage {
            return Standing::Bad(outage.cause.clone());
        }
        match self.view.state {
            ConnectorState::Starting => Standing::Coming("joins its group"),
            ConnectorState::Draining | ConnectorState::Stopped => Standing::Coming("is stopping"),
            ConnectorState::Running | ConnectorState::Failed(_) => self.sinks(),
        }
    }

    /// What it means to the worker's readiness. Once it has come up, what
    /// passes (a session lost, a sink down, a restart) is no reason to hold a
    /// rollout up, or to keep those out who ask what is the matter.
    #[must_use]
    pub fn readiness(&self) -> Standing {
        match self.standing() {
            Standing::Bad(_) if self.view.has_come_up && self.failure().is_none() => {
                Standing::Ready
            }
            standing => standing,
        }
    }

    /// One open sink is enough to deliver; but at first, all are waited for.
    fn sinks(&self) -> Standing {
        const OPENS: &str = "opens its sinks";
        let is_awaited =
            |task: &TaskSight| matches!(task.state, TaskState::Opening) && !task.figures.has_opened;
        if !self.view.has_come_up && self.tasks.iter().any(is_awaited) {
            return Standing::Coming(OPENS);
        }
        if self.sinks_open() > 0 {
            return Standing::Ready;
        }
        match self.tasks.iter().find_map(|task| task.state.cause()) {
            Some(cause) => Standing::Bad(cause.clone()),
            None if self.view.has_come_up => Standing::Bad(OPENS.into()),
            None => Standing::Coming(OPENS),
        }
    }

    #[must_use]
    pub fn sinks_open(&self) -> usize {
        self.tasks.iter().filter(|task| task.figures.opened).count()
    }

    #[must_use]
    pub fn tasks_in(&self, status: Status) -> usize {
        let tasks = self.tasks.iter();
        tasks.filter(|task| task.status == status).count()
    }
}

const fn status(view: &ConnectorView) -> Status {
    if view.is_restarting {
        return Status::Restarting;
    }
    match view.state {
        ConnectorState::Running => Status::Running,
        ConnectorState::Failed(_) => Status::Failed,
        ConnectorState::Starting | ConnectorState::Draining | ConnectorState::Stopped => {
            Status::Unassigned
        }
    }
}

/// A connector that fails takes its tasks along, if it ever had any. A sink
/// that cannot take records now is still the task's affair: it runs.
const fn status_of_task(
    connector: &ConnectorView,
    state: &TaskState,
    figures: &TaskFigures,
) -> Status {
    if connector.is_restarting {
        return Status::Restarting;
    }
    if connector.state.cause().is_some() && connector.generation > 0 {
        return Status::Failed;
    }
    match state {
        TaskState::Running | TaskState::BackingOff(_) => Status::Running,
        TaskState::Failed(_) => Status::Failed,
        TaskState::Restarting => Status::Restarting,
        TaskState::Opening if figures.has_opened => Status::Restarting,
        TaskState::Opening | TaskState::Stopped => Status::Unassigned,
    }
}

#[cfg(test)]
mod tests {
    use sluice_actors::circuit::Outage;

    use super::*;

    /// With tasks of a state, whose sink is open, or was.
    fn sight(view: ConnectorView, tasks: &[(TaskState, bool, bool)]) -> ConnectorSight {
        let tasks = tasks.iter().enumerate();
        let tasks = tasks.map(|(id, (state, opened, has_opened))| {
            let figures = TaskFigures {
                opened: *opened,
                has_opened: *has_opened,
                ..TaskFigures::default()
            };
            TaskSight::of(
                &view,
                id as u32,
                state.clone(),
                figures,
                TaskRates::default(),
            )
        });
        ConnectorSight {
            name: "orders".into(),
            at: Instant::now(),
            tasks: tasks.collect(),
            rates: ConnectorRates::default(),
            status: status(&view),
            view,
            make: None,
        }
    }

    fn in_state(state: ConnectorState) -> ConnectorView {
        ConnectorView {
            state,
            generation: 1,
            ..ConnectorView::default()
        }
    }

    const RUNNING: (TaskState, bool, bool) = (TaskState::Running, true, true);
    const OPENING: (TaskState, bool, bool) = (TaskState::Opening, false, false);
    const REPLACED: (TaskState, bool, bool) = (TaskState::Opening, false, true);

    fn down(was_open: bool) -> (TaskState, bool, bool) {
        (TaskState::BackingOff("down".into()), false, was_open)
    }

    const OPENS: Standing = Standing::Coming("opens its sinks");

    #[test]
    fn a_connector_comes_up_with_all_of_its_sinks() {
        for (tasks, expected) in [
            (vec![RUNNING, RUNNING], Standing::Ready),
            (vec![RUNNING, OPENING], OPENS),
            (vec![RUNNING, REPLACED], Standing::Ready),
            (vec![RUNNING, down(false)], Standing::Ready),
            (vec![down(false)], Standing::Bad("down".into())),
            (vec![OPENING], OPENS),
        ] {
            let coming = sight(in_state(ConnectorState::Running), &tasks);
            assert_eq!(coming.standing(), expected, "{tasks:?}");
            assert_eq!(coming.readiness(), expected, "{tasks:?}");
        }
        let starting = sight(ConnectorView::default(), &[RUNNING]);
        assert_eq!(starting.readiness(), Standing::Coming("joins its group"));
    }

    #[test]
    fn once_it_has_come_up_what_passes_leaves_the_worker_ready() {
        let come_up = || ConnectorView {
            has_come_up: true,
            ..in_state(ConnectorState::Running)
        };
        let troubled = ConnectorView {
            trouble: Some("broker 2 is gone".into()),
            ..come_up()
        };
        let letters = ConnectorView {
            letter_trouble: Some("dlq.orders takes none".into()),
            ..come_up()
        };
        let refused = ConnectorView {
            outage: Some(Outage {
                cause: "refused".into(),
                since: Instant::now(),
            }),
            ..come_up()
        };
        let restarting = ConnectorView {
            is_restarting: true,
            ..come_up()
        };
        for (view, tasks, expected) in [
            (come_up(), vec![RUNNING, REPLACED], Standing::Ready),
            (come_up(), vec![RUNNING, OPENING], Standing::Ready),
            (
                come_up(),
                vec![REPLACED],
                Standing::Bad("opens its sinks".into()),
            ),
            (come_up(), vec![down(true)], Standing::Bad("down".into())),
            (
                troubled,
                vec![RUNNING],
                Standing::Bad("broker 2 is gone".into()),
            ),
            (
                letters,
                vec![RUNNING],
                Standing::Bad("dlq.orders takes none".into()),
            ),
            (refused, vec![RUNNING], Standing::Bad("refused".into())),
            (
                restarting,
                vec![RUNNING],
                Standing::Bad("is restarting".into()),
            ),
        ] {
            let sight = sight(view, &tasks);
            assert_eq!(sight.standing(), expected, "{tasks:?}");
            assert_eq!(sight.readiness(), Standing::Ready, "{tasks:?}");
        }
        let stopping = ConnectorView {
            state: ConnectorState::Draining,
            ..come_up()
        };
        let stopping = sight(stopping, &[RUNNING]);
        assert_eq!(stopping.readiness(), Standing::Coming("is stopping"));
    }

    #[test]
    fn a_trouble_before_it_has_come_up_and_a_failure_after_count() {
        let mut view = in_state(ConnectorState::Running);
        view.trouble = Some("broker 2 is gone".into());
        let bad = Standing::Bad("broker 2 is gone".into());
        assert_eq!(sight(view, &[RUNNING]).readiness(), bad);
        let mut view = in_state(ConnectorState::Failed("record x-0@7".into()));
        view.has_come_up = true;
        let bad = Standing::Bad("record x-0@7".into());
        assert_eq!(sight(view, &[RUNNING]).readiness(), bad);
    }

    #[test]
    fn a_restart_shows_in_the_connector_and_its_tasks_until_it_runs() {
        let mut view = in_state(ConnectorState::Draining);
        view.is_restarting = true;
        let restarting = sight(view, &[(TaskState::Stopped, false, true)]);
        assert_eq!(restarting.status, Status::Restarting);
        assert_eq!(restarting.tasks_in(Status::Restarting), 1);
    }

    #[test]
    fn a_task_that_is_replaced_is_restarting_and_a_new_one_unassigned() {
        let view = in_state(ConnectorState::Running);
        let between = (TaskState::Restarting, false, true);
        let tasks = [REPLACED, between, OPENING, down(true), RUNNING];
        let statuses = sight(view, &tasks).tasks;
        let names: Vec<_> = statuses.iter().map(|task| task.status.name()).collect();
        assert_eq!(
            names,
            [
                "RESTARTING",
                "RESTARTING",
                "UNASSIGNED",
                "RUNNING",
                "RUNNING"
            ]
        );
    }

    #[test]
    fn a_failed_connector_fails_its_tasks_with_its_cause() {
        let failed = || in_state(ConnectorState::Failed("record x-0@7".into()));
        let own = (TaskState::Failed("no such table".into()), false, true);
        let sight_of = |view| sight(view, &[RUNNING, own.clone()]);
        let failed_sight = sight_of(failed());
        assert_eq!(failed_sight.status.name(), "FAILED");
        assert_eq!(failed_sight.tasks_in(Status::Failed), 2);
        let traces: Vec<_> = failed_sight.tasks.iter().map(|it| &it.trace).collect();
        let expected = ["record x-0@7", "no such table"].map(|it| Some(Cause::from(it)));
        assert_eq!(traces, expected.each_ref());
        let running = sight_of(in_state(ConnectorState::Running));
        assert_eq!(running.tasks_in(Status::Failed), 1);
        assert_eq!(running.tasks[0].trace, None);
    }

    #[test]
    fn a_connector_that_never_started_has_no_task_that_could_fail() {
        let mut view = in_state(ConnectorState::Failed("no right to READ".into()));
        view.generation = 0;
        let refused = sight(view, &[OPENING]);
        assert_eq!(refused.tasks_in(Status::Unassigned), 1);
        assert_eq!(refused.tasks[0].trace, None);
    }
}
