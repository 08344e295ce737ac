//! What is going on, for status, health and metrics to read without a mailbox.

use std::sync::Arc;
use std::time::SystemTime;

use dashmap::DashMap;

use crate::books::{Books, DeadLetterTotals, ErrorTotals};
use crate::circuit::Outage;
use crate::kill_switch::KillSwitch;
use crate::ledger::{Pin, Times, Totals};
use crate::meters::{Phase, TaskFigures, TaskMeter};
use crate::outcome::Cause;
use crate::starts::StartMeter;

/// A connector's state on this worker; the names are Connect's, and ours for
/// what Connect does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConnectorState {
    /// Not joined, or no session on some leader yet.
    #[default]
    Starting,
    Running,
    /// Fetches no more; the operator must mend the cause.
    Failed(Cause),
    Draining,
    Stopped,
}

impl ConnectorState {
    /// Why it has failed.
    #[must_use]
    pub const fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Failed(cause) => Some(cause),
            Self::Starting | Self::Running | Self::Draining | Self::Stopped => None,
        }
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Failed(_) => "FAILED",
            Self::Draining => "DRAINING",
            Self::Stopped => "STOPPED",
        }
    }
}

/// Where a group stands on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub topic: Arc<str>,
    pub partition: i32,
    /// The first offset that is not done.
    pub start_offset: i64,
    /// Records that the group has still to deliver, if the broker knows.
    pub lag: Option<u64>,
}

/// One connector on this worker.
#[derive(Clone, Debug, Default)]
pub struct ConnectorView {
    pub state: ConnectorState,
    /// What of the source, or of starting, does not work now and is being
    /// tried again.
    pub trouble: Option<Cause>,
    /// Why letters fail, while some do, and whether nothing is fetched for that.
    pub letter_trouble: Option<Cause>,
    /// What of the group's settings is in the way.
    pub group_trouble: Option<Cause>,
    /// The operator wants it to begin anew; not over yet.
    pub is_restarting: bool,
    /// It was at work once: joined, and with its sinks open, but for those that
    /// could not be opened. A restart does not undo that.
    pub has_come_up: bool,
    pub totals: Totals,
    pub times: Times,
    pub errors: ErrorTotals,
    /// Why no task puts, if the sink takes no records now.
    pub outage: Option<Outage>,
    /// How often it became so.
    pub outages: u64,
    /// Failed records that the log has told of, as `errors.log.enable` wants it.
    pub errors_logged: u64,
    /// When a record failed last.
    pub last_error: Option<SystemTime>,
    pub delivered: u64,
    pub retries: u64,
    /// Open records, those of them that wait for a task, for their time, and
    /// for the operator.
    pub in_flight: usize,
    pub queued: usize,
    pub waiting: usize,
    pub held: usize,
    /// Those that wait for their dead letters, or to be parked.
    pub letters_waiting: usize,
    pub letters: DeadLetterTotals,
    pub held_bytes: usize,
    pub window: usize,
    /// The offset that keeps each partition back, the one that has done so
    /// longest first.
    pub pins: Vec<Pin>,
    /// `share.delivery.count.limit`, as it was read last.
    pub delivery_limit: u16,
    /// How often the record that came most often may still be given back.
    pub attempts_left: Option<u16>,
    /// Open records that came again, and may be given back once more at most.
    pub near_limit: usize,
    /// Topics that records have come from.
    pub topics: Vec<Arc<str>>,
    /// Records that the group has still to deliver, as the broker told last.
    pub lag: Option<u64>,
    /// Parked records that are still to be delivered.
    pub parked_lag: Option<u64>,
    /// Where the group stands, as the broker told last.
    pub positions: Option<Arc<[Position]>>,
    pub generation: u32,
    pub tasks_replaced: u64,
    /// How often an actor had to wait for another's mailbox.
    pub mailbox_waits: u64,
}

impl ConnectorView {
    /// What does not work now and is being tried again.
    #[must_use]
    pub fn trouble(&self) -> Option<&Cause> {
        let trouble = self.trouble.as_ref().or(self.letter_trouble.as_ref());
        trouble.or(self.group_trouble.as_ref())
    }

