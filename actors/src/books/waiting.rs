//! Letters that are not written yet: dead letters, and records that are parked.
//! Pure; the time is passed in.
//!
//! Each stands for a record that is locked until its letter is confirmed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ahash::AHashMap;
use tokio::time::Instant;

use super::copies::copy_raw;
use crate::chunk::Holds;
use crate::credit::Credit;
use crate::ledger::Entry;
use crate::outcome::Cause;
use crate::ports::dead_letter::DeadLetter;
use crate::ports::parking::ToPark;
use crate::record::{RawRecord, RecordId};
use crate::retry::RetryPolicy;

/// With so many letters waiting while some fail, no more records are fetched:
/// the next ones may need letters, too.
const TOO_MANY: usize = 100;

/// What is to be written before a record is accepted.
#[derive(Clone, Debug)]
pub enum Letter {
    Dead(DeadLetter),
    Parked(ToPark),
}

impl Letter {
    /// The same, copied out of the response that it came in.
    fn copied(&self, bytes: &mut usize) -> Self {
        let mut copy = |raw: &RawRecord| Arc::new(copy_raw(raw, bytes));
        match self {
            Self::Dead(letter) => Self::Dead(DeadLetter {
                original: letter.original.as_deref().map(copy),
                ..letter.clone()
            }),
            Self::Parked(record) => Self::Parked(ToPark {
                original: copy(&record.original),
                ..record.clone()
            }),
        }
    }
}

/// A letter and what its record owes.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) letter: Arc<Letter>,
    /// Where the record's lock is.
    place: RecordId,
    acquisition: u32,
    holds: Holds,
    is_copied: bool,
    failures: u32,
}

impl Waiting {
    pub(super) fn new(letter: Letter, entry: Entry<'_>, holds: Holds) -> Self {
        Self {
            letter: Arc::new(letter),
            place: entry.place(),
            acquisition: entry.acquisition,
            holds,
            is_copied: false,
            failures: 0,
        }
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        Entry {
            partition: &self.place.partition,
            offset: self.place.offset,
            acquisition: self.acquisition,
        }
    }

    /// Copies it out of the response that it came in, since it waits for long.
    fn copy_out(&mut self, credit: &Arc<Credit>) {
        if self.is_copied {
            return;
        }
        self.is_copied = true;
        let mut bytes = 0;
        self.letter = Arc::new(self.letter.copied(&mut bytes));
        self.holds = Holds::of(credit.hold(bytes));
    }
}

/// How often dead letters were sent, and how often in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterTotals {
    pub requests: u64,
    pub failures: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Letters {
    ready: VecDeque<Waiting>,
    later: BTreeMap<(Instant, u64), Waiting>,
    /// By their tickets.
    writing: AHashMap<u64, Waiting>,
    last_ticket: u64,
    /// How many have failed already.
    failing: usize,
    /// Why the newest failure was one.
    cause: Option<Cause>,
    totals: DeadLetterTotals,
}

impl Letters {
    /// Letters that are not confirmed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len() + self.later.len() + self.writing.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub const fn totals(&self) -> DeadLetterTotals {
        self.totals
    }

    /// Why letters fail, while some do.
    #[must_use]
    pub fn trouble(&self) -> Option<Cause> {
        self.cause.clone().filter(|_| self.failing > 0)
    }

    /// Whether no more records are to be fetched.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.failing > 0 && self.len() >= TOO_MANY
    }

    /// When the next letter that failed is due again.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.later.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn push(&mut self, mut waiting: Waiting, credit: &Arc<Credit>) {
        if self.failing > 0 {
            waiting.copy_out(credit);
        }
        self.ready.push_back(waiting);
    }

    /// The next letter to write, under a ticket. Those whose records are not
    /// ours any more are left out.
    pub(super) fn take(
        &mut self,
        now: Instant,
        is_ours: impl Fn(Entry<'_>) -> bool,
    ) -> Option<(u64, Arc<Letter>)> {
        loop {
            let due = self.later.first_entry().filter(|it| it.key().0 <= now);
            let due = due.map(|it| it.remove());
            let waiting = due.or_else(|| self.ready.pop_front())?;
            if !is_ours(waiting.entry()) {
                self.failing -= usize::from(waiting.failures > 0);
                continue;
            }
            self.last_ticket += 1;
            let letter = Arc::clone(&waiting.letter);
            self.totals.requests += u64::from(matches!(*letter, Letter::Dead(_)));
            self.writing.insert(self.last_ticket, waiting);
            return Some((self.last_ticket, letter));
        }
    }

    /// `None` when its record was lost meanwhile.
    pub(super) fn written(&mut self, ticket: u64) -> Option<Waiting> {
        let waiting = self.writing.remove(&ticket)?;
        self.failing -= usize::from(waiting.failures > 0);
        Some(waiting)
    }

    /// To be tried again, with a back-off.
    pub(super) fn failed(
        &mut self,
        ticket: u64,
        cause: Cause,
        retry: RetryPolicy,
        credit: &Arc<Credit>,
        now: Instant,
    ) {
        let Some(mut waiting) = self.writing.remove(&ticket) else {
            return;
        };
        self.totals.failures += u64::from(matches!(*waiting.letter, Letter::Dead(_)));
        self.failing += usize::from(waiting.failures == 0);
        waiting.failures += 1;
        self.cause = Some(cause);
        waiting.copy_out(credit);
        for behind in &mut self.ready {
            behind.copy_out(credit);
        }
        let at = now + retry.delay(waiting.failures, fastrand::f64());
        self.later.insert((at, ticket), waiting);
    }

    /// Takes back what nobody writes any more.
    pub(super) fn take_back(&mut self) {
        let mut given_up: Vec<_> = self.writing.drain().collect();
        given_up.sort_unstable_by_key(|(ticket, _)| *ticket);
        let given_up = given_up.into_iter().map(|(_, waiting)| waiting);
        self.ready.extend(given_up);
    }

    /// Forgets those whose records are not ours any more.
    pub(super) fn retain(&mut self, is_ours: impl Fn(Entry<'_>) -> bool) {
        self.ready.retain(|waiting| is_ours(waiting.entry()));
        self.later.retain(|_, waiting| is_ours(waiting.entry()));
        self.writing.retain(|_, waiting| is_ours(waiting.entry()));
        self.failing = self.all().filter(|waiting| waiting.failures > 0).count();
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.all().map(Waiting::entry)
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        let waiting = self.ready.iter().chain(self.later.values());
        waiting.chain(self.writing.values())
    }
}
