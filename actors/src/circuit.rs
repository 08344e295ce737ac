//! Whether a connector's sink takes records at all. Pure; the time is passed
//! in.
//!
//! Closed, all tasks put. A put that finds the sink unavailable opens it, and
//! so do puts that hang one after the other: no put begins until the sink has
//! rested, then one task alone probes. The answer of anyone closes it, also of
//! a put that was under way, and the tasks come back one more with each answer,
//! so that a sink that has just come back is not run over.
//!
//! Many records that fail one after the other are an outage too. Each has a
//! back-off of its own, so they are tried on as before, and a sink that takes
//! one now and then is not kept from it; but others are only let in after ever
//! longer rests, ever more of them.
//!
//! An outage that a put tells of begins and ends by what the tasks hear. One
//! that shows in a row of records or puts does by the books, which have the
//! row: the two cannot differ.
//!
//! A sink may be unavailable to one task only. That one rests by itself, ever
//! longer, and from its second failure in a row on the others go on.

mod in_vain;
mod shared;

use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

use in_vain::InVain;
pub(crate) use in_vain::{Fetch, InHand, Vain};
pub use shared::SharedCircuit;
pub(crate) use shared::{log_begin, log_end};

use crate::outcome::Cause;
use crate::retry::RetryPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// All put what is in hand, in vain so far.
    Holding,
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
    in_vain: Option<InVain>,
    /// The last probe was told to try again, not that the sink is unavailable.
    probe_failed: bool,
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
            in_vain: None,
            probe_failed: false,
            ill: AHashMap::new(),
            outage: None,
            outages: 0,
        }
    }

    /// Why the sink takes no records, if so.
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

    /// How many such records may be open, if so few that it matters, while
    /// so many are: in an outage none is fetched, but for a probe when all that
    /// is in hand has been tried. The sink may refuse those alone. Where all in
    /// hand came to nothing others are let in after each rest.
    pub(crate) fn bound(&mut self, fetch: Fetch, hand: InHand, now: Instant) -> Option<usize> {
        self.outage.as_ref()?;
        if let Some(in_vain) = &mut self.in_vain {
            return Some(in_vain.bound(fetch, hand, &self.policy, now));
        }
        let all_tried = self.failures as usize > hand.open;
        let may_probe = all_tried && fetch == Fetch::OfTopics;
        Some(if may_probe { hand.open + 1 } else { 0 })
    }

    /// When somebody may probe, if nobody does.
    pub(crate) const fn next_probe(&self) -> Option<Instant> {
        match self.state {
            State::Open { until } => Some(until),
            State::Closed | State::Holding | State::Probing { .. } | State::Recovering { .. } => {
                None
            }
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
            State::Closed | State::Holding => Some(Permit::Put),
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
            State::Closed | State::Holding | State::Recovering { .. } => true,
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
            State::Probing { .. } => self.open(refusal.cause, refusal.lasts, now, jitter),
            State::Closed | State::Holding | State::Recovering { .. } => {
                let times = self.ill.entry(refusal.task).or_default();
                *times += 1;
                refused.rest = self.policy.rest(refusal.lasts, *times, jitter);
                if *times == 1 {
                    refused.has_opened = self.outage.is_none();
                    self.in_vain = None;
                    self.open(refusal.cause, refusal.lasts, now, jitter);
                }
            }
        }
        refused
    }

    /// So much came to nothing in a row. Returns why the sink counts as
    /// unavailable, if that is new. A sink that said so once, and then only that
    /// records may be tried again, is left to the back-offs of these.
    pub(crate) fn in_vain(
        &mut self,
        vain: Vain,
        cause: &Cause,
        now: Instant,
        jitter: f64,
    ) -> Option<Cause> {
        let may_hold = self.probe_failed && matches!(vain, Vain::Records(_));
        match self.state {
            State::Open { .. } if may_hold => {}
            State::Open { .. } | State::Probing { .. } => return None,
            State::Closed | State::Holding | State::Recovering { .. } => {}
        }
        let is_new = self.outage.is_none();
        let first_rest = self.policy.delay(1, jitter);
        let in_vain = InVain::new(vain, now + first_rest);
        self.in_vain.get_or_insert(in_vain).vain = vain;
        match vain {
            Vain::Records(_) => {
                self.state = State::Holding;
                self.begin(cause, now);
            }
            Vain::Puts(_) => self.open(cause, None, now, jitter),
        }
        let outage = self.outage.as_ref().filter(|_| is_new);
        outage.map(|outage| outage.cause.clone())
    }

    /// These puts came to nothing, for a reason that may pass. It keeps an
    /// outage going when they were to tell whether it is over.
    pub(crate) fn failed(&mut self, leases: &[u32], cause: &Cause, now: Instant, jitter: f64) {
        if let State::Probing { lease } = self.state
            && leases.contains(&lease)
        {
            self.open(cause, None, now, jitter);
            self.probe_failed = true;
        }
    }

    fn open(&mut self, cause: &Cause, lasts: Option<Duration>, now: Instant, jitter: f64) {
        self.failures += 1;
        self.probe_failed = false;
        let rest = self.policy.rest(lasts, self.failures, jitter);
        // As good as for ever, if the sum is beyond all clocks.
        let until = now.checked_add(rest).unwrap_or(now + LONGEST_REST);
        self.state = State::Open { until };
        self.begin(cause, now);
    }

    /// An outage, which may go on already.
    fn begin(&mut self, cause: &Cause, now: Instant) {
        let cause = match self.in_vain {
            Some(in_vain) => in_vain.told(cause),
            None => cause.clone(),
        };
        if let Some(outage) = &mut self.outage {
            outage.cause = cause;
        } else {
            self.outages += 1;
            self.outage = Some(Outage { cause, since: now });
        }
    }

    /// The sink has answered for what this task put. Returns how long the
    /// outage was that this ends, if it does.
    pub(crate) fn answered(&mut self, task: u32, now: Instant) -> Option<Duration> {
        self.ill.remove(&task);
        match self.in_vain {
            Some(_) => None,
            None => self.let_in(now),
        }
    }

    /// The row of what came to nothing is over. Returns how long the outage was
    /// that this ends, if it was one.
    pub(crate) fn not_in_vain(&mut self, now: Instant) -> Option<Duration> {
        self.in_vain.take()?;
        self.let_in(now)
    }

    /// One more task, or all.
    fn let_in(&mut self, now: Instant) -> Option<Duration> {
        let tasks = match self.state {
            State::Closed => return None,
            // They never left.
            State::Holding => self.tasks,
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
mod tests;
