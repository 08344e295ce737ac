//! One look at a worker, for status, health and metrics: taken from the live
//! view without waiting for anyone.

use std::sync::Arc;

use sluice_actors::live_view::{ConnectorState, ConnectorView, LiveView, TaskState};
use sluice_actors::meters::TaskFigures;
use sluice_actors::outcome::Cause;
use tokio::time::Instant;

use super::rates::{ConnectorRates, Rates, TaskRates};

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
    pub figures: TaskFigures,
    pub rates: TaskRates,
}

impl TaskSight {
    /// Why it does not run, or not now.
    #[must_use]
    pub const fn cause(&self) -> Option<&Cause> {
        match &self.state {
            TaskState::Failed(cause) | TaskState::BackingOff(cause) => Some(cause),
            TaskState::Opening
            | TaskState::Running
            | TaskState::Restarting
            | TaskState::Stopped => None,
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
            TaskSight {
                id,
                status: status_of_task(&connector, &state),
                state,
                figures: figures.map_or_else(TaskFigures::default, |(_, figures)| *figures),
                rates: rates.task(&name, id),
            }
        });
        Some(Self {
            tasks: tasks.collect(),
            rates: rates.connector(&name),
            status: status(&connector),
            view: connector,
            name,
            at,
        })
    }

    /// Why it has failed.
    #[must_use]
    pub const fn failure(&self) -> Option<&Cause> {
        match &self.view.state {
            ConnectorState::Failed(cause) => Some(cause),
            ConnectorState::Starting
            | ConnectorState::Running
            | ConnectorState::Draining
            | ConnectorState::Stopped => None,
        }
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        if let Some(cause) = self.failure() {
            return Standing::Bad(Arc::clone(cause));
        }
        if self.view.is_restarting {
            return Standing::Bad("is restarting".into());
        }
        if let Some(trouble) = &self.view.trouble {
            return Standing::Bad(Arc::clone(trouble));
        }
        match self.view.state {
            ConnectorState::Starting => Standing::Coming("joins its group"),
            ConnectorState::Draining | ConnectorState::Stopped => Standing::Coming("is stopping"),
            ConnectorState::Running | ConnectorState::Failed(_) => self.sinks(),
        }
    }

    /// One open sink is enough to deliver; a worker is ready only when none is
    /// still being opened.
    fn sinks(&self) -> Standing {
        let is_opening = |task: &TaskSight| matches!(task.state, TaskState::Opening);
        if self.tasks.iter().any(is_opening) {
            return Standing::Coming("opens its sinks");
        }
        if self.tasks.iter().any(|task| task.figures.opened) {
            return Standing::Ready;
        }
        let cause = self.tasks.iter().find_map(TaskSight::cause);
        cause.map_or(Standing::Coming("opens its sinks"), |cause| {
            Standing::Bad(Arc::clone(cause))
        })
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

/// A sink that cannot take records now is still the task's affair: it runs.
const fn status_of_task(connector: &ConnectorView, state: &TaskState) -> Status {
    if connector.is_restarting {
        return Status::Restarting;
    }
    match state {
        TaskState::Running | TaskState::BackingOff(_) => Status::Running,
        TaskState::Failed(_) => Status::Failed,
        TaskState::Restarting => Status::Restarting,
        TaskState::Opening | TaskState::Stopped => Status::Unassigned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(view: ConnectorView, tasks: &[(TaskState, bool)]) -> ConnectorSight {
        let tasks = tasks
            .iter()
            .enumerate()
            .map(|(id, (state, opened))| TaskSight {
                id: id as u32,
                status: status_of_task(&view, state),
                state: state.clone(),
                figures: TaskFigures {
                    opened: *opened,
                    ..TaskFigures::default()
                },
                rates: TaskRates::default(),
            });
        ConnectorSight {
            name: "orders".into(),
            at: Instant::now(),
            tasks: tasks.collect(),
            rates: ConnectorRates::default(),
            status: status(&view),
            view,
        }
    }

    fn in_state(state: ConnectorState) -> ConnectorView {
        ConnectorView {
            state,
            ..ConnectorView::default()
        }
    }

    #[test]
    fn ready_is_joined_and_with_an_open_sink() {
        use TaskState::{BackingOff, Opening, Running};
        let running = || in_state(ConnectorState::Running);
        let down = || BackingOff("down".into());
        for (tasks, expected) in [
            (vec![(Running, true), (Running, true)], Standing::Ready),
            (vec![(Running, true), (down(), false)], Standing::Ready),
            (vec![(down(), true)], Standing::Ready),
            (vec![(down(), false)], Standing::Bad("down".into())),
            (
                vec![(Running, true), (Opening, false)],
                Standing::Coming("opens its sinks"),
            ),
        ] {
            assert_eq!(sight(running(), &tasks).standing(), expected, "{tasks:?}");
        }
        let starting = sight(ConnectorView::default(), &[(Running, true)]);
        assert_eq!(starting.standing(), Standing::Coming("joins its group"));
        let mut troubled = running();
        troubled.trouble = Some("broker 2 is gone".into());
        let troubled = sight(troubled, &[(Running, true)]);
        assert_eq!(
            troubled.standing(),
            Standing::Bad("broker 2 is gone".into())
        );
    }

    #[test]
    fn a_restart_shows_in_the_connector_and_its_tasks_until_it_runs() {
        let mut view = in_state(ConnectorState::Draining);
        view.is_restarting = true;
        let restarting = sight(view, &[(TaskState::Stopped, false)]);
        assert_eq!(restarting.status, Status::Restarting);
        assert_eq!(restarting.tasks_in(Status::Restarting), 1);
        let failed = in_state(ConnectorState::Failed("record x-0@7".into()));
        let failed = sight(failed, &[(TaskState::Running, true)]);
        assert_eq!(failed.status.name(), "FAILED");
        assert_eq!(failed.tasks_in(Status::Running), 1);
        assert_eq!(failed.failure().map(|it| &**it), Some("record x-0@7"));
    }
}
