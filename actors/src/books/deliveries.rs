//! Records with the tasks: handed out, and what became of them.

use tokio::time::Instant;

use super::puts::OpenPut;
use super::{Books, Effects, Notice, Put, PutEnd, entries};
use crate::circuit::Permit;
use crate::life::Event;
use crate::outcome::Outcome;
use crate::ports::sink::SinkError;
use crate::put_cost::ShortPuts;
use crate::report::{Closed, Report};

/// A sink that does not take these will not take more.
const PROBE_RECORDS: usize = 1;

impl Books {
    /// Whether a task would get a put now.
    #[must_use]
    pub(crate) fn has_put(&self, task: u32, now: Instant) -> bool {
        self.queue.ready() > 0 && self.permit(task, now).is_some()
    }

    fn permit(&self, task: u32, now: Instant) -> Option<Permit> {
        let is_open = |lease| self.puts.is_open(lease);
        let others = || self.puts.other_tasks(task);
        self.circuit.permit(now, is_open, others)
    }

    /// The next put for a task, if there is work, and the circuit lets it.
    /// Records that are not ours any more are left out.
    pub fn dispatch(&mut self, task: u32, now: Instant) -> Option<Put> {
        let is_probe = self.permit(task, now)? == Permit::Probe;
        loop {
            let (tasks, max) = (self.policy.tasks, self.policy.max_put_records);
            let mut work = match is_probe {
                true => self.queue.take_few(now, PROBE_RECORDS.min(max)),
                false => self.queue.take(now, tasks, max),
            }?;
            let lease = self.puts.next_lease();
            let mut stale = Vec::new();
            self.ledger
                .lease(lease, entries(&work.records), |place| stale.push(place));
            if !stale.is_empty() {
                let mut place = 0;
                let mut stale = stale.into_iter().peekable();
                work.records.retain(|_| {
                    let keep = stale.next_if_eq(&place).is_none();
                    place += 1;
                    keep
                });
            }
            if work.records.is_empty() {
                continue;
            }
            let report = Report::new(work.records.len());
            let history = work.history;
            let traced = self.journal.put_began(&work.records, task, now);
            let chunk = work.into_chunk();
            self.puts.open(
                lease,
                OpenPut {
                    task,
                    handed_out: now,
                    traced,
                    chunk: chunk.clone(),
                    report: report.clone(),
                    history,
                    is_probe,
                    buffered: Vec::new(),
                    buffered_at: None,
                    ended: false,
                },
            );
            if is_probe {
                self.circuit.probe(lease);
            }
            return Some(Put {
                lease,
                chunk,
                report,
                alone: history.alone,
            });
        }
    }

    /// Takes what a put has reported so far.
    pub fn reported(&mut self, lease: u32, now: Instant) -> Effects {
        let outcomes = self.puts.get(lease).map(|put| put.report.take());
        self.outcomes(lease, outcomes.unwrap_or_default(), now)
    }

    /// Takes outcomes that came before the put's end.
    pub fn outcomes(
        &mut self,
        lease: u32,
        outcomes: Vec<(usize, Outcome)>,
        now: Instant,
    ) -> Effects {
        self.now = now;
        let mut effects = Effects::default();
        let Some(put) = self.puts.refer(lease) else {
            return effects;
        };
        let mut delivered = Vec::with_capacity(outcomes.len());
        let (mut buffered, mut retry) = (Vec::new(), Vec::new());
        let mut retry_cause = None;
        for (place, outcome) in outcomes {
            match outcome {
                Outcome::Delivered => delivered.push(place),
                Outcome::Buffered => buffered.push(place),
                Outcome::Retry(cause) => {
                    retry.push(place);
                    retry_cause.get_or_insert(cause);
                }
                Outcome::Reject(rejection) => {
                    self.note_answer(&mut effects);
                    self.reject_put(&put, place, &rejection, &mut effects);
                }
            }
        }
        delivered.sort_unstable();
        self.deliver(&put, &delivered, &mut effects);
        self.buffer(&put, buffered);
        if let Some(cause) = retry_cause {
            self.note_all(&put, &retry, &Event::Retry(cause.clone()));
            // Together, so that they come back as one put.
            self.retry(&put, &retry, &cause, &mut effects);
        }
        effects
    }

