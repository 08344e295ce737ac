//! Whether a connector's sink takes records at all. Pure; the time is passed
//! in.
//!
//! Closed, all tasks put. A put that finds the sink unavailable opens it, and
//! so do puts that hang one after the other: no put begins until the sink has rested, then one task alone probes. The answer
//! of anyone closes it, also of a put that was under way, and the tasks come
//! back one more with each answer, so that a sink that has just come back is
//! not run over.
//!
//! Many records that fail one after the other are an outage too. Each has a
//! back-off of its own, so they are tried on as before, and a sink that takes
//! one now and then is not kept from it; but no more are fetched.
//!
//! A sink may be unavailable to one task only. That one rests by itself, ever
//! longer, and from its second failure in a row on the others go on.

mod shared;

use std::time::Duration;

use ahash::AHashMap;
use tokio::time::Instant;

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

/// What there is in a row, while nothing is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vain {
    Records(usize),
    /// That took too long.
    Puts(usize),
}

impl Vain {
    fn told(self, cause: &Cause) -> Cause {
        let what = match self {
            Self::Records(records) => format!("{records} records and more failed in a row"),
            Self::Puts(puts) => {
                format!("{puts} puts in a row took longer than share.delivery.timeout.ms")
            }
        };
        cause.behind(&format!("{what}, none was delivered since"))
    }
}

/// An outage that no put has told of as such. The records in hand may be to
/// blame, all of them, so that others are let in: one, ever later.
#[derive(Clone, Copy, Debug)]
struct InVain {
    vain: Vain,
    limit: usize,
    let_in: u32,
    next_at: Instant,
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

    /// How many records may be open, if so few that it matters, while so many
    /// are: in an outage none is fetched, but for a probe when all that is in
    /// hand has been tried. The sink may refuse those alone. Where what is in
    /// hand is tried on anyway, one more is let in after each rest.
    pub(crate) fn bound(&mut self, open: usize, now: Instant) -> Option<usize> {
        self.outage.as_ref()?;
        let Some(in_vain) = &mut self.in_vain else {
            let all_tried = self.failures as usize > open;
            return Some(if all_tried { open + 1 } else { 0 });
        };
        if in_vain.next_at <= now {
            in_vain.let_in += 1;
            in_vain.limit = open + 1;
            in_vain.next_at = now + self.policy.delay(in_vain.let_in, 1.0);
        }
        Some(in_vain.limit)
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
    /// unavailable, if that is new.
    pub(crate) fn in_vain(
        &mut self,
        vain: Vain,
        cause: &Cause,
        now: Instant,
        jitter: f64,
    ) -> Option<Cause> {
        if matches!(self.state, State::Open { .. } | State::Probing { .. }) {
            return None;
        }
        let is_new = self.outage.is_none();
        let in_vain = InVain {
            vain,
            limit: 0,
            let_in: 0,
            next_at: now + self.policy.delay(1, jitter),
        };
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
        }
    }

    fn open(&mut self, cause: &Cause, lasts: Option<Duration>, now: Instant, jitter: f64) {
        self.failures += 1;
        let rest = self.policy.rest(lasts, self.failures, jitter);
        // As good as for ever, if the sum is beyond all clocks.
        let until = now.checked_add(rest).unwrap_or(now + LONGEST_REST);
        self.state = State::Open { until };
        self.begin(cause, now);
    }

    /// An outage, which may go on already.
    fn begin(&mut self, cause: &Cause, now: Instant) {
        let cause = match self.in_vain {
            Some(in_vain) => in_vain.vain.told(cause),
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
        self.in_vain = None;
        let outage = self.outage.take()?;
        Some(now.saturating_duration_since(outage.since))
    }

    /// The sink took or rejected a record of all those that it is thought to
    /// take none of: whoever told so may not have heard of it yet. Returns how
    /// long the outage was that this ends, if it does.
    pub(crate) fn is_there(&mut self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Holding => self.let_in(now),
            _ => None,
        }
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