    /// Takes over what the books count.
    pub(crate) fn show(&mut self, books: &Books, held_bytes: usize, errors_logged: u64) {
        let (ledger, queue) = (books.ledger(), books.queue());
        self.totals = ledger.totals();
        self.times = *ledger.times();
        if self.errors != books.errors() {
            self.errors = books.errors();
            self.last_error = Some(SystemTime::now());
        }
        self.errors_logged = errors_logged;
        self.outage = books.circuit().outage();
        self.outages = books.circuit().outages();
        self.delivered = books.delivered();
        self.retries = books.retries();
        self.in_flight = ledger.open();
        self.held = ledger.held();
        self.queued = queue.ready();
        self.waiting = queue.waiting();
        self.held_bytes = held_bytes;
        let letters = books.letters();
        self.letter_trouble = letters.told_trouble();
        self.letters_waiting = letters.len();
        self.letters = letters.totals();
        self.pins = books.pins();
        self.delivery_limit = books.terms().gate.delivery_count_limit();
    }
}

/// A task's state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TaskState {
    /// The sink is being opened.
    #[default]
    Opening,
    Running,
    /// The sink cannot take records now.
    BackingOff(Cause),
    Failed(Cause),
    /// Being closed, for another one to take its place.
    Restarting,
    Stopped,
}

impl TaskState {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Opening => "OPENING",
            Self::Running => "RUNNING",
            Self::BackingOff(_) => "BACKING_OFF",
            Self::Failed(_) => "FAILED",
            Self::Restarting => "RESTARTING",
            Self::Stopped => "STOPPED",
        }
    }

    const fn phase(&self) -> Phase {
        match self {
            Self::Running => Phase::Running,
            Self::BackingOff(_) => Phase::Resting,
            Self::Opening | Self::Failed(_) | Self::Restarting | Self::Stopped => Phase::Other,
        }
    }

    /// Why it does not run, or not now.
    #[must_use]
    pub const fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Failed(cause) | Self::BackingOff(cause) => Some(cause),
            Self::Opening | Self::Running | Self::Restarting | Self::Stopped => None,
        }
    }
}

/// The live view of one worker.
#[derive(Debug, Default)]
pub struct LiveView {
    connectors: DashMap<Arc<str>, ConnectorView>,
    tasks: DashMap<(Arc<str>, u32), TaskState>,
    meters: DashMap<(Arc<str>, u32), Arc<TaskMeter>>,
    connector_starts: StartMeter,
    task_starts: StartMeter,
}

impl LiveView {
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    #[must_use]
    pub fn connector(&self, name: &str) -> Option<ConnectorView> {
        self.connectors.get(name).map(|view| view.clone())
    }

    /// All connectors, by name.
    #[must_use]
    pub fn connectors(&self) -> Vec<(Arc<str>, ConnectorView)> {
        let mut views: Vec<_> = self
            .connectors
            .iter()
            .map(|entry| (Arc::clone(entry.key()), entry.value().clone()))
            .collect();
        views.sort_by(|one, other| one.0.cmp(&other.0));
        views
    }

    /// A connector's tasks, by number.
    #[must_use]
    pub fn tasks(&self, connector: &str) -> Vec<(u32, TaskState)> {
        let mut tasks: Vec<_> = self
            .tasks
            .iter()
            .filter(|entry| &*entry.key().0 == connector)
            .map(|entry| (entry.key().1, entry.value().clone()))
            .collect();
        tasks.sort_by_key(|(task, _)| *task);
        tasks
    }

    /// What a connector's tasks count, by number.
    #[must_use]
    pub fn figures(&self, connector: &str) -> Vec<(u32, TaskFigures)> {
        let mut figures: Vec<_> = self
            .meters
            .iter()
            .filter(|entry| &*entry.key().0 == connector)
            .map(|entry| (entry.key().1, entry.value().figures()))
            .collect();
        figures.sort_by_key(|(task, _)| *task);
        figures
    }

    /// Starts of all connectors, each try of its own.
    #[must_use]
    pub const fn connector_starts(&self) -> &StartMeter {
        &self.connector_starts
    }

    /// Starts of all tasks, replacements among them. A task has started once
    /// its sink is open.
    #[must_use]
    pub const fn task_starts(&self) -> &StartMeter {
        &self.task_starts
    }

