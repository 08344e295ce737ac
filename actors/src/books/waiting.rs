//! Letters that are not written yet: dead letters, and records that are parked.
//! Pure; the time is passed in.
//!
//! Each stands for a record that is locked until its letter is confirmed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use tokio::time::Instant;

use super::copies::{copy_raw, copy_record};
use super::settling::key;
use super::{DeliveryKey, entry};
use crate::chunk::Holds;
use crate::credit::Credit;
use crate::ledger::Entry;
use crate::outcome::Cause;
use crate::ports::dead_letter::DeadLetter;
use crate::ports::parking::ToPark;
use crate::record::{RecordId, SinkRecord};
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

/// A letter and what its record owes.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) letter: Arc<Letter>,
    /// Where the record's lock is.
    place: RecordId,
    acquisition: u32,
    /// What its sink is to be asked for again if it cannot be parked.
    pub(super) record: Option<SinkRecord>,
    pub(super) holds: Holds,
    is_copied: bool,
    failures: u32,
}

impl Waiting {
    pub(super) fn dead(letter: DeadLetter, entry: Entry<'_>, holds: Holds) -> Self {
        Self::new(Letter::Dead(letter), entry, None, holds)
    }

    pub(super) fn parked(letter: ToPark, record: &SinkRecord, holds: Holds) -> Self {
        let again = Some(record.clone());
        Self::new(Letter::Parked(letter), entry(record), again, holds)
    }

    fn new(letter: Letter, entry: Entry<'_>, record: Option<SinkRecord>, holds: Holds) -> Self {
        Self {
            letter: Arc::new(letter),
            place: entry.place(),
            acquisition: entry.acquisition,
            record,
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
        if let Some(record) = &mut self.record {
            copy_record(record, &mut bytes);
        }
        let copied = match (&*self.letter, &self.record) {
            (Letter::Dead(letter), _) => {
                let original = letter.original.as_deref();
                Letter::Dead(DeadLetter {
                    original: original.map(|raw| Arc::new(copy_raw(raw, &mut bytes))),
                    ..letter.clone()
                })
            }
            (Letter::Parked(letter), record) => {
                let copied = record.as_ref().and_then(|it| it.original.clone());
                Letter::Parked(ToPark {
                    original: copied.unwrap_or_else(|| Arc::clone(&letter.original)),
                    ..letter.clone()
                })
            }
        };
        self.letter = Arc::new(copied);
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
    /// Records that could not be parked, and that are tried on.
    unparked: AHashSet<DeliveryKey>,
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
        self.cause.clone().filter(|_| self.some_fail())
    }

    /// The same as the status tells it: also that nothing is fetched for it.
    #[must_use]
    pub fn told_trouble(&self) -> Option<Cause> {
        let cause = self.trouble()?;
        let told = || {
            let waiting = self.len();
            format!("{waiting} records wait to be written, so no more are fetched: {cause}")
        };
        Some(if self.is_clogged() {
            told().into()
        } else {
            cause
        })
    }

    fn some_fail(&self) -> bool {
        self.failing > 0 || !self.unparked.is_empty()
    }

    /// Whether a record could not be parked, and is tried on.
    pub(super) fn is_unparked(&self, key: &DeliveryKey) -> bool {
        self.unparked.contains(key)
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
        if self.some_fail() {
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
        self.unparked.remove(&key(waiting.entry()));
        Some(waiting)
    }

    /// To be tried again, with a back-off. What could not be parked is
    /// returned: its sink may take it before the topic does.
    pub(super) fn failed(
        &mut self,
        ticket: u64,
        cause: Cause,
        retry: RetryPolicy,
        credit: &Arc<Credit>,
        now: Instant,
    ) -> Option<Waiting> {
        let mut waiting = self.writing.remove(&ticket)?;
        self.cause = Some(cause);
        waiting.copy_out(credit);
        for behind in &mut self.ready {
            behind.copy_out(credit);
        }
        if let Letter::Parked(_) = *waiting.letter {
            self.unparked.insert(key(waiting.entry()));
            return Some(waiting);
        }
        self.totals.failures += 1;
        self.failing += usize::from(waiting.failures == 0);
        waiting.failures += 1;
        let at = now + retry.delay(waiting.failures, fastrand::f64());
        self.later.insert((at, ticket), waiting);
        None
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

    /// Forgets those that could not be parked and do not fail any more.
    pub(super) fn retain_unparked(&mut self, fails: impl Fn(&DeliveryKey) -> bool) {
        self.unparked.retain(fails);
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.all().map(Waiting::entry)
    }

    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
        self.unparked.clear();
    }

    fn all(&self) -> impl Iterator<Item = &Waiting> {
        let waiting = self.ready.iter().chain(self.later.values());
        waiting.chain(self.writing.values())
    }
}
