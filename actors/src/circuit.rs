//! Whether a connector's sink takes records at all. Pure; the time is passed
//! in.
//!
//! Closed, all tasks put. A put that finds the sink unavailable opens it: no
//! put begins until the sink has rested, then one task alone probes. The answer
//! of anyone closes it, also of a put that was under way, and the tasks come
//! back one more with each answer, so that a sink that has just come back is
//! not run over.
//!
//! A sink may be unavailable to one task only. That one rests by itself, ever
//! longer, and from its second failure in a row on the others go on.

mod shared;

use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

pub use shared::SharedCircuit;

use crate::outcome::Cause;
use crate::retry::RetryPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Nobody puts until then.
    Open {
        until: Instant,
    },
    Probing {
        lease: u32,
    },
    /// So many tasks may put at once.
    Recovering {
        tasks: usize,
    },
}

/// For how long the sink has not taken records, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub cause: Cause,
    pub since: Instant,
}

/// A put that a task may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    Put,
    /// A small one, to find out whether the sink is back.
    Probe,
}

/// A put, or a flush of puts, that found the sink unavailable.
#[derive(Clone, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) task: u32,
    pub(crate) leases: &'a [u32],
    pub(crate) cause: &'a Cause,
    /// How long it will last, if the sink knows.
    pub(crate) lasts: Option<Duration>,
}

/// What a refusal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The circuit was closed before.
    pub(crate) has_opened: bool,
    /// How long this task leaves the sink alone, whatever the others do.
    pub(crate) rest: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct Circuit {
    state: State,
    tasks: usize,
    policy: RetryPolicy,
    /// Refusals in a row that (re)opened it, until it is wholly closed.
    failures: u32,
    /// Refusals in a row of tasks while the sink took records of others.
    ill: AHashMap<u32, u32>,
    outage: Option<Outage>,
    outages: u64,
}

impl Circuit {
    /// Of a connector with so many tasks; rests as the policy says.
    #[must_use]
    pub fn new(tasks: usize, policy: RetryPolicy) -> Self {
        Self {
            state: State::Closed,
            tasks,
            policy,
            failures: 0,
            ill: AHashMap::new(),
            outage: None,
            outages: 0,
        }
    }

    /// Why no task puts, if so.
    #[must_use]
    pub const fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// How often the sink has become unavailable.
    #[must_use]
    pub const fn outages(&self) -> u64 {
        self.outages
    }

    /// Whether all tasks may put.
    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// How many records may be open, if so few that it matters, while so many
    /// are: in an outage none is fetched, but for a probe when all that is in
    /// hand has been tried. The sink may refuse those alone.
    pub(crate) const fn bound(&self, open: usize) -> Option<usize> {
        match (&self.outage, self.failures as usize > open) {
            (None, _) => None,
            (Some(_), true) => Some(open + 1),
            (Some(_), false) => Some(0),
        }
    }

    /// When somebody may probe, if nobody does.
    pub(crate) const fn next_probe(&self) -> Option<Instant> {
        match self.state {
            State::Open { until } => Some(until),
            State::Closed | State::Probing { .. } | State::Recovering { .. } => None,
        }
    }

    /// Whether a task may begin a put while `others` are putting. A probe whose
    /// put is not open any more has died with its task.
    pub(crate) fn permit(
        &mut self,
        now: Instant,
        is_open: impl FnOnce(u32) -> bool,
        others: impl FnOnce() -> usize,
    ) -> Option<Permit> {
        if let State::Probing { lease } = self.state
            && !is_open(lease)
        {
            self.state = State::Open { until: now };
        }
        match self.state {
            State::Closed => Some(Permit::Put),
            State::Open { until } => (until <= now).then_some(Permit::Probe),
            State::Probing { .. } => None,
            State::Recovering { tasks } => (others() < tasks).then_some(Permit::Put),
        }
    }

    /// The permitted probe is this put.
    pub(crate) const fn probe(&mut self, lease: u32) {
        if matches!(self.state, State::Open { .. }) {
            self.state = State::Probing { lease };
        }
    }

    /// Whether a put that was permitted may still begin.
    pub(crate) const fn admits(&self, lease: u32) -> bool {
        match self.state {
            State::Closed | State::Recovering { .. } => true,
            State::Open { .. } => false,
            State::Probing { lease: probe } => probe == lease,
        }
    }