    /// A connector that is known, and not started yet.
    pub fn enter(&self, name: &str) {
        self.update(&name.into(), |_| {});
    }

    /// The operator wants a connector to begin anew.
    pub fn restarting(&self, name: &str) {
        self.update(&name.into(), |view| view.is_restarting = true);
    }

    /// The operator's wish was not granted.
    pub fn not_restarting(&self, name: &str) {
        self.update(&name.into(), |view| view.is_restarting = false);
    }

    /// A connector begins anew; what it counted before is gone with its
    /// pipeline.
    pub fn begin_anew(&self, name: &str) {
        self.update(&name.into(), |view| {
            *view = ConnectorView {
                is_restarting: true,
                has_come_up: view.has_come_up,
                topics: std::mem::take(&mut view.topics),
                lag: view.lag,
                parked_lag: view.parked_lag,
                positions: view.positions.take(),
                ..ConnectorView::default()
            };
        });
        self.tasks.retain(|(connector, _), _| &**connector != name);
        self.meters.retain(|(connector, _), _| &**connector != name);
    }

    /// Whether a connector's source has joined, and nothing is the matter with
    /// it.
    pub(crate) fn is_up(&self, name: &str) -> bool {
        let is_up =
            |view: &ConnectorView| view.trouble.is_none() && view.state == ConnectorState::Running;
        self.connectors.get(name).is_some_and(|view| is_up(&view))
    }

    /// Notes when a connector has come up.
    pub(crate) fn note_come_up(&self, name: &Arc<str>) {
        let is_news = self.connectors.get(name).is_some_and(|it| !it.has_come_up);
        if is_news && self.is_up(name) && self.have_sinks_come_up(name) {
            self.update(name, |view| view.has_come_up = true);
        }
    }

    /// One that dies and is replaced has come up all the same.
    fn have_sinks_come_up(&self, connector: &str) -> bool {
        let (states, figures) = (self.tasks(connector), self.figures(connector));
        let is_closed_for_now = |task: &u32| {
            let mut states = states.iter();
            states.any(|(id, state)| id == task && state.cause().is_some())
        };
        let mut tasks = figures.iter();
        figures.iter().any(|(_, it)| it.has_opened)
            && tasks.all(|(task, it)| it.has_opened || is_closed_for_now(task))
    }

    /// What the broker told of the parking topic; nothing, if that is out of
    /// date.
    pub fn set_parked_lag(&self, name: &str, lag: Option<u64>) {
        self.update(&name.into(), |view| view.parked_lag = lag);
    }

    /// What the broker told of a group; nothing, if that is out of date.
    pub fn set_group(&self, name: &str, lag: Option<u64>, positions: Option<Arc<[Position]>>) {
        self.update(&name.into(), |view| {
            view.lag = lag;
            view.positions = positions;
        });
    }

    /// What of a group's settings is in the way, if anything is.
    pub fn set_group_trouble(&self, name: &str, trouble: Option<Cause>) {
        self.update(&name.into(), |view| view.group_trouble = trouble);
    }

    /// A connector that never started.
    pub fn fail(&self, name: &str, cause: Cause) {
        self.update(&name.into(), |view| {
            view.state = ConnectorState::Failed(cause);
            view.is_restarting = false;
        });
    }

    /// Something that is being tried again.
    pub fn trouble(&self, name: &str, cause: Cause) {
        self.update(&name.into(), |view| view.trouble = Some(cause));
    }

    pub(crate) fn update(&self, name: &Arc<str>, change: impl FnOnce(&mut ConnectorView)) {
        change(&mut self.connectors.entry(Arc::clone(name)).or_default());
    }

    /// For an actor that may have been given up: it shows nothing any more
    /// then, since another one is shown by that name.
    pub(crate) fn update_by(
        &self,
        kill: &KillSwitch,
        name: &Arc<str>,
        change: impl FnOnce(&mut ConnectorView),
    ) {
        let view = self.connectors.entry(Arc::clone(name));
        // Looked at under the lock: who takes its place comes after the kill.
        if !kill.is_dead() {
            change(&mut view.or_default());
        }
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self, connector: &str) -> bool {
        self.connectors.try_get_mut(connector).is_locked()
    }

