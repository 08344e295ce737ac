//! What the pipeline knows about its records: the ledger, the queue and the
//! puts under way. Pure, the time is passed in; the actors feed it and carry
//! out what it answers.
//!
//! It outlives the actors, so that their death forgets no record.

mod acquisitions;
mod copies;
mod deliveries;
mod effects;
mod flushes;
mod hanging;
mod in_vain;
mod journal;
mod late;
mod letters;
mod lives;
mod locks;
mod notice;
mod parking;
mod passages;
mod policy;
mod puts;
mod rest;
mod settling;
mod shared;
mod terms;
#[cfg(test)]
pub(crate) mod tests;
mod waiting;

use std::sync::Arc;

use ahash::AHashMap;
use tokio::time::Instant;

pub use effects::{Effects, PutAside};
pub use notice::{Alike, Notice};
pub use policy::{Policy, Retriable, Tolerance};
pub use puts::{FlushEnd, Put, PutEnd};
pub use shared::SharedBooks;
pub use waiting::{DeadLetterTotals, Letter, Letters};

use crate::circuit::SharedCircuit;
use crate::credit::Credit;
use crate::intake::Intake;
use crate::ledger::{Entry, Ledger};
use crate::near_limit::NearLimit;
use crate::outcome::Rejection;
use crate::parking::Returns;
use crate::put_cost::PutCost;
use crate::record::{RecordId, SinkRecord, TopicId};
use crate::retry::RetryPolicy;
use crate::work_queue::WorkQueue;
use in_vain::InVain;
use journal::Journal;
use locks::LockTimes;
use puts::Puts;

/// A record that keeps failing.
#[derive(Clone, Copy, Debug)]
struct Failing {
    failures: u32,
    since: Instant,
    /// When it failed last.
    last: Instant,
    /// When its last try was handed out, if it hung.
    hung_since: Option<Instant>,
    /// Others were delivered between two of its failures.
    others_go_on: bool,
    /// How often the sink had become unavailable by then.
    outages: u64,
}

/// What went wrong with single records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorTotals {
    /// Failures that were to be tried again.
    pub transient: u64,
    /// Records that can never be delivered.
    pub rejected: u64,
    /// Those of them that were put aside, as the policy tolerates it.
    pub skipped: u64,
}

type DeliveryKey = (TopicId, i32, i64, u32);

/// See the module.
#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    intake: Intake,
    queue: WorkQueue,
    puts: Puts,
    failing: AHashMap<DeliveryKey, Failing>,
    in_vain: InVain,
    letters: Letters,
    /// Else the broker is told of records that are put aside.
    writes_dead_letters: bool,
    /// Records that would be rejected, with the reason, and cannot be now.
    withheld: AHashMap<DeliveryKey, (RecordId, Rejection)>,
    policy: Policy,
    credit: Arc<Credit>,
    circuit: Arc<SharedCircuit>,
    locks: LockTimes,
    journal: Journal,
    put_cost: PutCost,
    /// When what is being entered happened.
    now: Instant,
    /// When the locks were looked after last.
    watched_at: Option<Instant>,
    delivered: u64,
    delivered_at: Option<Instant>,
    /// When the newest put was handed out that something was delivered of.
    newest_taken: Option<Instant>,
    /// Where records are parked, if they are.
    parking_topic: Option<Arc<str>>,
    returns: Returns,
    /// Parked records do not wait for their time any more.
    hurries: bool,
    finished: u64,
    retries: u64,
    errors: ErrorTotals,
}

impl Books {
    #[must_use]
    pub fn new(policy: Policy, credit: Arc<Credit>) -> Self {
        let rest = RetryPolicy {
            timeout: None,
            ..policy.retry
        };
        Self {
            ledger: Ledger::default(),
            intake: Intake::default(),
            queue: WorkQueue::default(),
            puts: Puts::default(),
            failing: AHashMap::new(),
            in_vain: InVain::new(&policy),
            letters: Letters::default(),
            writes_dead_letters: false,
            withheld: AHashMap::new(),
            policy,
            credit,
            circuit: Arc::new(SharedCircuit::new(policy.tasks, rest)),
            locks: LockTimes::default(),
            journal: Journal::default(),
            put_cost: PutCost::default(),
            now: Instant::now(),
            watched_at: None,
            delivered: 0,
            delivered_at: None,
            newest_taken: None,
            parking_topic: None,
            returns: Returns::default(),
            hurries: false,
            finished: 0,
            retries: 0,
            errors: ErrorTotals::default(),
        }
    }

    /// The same, with dead letters for records that are put aside.
    #[must_use]
    pub fn with_dead_letters(policy: Policy, credit: Arc<Credit>) -> Self {
        Self {
            writes_dead_letters: true,
            ..Self::new(policy, credit)
        }
    }

    /// What is entered next happens now.
    pub const fn pass_time(&mut self, now: Instant) {
        self.now = now;
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    #[must_use]
    pub const fn queue(&self) -> &WorkQueue {
        &self.queue
    }

    /// Whether the sink takes records at all.
    #[must_use]
    pub const fn circuit(&self) -> &Arc<SharedCircuit> {
        &self.circuit
    }

    /// Records that wait for their conversion; the ledger has them already.
    pub const fn intake(&mut self) -> &mut Intake {
        &mut self.intake
    }

    /// Records that have come to an end for the sink so far, whichever; for
    /// rates.
    #[must_use]
    pub const fn finished(&self) -> u64 {
        self.finished
    }

    /// Outcomes *delivered* so far; for rates, not for guarantees.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    #[must_use]
    pub const fn retries(&self) -> u64 {
        self.retries
    }

    #[must_use]
    pub const fn errors(&self) -> ErrorTotals {
        self.errors
    }

    /// Open records that the broker would soon archive.
    #[must_use]
    pub fn near_limit(&self) -> Option<NearLimit> {
        let near_limit = self.policy.terms.gate.near_limit();
        let near = self.ledger.came_often(near_limit)?;
        Some(NearLimit {
            trace: self.trace_at(&near.example),
            ..near
        })
    }

    /// How often a record that is open may still be given back; none is.
    #[must_use]
    pub fn attempts_left(&self) -> Option<u16> {
        let count = self.ledger.highest_delivery_count()?;
        Some(self.policy.terms.gate.attempts_left(count))
    }
}

/// Where the record's lock is.
pub(crate) fn entry(record: &SinkRecord) -> Entry<'_> {
    let (partition, offset) = match &record.parked {
        Some(parked) => (&parked.place.partition, parked.place.offset),
        None => (&record.partition, record.offset),
    };
    Entry {
        partition,
        offset,
        acquisition: record.acquisition,
    }
}

fn entries(records: &[SinkRecord]) -> impl Iterator<Item = Entry<'_>> {
    records.iter().map(entry)
}