    /// The sink was unavailable. `jitter` is a random number from 0 to 1.
    pub(crate) fn refused(&mut self, refusal: &Refusal<'_>, now: Instant, jitter: f64) -> Refused {
        let mut refused = Refused {
            has_opened: false,
            rest: Duration::ZERO,
        };
        match self.state {
            // An outage that is known; its probes tell when it is over.
            State::Open { .. } => {}
            State::Probing { lease } if !refusal.leases.contains(&lease) => {}
            State::Probing { .. } => self.open(refusal, now, jitter),
            State::Closed | State::Recovering { .. } => {
                let times = self.ill.entry(refusal.task).or_default();
                *times += 1;
                refused.rest = self.policy.rest(refusal.lasts, *times, jitter);
                if *times == 1 {
                    refused.has_opened = true;
                    self.outages += 1;
                    self.open(refusal, now, jitter);
                }
            }
        }
        refused
    }

    fn open(&mut self, refusal: &Refusal<'_>, now: Instant, jitter: f64) {
        self.failures += 1;
        let rest = self.policy.rest(refusal.lasts, self.failures, jitter);
        // As good as for ever, if the sum is beyond all clocks.
        let until = now.checked_add(rest).unwrap_or(now + LONGEST_REST);
        self.state = State::Open { until };
        let since = self.outage.as_ref().map_or(now, |outage| outage.since);
        self.outage = Some(Outage {
            cause: refusal.cause.clone(),
            since,
        });
    }

    /// The sink has answered for what this task put. Returns how long the
    /// outage was that this ends, if it does.
    pub(crate) fn answered(&mut self, task: u32, now: Instant) -> Option<Duration> {
        self.ill.remove(&task);
        let tasks = match self.state {
            State::Closed => return None,
            State::Open { .. } | State::Probing { .. } => 2,
            State::Recovering { tasks } => tasks + 1,
        };
        self.state = State::Recovering { tasks };
        if tasks >= self.tasks {
            self.state = State::Closed;
            self.failures = 0;
        }
        let outage = self.outage.take()?;
        Some(now.saturating_duration_since(outage.since))
    }

    /// Puts came to an end that tells nothing about the sink.
    pub(crate) fn undecided(&mut self, leases: &[u32], now: Instant, jitter: f64) {
        if let State::Probing { lease } = self.state
            && leases.contains(&lease)
        {
            let until = now + self.policy.delay(self.failures, jitter);
            self.state = State::Open { until };
        }
    }
}