    pub(crate) fn meter(&self, connector: &Arc<str>, task: u32) -> Arc<TaskMeter> {
        let meter = self.meters.entry((Arc::clone(connector), task));
        Arc::clone(&meter.or_default())
    }

    /// For the supervisor, who gives tasks up.
    pub(crate) fn set_task(&self, connector: &Arc<str>, task: u32, state: TaskState) {
        let view = self.tasks.entry((Arc::clone(connector), task));
        self.meter_state(connector, task, &state);
        view.insert(state);
    }

    /// For a task that may have been given up, as [`Self::update_by`].
    pub(crate) fn set_task_by(
        &self,
        kill: &KillSwitch,
        connector: &Arc<str>,
        task: u32,
        state: TaskState,
    ) {
        let view = self.tasks.entry((Arc::clone(connector), task));
        if !kill.is_dead() {
            self.meter_state(connector, task, &state);
            view.insert(state);
        }
    }

    fn meter_state(&self, connector: &Arc<str>, task: u32, state: &TaskState) {
        let meter = self.meter(connector, task);
        meter.enter(state.phase());
        if !matches!(state, TaskState::Running | TaskState::BackingOff(_)) {
            meter.set_opened(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_given_up_shows_nothing_in_the_place_of_another() {
        let (view, name) = (LiveView::new(), Arc::from("test"));
        let (old, new) = (KillSwitch::default(), KillSwitch::default());
        let window = |window| move |view: &mut ConnectorView| view.window = window;
        let failed = || TaskState::Failed("late".into());
        view.update_by(&old, &name, window(1));
        view.set_task_by(&old, &name, 0, failed());
        assert_eq!(view.connector("test").unwrap().window, 1);
        assert_eq!(view.tasks("test"), [(0, failed())]);
        old.throw();
        view.update_by(&new, &name, window(2));
        view.set_task_by(&new, &name, 0, TaskState::Running);
        view.update_by(&old, &name, window(3));
        view.set_task_by(&old, &name, 0, failed());
        assert_eq!(view.connector("test").unwrap().window, 2);
        assert_eq!(view.tasks("test"), [(0, TaskState::Running)]);
    }

    /// A connector of two tasks that has joined.
    fn joined() -> (LiveView, Arc<str>) {
        let (view, name) = (LiveView::default(), Arc::from("orders"));
        view.update(&name, |view| view.state = ConnectorState::Running);
        for task in 0..2 {
            view.meter(&name, task);
            view.set_task(&name, task, TaskState::Opening);
        }
        (view, name)
    }

    fn has_come_up(view: &LiveView, name: &Arc<str>) -> bool {
        view.note_come_up(name);
        view.connector(name).unwrap().has_come_up
    }

    #[test]
    fn a_connector_has_come_up_once_each_sink_was_open() {
        let (view, name) = joined();
        view.meter(&name, 0).set_opened(true);
        assert!(!has_come_up(&view, &name));
        // The first one is replaced before the second one opens.
        view.set_task(&name, 0, TaskState::Restarting);
        assert!(!view.figures(&name)[0].1.opened);
        view.meter(&name, 1).set_opened(true);
        assert!(has_come_up(&view, &name));
        view.begin_anew(&name);
        assert!(has_come_up(&view, &name), "also after a restart");
    }

    #[test]
    fn a_sink_that_cannot_be_opened_holds_the_others_not_back() {
        for state in [
            TaskState::Failed("no such table".into()),
            TaskState::BackingOff("refused".into()),
        ] {
            let (view, name) = joined();
            view.set_task(&name, 1, state);
            assert!(!has_come_up(&view, &name), "none is open");
            view.meter(&name, 0).set_opened(true);
            assert!(has_come_up(&view, &name));
        }
    }

    #[test]
    fn a_connector_in_trouble_has_not_come_up() {
        let (view, name) = joined();
        for task in 0..2 {
            view.meter(&name, task).set_opened(true);
        }
        view.trouble(&name, "broker 2 is gone".into());
        assert!(!has_come_up(&view, &name));
        view.update(&name, |view| view.trouble = None);
        assert!(has_come_up(&view, &name));
    }
}