    /// Takes the end of a put, and first what it has reported. `buffers` tells
    /// whether the sink's answer only buffered.
    pub fn put_ended(&mut self, lease: u32, end: PutEnd, buffers: bool, now: Instant) -> Effects {
        self.now = now;
        let Some(put) = self.puts.refer(lease) else {
            return Effects::default();
        };
        let Closed { fresh, missing, .. } = self.puts.end(lease);
        let mut effects = self.outcomes(lease, fresh, now);
        let rest = missing;
        if let Some(event) = Event::of_end(&end) {
            self.note_all(&put, &rest, &event);
        }
        self.note_put_ended(&put);
        let history = put.history;
        match end {
            PutEnd::Answered(Ok(())) if buffers => self.buffer(&put, rest),
            PutEnd::Answered(Ok(())) => {
                self.put_cost.add(put.chunk.len(), now - put.handed_out);
                self.deliver(&put, &rest, &mut effects);
            }
            PutEnd::Answered(Err(SinkError::Retry(cause))) => {
                self.retry(&put, &rest, &cause, &mut effects);
            }
            PutEnd::Answered(Err(SinkError::Unavailable(_) | SinkError::UnavailableFor(..))) => {
                self.refused(&put, &rest, &mut effects);
            }
            PutEnd::Answered(Err(SinkError::Fatal(_))) | PutEnd::Abandoned => {
                let work = self.take_back(&put, &rest, history);
                self.put_again(work, &mut effects);
            }
            PutEnd::TimedOut => self.timed_out(&put, &rest, &mut effects),
            PutEnd::Answered(Err(SinkError::RejectedOne(cause))) => {
                self.note_answer(&mut effects);
                if rest.len() > 1 {
                    self.note_all(&put, &rest, &Event::Retry(cause.clone()));
                }
                self.split(&put, &rest, history, cause, &mut effects);
            }
            PutEnd::Panicked(cause) if history.kills == 0 => {
                // Once more as it is: the task may have been to blame.
                let work = self.take_back(&put, &rest, history.and_a_kill());
                effects.notices.push(Notice::DiedOver {
                    task: put.task,
                    records: rest.len(),
                    cause,
                });
                self.put_again(work, &mut effects);
            }
            PutEnd::Panicked(cause) => {
                self.split(&put, &rest, history.and_a_kill(), cause, &mut effects);
            }
        }
        if self
            .puts
            .get(lease)
            .is_some_and(|put| put.buffered.is_empty())
        {
            self.puts.take(lease);
        }
        self.let_others_in(&mut effects);
        effects
    }

    /// Whether the sink would take more by larger puts.
    pub(crate) fn short_puts(&self) -> Option<ShortPuts> {
        self.put_cost.short_puts(self.policy.max_put_records)
    }

    /// While only so many tasks may put, the end of one lets another in.
    pub(super) fn let_others_in(&self, effects: &mut Effects) {
        effects.work |= !self.circuit.is_closed();
    }

    /// Takes back all that a task had (or all tasks), but for what it has
    /// reported, and what its sink has vouched for: it is gone.
    pub fn task_gone(&mut self, task: Option<u32>, now: Instant) -> Effects {
        let mut effects = Effects::default();
        for lease in self.puts.leases(task) {
            let Some(put) = self.puts.refer(lease) else {
                continue;
            };
            let Closed {
                fresh,
                missing,
                vouched,
            } = self.puts.end(lease);
            effects.add(self.outcomes(lease, fresh, now));
            let mut places = self.puts.take_buffered(lease);
            places.extend(missing);
            places.sort_unstable();
            self.note_put_ended(&put);
            if vouched {
                self.deliver(&put, &places, &mut effects);
            } else {
                self.note_all(&put, &places, &Event::Abandoned);
                let work = self.take_back(&put, &places, put.history);
                self.put_again(work, &mut effects);
            }
            self.puts.take(lease);
        }
        effects
    }

    /// Moves what is due from those that wait for their time to those that
    /// wait for a task.
    pub fn wake(&mut self, now: Instant) {
        self.queue.wake(now);
    }
}