/// Longer than any worker lives.
const LONGEST_REST: Duration = Duration::from_secs(86_400 * 365);

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: usize = 4;

    struct Tried {
        circuit: Circuit,
        now: Instant,
    }

    impl Tried {
        fn new() -> Self {
            let policy = RetryPolicy {
                timeout: None,
                max_delay: Duration::from_secs(60),
            };
            Self {
                circuit: Circuit::new(TASKS, policy),
                now: Instant::now(),
            }
        }

        fn wait(&mut self, millis: u64) {
            self.now += Duration::from_millis(millis);
        }

        fn permit(&mut self, others: usize) -> Option<Permit> {
            self.circuit.permit(self.now, |_| true, || others)
        }

        fn refuse(&mut self, task: u32, lease: u32, lasts: Option<Duration>) -> Refused {
            let refusal = Refusal {
                task,
                leases: &[lease],
                cause: &"down".into(),
                lasts,
            };
            self.circuit.refused(&refusal, self.now, 1.0)
        }

        fn answer(&mut self, task: u32) -> Option<Duration> {
            self.circuit.answered(task, self.now)
        }

        /// The rest that follows when this probe fails.
        fn fail_probe(&mut self, lease: u32) -> u128 {
            let due = self.circuit.next_probe().unwrap();
            self.now = due;
            assert_eq!(self.permit(0), Some(Permit::Probe));
            self.circuit.probe(lease);
            self.refuse(0, lease, None);
            (self.circuit.next_probe().unwrap() - due).as_millis()
        }
    }

    #[test]
    fn one_refusal_stops_all_and_one_probes_after_the_rest() {
        let mut tried = Tried::new();
        assert_eq!(tried.permit(3), Some(Permit::Put));
        assert!(tried.refuse(0, 1, None).has_opened);
        assert!(!tried.circuit.admits(2), "handed out, and not begun");
        tried.wait(299);
        assert_eq!(tried.permit(0), None);
        tried.wait(1);
        assert_eq!(tried.permit(0), Some(Permit::Probe));
        tried.circuit.probe(7);
        assert_eq!(tried.permit(0), None, "one alone");
        assert!(tried.circuit.admits(7) && !tried.circuit.admits(8));
    }

    #[test]
    fn each_failed_probe_doubles_the_rest_up_to_its_maximum() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        let rests: Vec<u128> = (2..12).map(|lease| tried.fail_probe(lease)).collect();
        assert_eq!(rests[..3], [600, 1200, 2400]);
        assert_eq!(rests[9], 60_000);
        let outage = tried.circuit.outage().unwrap();
        assert!(tried.now - outage.since > Duration::from_secs(60));
        assert_eq!(tried.circuit.outages(), 1, "all the same one");
    }

    #[test]
    fn nothing_is_fetched_until_all_in_hand_was_tried_in_vain() {
        let mut tried = Tried::new();
        assert_eq!(tried.circuit.bound(3), None);
        tried.refuse(0, 1, None);
        assert_eq!(tried.circuit.bound(3), Some(0));
        assert_eq!(tried.circuit.bound(0), Some(1), "a probe needs one");
        for (lease, bound) in [(2, 0), (3, 0), (4, 4)] {
            tried.fail_probe(lease);
            assert_eq!(tried.circuit.bound(3), Some(bound));
        }
        assert_eq!(tried.circuit.bound(4), Some(0), "one for each probe");
        tried.answer(1);
        assert_eq!(tried.circuit.bound(3), None);
    }

    #[test]
    fn a_sink_that_says_for_how_long_is_probed_then() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, Some(Duration::from_secs(7)));
        tried.wait(7_000);
        assert_eq!(tried.permit(0), None);
        tried.wait(300);
        assert_eq!(tried.permit(0), Some(Permit::Probe));
        tried.circuit.probe(2);
        tried.refuse(0, 2, Some(Duration::MAX));
        tried.wait(86_400_000);
        assert_eq!(tried.permit(0), None);
    }

    #[test]
    fn tasks_come_back_one_more_with_each_answer() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        tried.wait(300);
        tried.circuit.probe(2);
        assert_eq!(tried.answer(1), Some(Duration::from_millis(300)));
        let allowed = |tried: &mut Tried| {
            let may = |others: &usize| tried.permit(*others).is_some();
            (0..100).take_while(may).count()
        };
        assert_eq!(allowed(&mut tried), 2);
        assert_eq!(tried.answer(1), None, "told once");
        assert_eq!(allowed(&mut tried), 3);
        tried.answer(2);
        assert_eq!(allowed(&mut tried), 100, "closed");
    }

    #[test]
    fn a_refusal_on_the_way_back_rests_longer_than_the_first() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        tried.wait(300);
        tried.answer(1);
        assert!(tried.refuse(2, 5, None).has_opened);
        tried.wait(599);
        assert_eq!(tried.permit(0), None);
        tried.wait(1);
        assert_eq!(tried.permit(0), Some(Permit::Probe));
    }

    #[test]
    fn others_answers_close_it_and_an_ill_task_rests_alone() {
        let mut tried = Tried::new();
        let mut rests = Vec::new();
        for round in 0..4 {
            let refused = tried.refuse(3, round, None);
            rests.push(refused.rest.as_millis());
            assert_eq!(refused.has_opened, round == 0);
            if round == 0 {
                assert_eq!(tried.permit(0), None);
                tried.answer(0);
            }
            assert_eq!(tried.permit(1), Some(Permit::Put), "the others go on");
        }
        assert_eq!(rests, [300, 600, 1200, 2400]);
        tried.answer(3);
        assert!(tried.refuse(3, 9, None).has_opened, "it was well again");
    }

    #[test]
    fn those_who_were_under_way_when_it_opened_add_nothing() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        for task in 1..4 {
            let refused = tried.refuse(task, 10 + task, None);
            assert_eq!(refused.rest, Duration::ZERO);
        }
        tried.wait(300);
        assert_eq!(tried.permit(0), Some(Permit::Probe));
        tried.circuit.probe(20);
        tried.refuse(1, 15, None);
        assert!(tried.circuit.admits(20), "not the probe's answer");
    }

    #[test]
    fn a_probe_that_tells_nothing_or_dies_is_followed_by_another() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        tried.wait(300);
        tried.circuit.probe(2);
        tried.circuit.undecided(&[2], tried.now, 1.0);
        assert_eq!(tried.permit(0), None, "not in a loop");
        tried.wait(300);
        assert_eq!(tried.permit(0), Some(Permit::Probe));
        tried.circuit.probe(3);
        let died = tried.circuit.permit(tried.now, |_| false, || 0);
        assert_eq!(died, Some(Permit::Probe));
    }

    #[test]
    fn a_permit_that_comes_after_the_answer_is_no_probe() {
        let mut tried = Tried::new();
        tried.refuse(0, 1, None);
        tried.answer(1);
        tried.circuit.probe(2);
        assert!(tried.circuit.admits(3));
    }
}
