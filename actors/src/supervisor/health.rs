//! Which actors of a generation are dead or hang, and what they did.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::generation::Generation;
use crate::books::PutEnd;
use crate::converter::done_at;
use crate::hang::{Looks, ThreadWatch, WorkSign, WorkWatch};
use crate::mailbox::Mailbox;
use crate::messages::{EndedPut, TaskEnd, TaskGone};
use crate::outcome::{Cause, Stage};
use crate::progress::NO_RECORD;
use crate::threads::Thread;

/// What is wrong with an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Dead,
    /// It, or what shares its thread, never came back.
    Blocked,
    /// Its thread runs, but it takes none of its work.
    Idle,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dead => "died",
            Self::Blocked => "hangs, its thread is blocked",
            Self::Idle => "hangs, it takes none of its work",
        })
    }
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Threads that another must take the place of.
    pub(super) hung_threads: Vec<Arc<Thread>>,
    /// The first of the actors that take the generation along.
    pub(super) stage: Option<(&'static str, Trouble)>,
    pub(super) tasks: Vec<(u32, Trouble)>,
}

/// What a generation has shown so far.
#[derive(Debug)]
pub(super) struct Health {
    looks: Looks,
    threads: Vec<(Arc<Thread>, ThreadWatch)>,
    poller: WorkWatch,
    converter: WorkWatch,
    acknowledger: WorkWatch,
}

impl Health {
    pub(super) fn from(now: Instant) -> Self {
        Self {
            looks: Looks::from(now),
            threads: Vec::new(),
            poller: WorkWatch::default(),
            converter: WorkWatch::default(),
            acknowledger: WorkWatch::default(),
        }
    }

    fn look_at_threads(&mut self, used: &[&Arc<Thread>], elapsed: Duration) {
        let is_in = |thread: &Arc<Thread>| used.iter().any(|used| Arc::ptr_eq(used, thread));
        self.threads.retain(|(thread, _)| is_in(thread));
        for thread in used {
            let mut known = self.threads.iter();
            if !known.any(|(known, _)| Arc::ptr_eq(known, thread)) {
                let watch = ThreadWatch::default();
                self.threads.push((Arc::clone(thread), watch));
            }
        }
        for (thread, watch) in &mut self.threads {
            watch.look(thread.pulse().sign(), elapsed);
        }
    }

    fn beats(&self, thread: &Arc<Thread>) -> bool {
        let mut threads = self.threads.iter();
        threads.any(|(known, watch)| Arc::ptr_eq(known, thread) && watch.beats())
    }

    fn hung_threads(&self, limit: Duration) -> Vec<Arc<Thread>> {
        let hung = |(thread, watch): &(Arc<Thread>, ThreadWatch)| {
            (thread.is_abandoned() || watch.hangs(limit)).then(|| Arc::clone(thread))
        };
        self.threads.iter().filter_map(hung).collect()
    }
}

fn is_in(threads: &[Arc<Thread>], thread: &Arc<Thread>) -> bool {
    threads.iter().any(|known| Arc::ptr_eq(known, thread))
}

impl Generation {
    /// Looks at all actors and their threads. The poller's work is `to_poll`;
    /// `to_convert` batches wait for the converter.
    pub(super) fn look(
        &mut self,
        now: Instant,
        limit: Duration,
        to_poll: WorkSign,
        to_convert: usize,
    ) -> Findings {
        let elapsed = self.health.looks.look(now);
        let tasks = self.tasks.iter().flatten();
        let mut used: Vec<&Arc<Thread>> = tasks.map(|task| &task.post.thread).collect();
        used.extend([&self.control_post.thread, &self.converter_post.thread]);
        self.health.look_at_threads(&used, elapsed);
        self.look_at_work(elapsed, to_poll, to_convert);
        let hung_threads = self.health.hung_threads(limit);
        Findings {
            stage: self.stage_in_trouble(&hung_threads, limit),
            tasks: self.tasks_in_trouble(&hung_threads),
            hung_threads,
        }
    }

    fn look_at_work(&mut self, elapsed: Duration, to_poll: WorkSign, to_convert: usize) {
        let control_beats = self.health.beats(&self.control_post.thread);
        let converter_beats = self.health.beats(&self.converter_post.thread);
        let signals = self.converter.work();
        let converter = WorkSign {
            waiting: to_convert + signals.waiting,
            taken: self.converter_post.mark.taken() + signals.taken,
        };
        let acknowledger = self.acknowledger.work();
        let health = &mut self.health;
        health.poller.look(to_poll, control_beats, elapsed);
        health.converter.look(converter, converter_beats, elapsed);
        health
            .acknowledger
            .look(acknowledger, control_beats, elapsed);
    }

    fn stage_in_trouble(
        &self,
        hung: &[Arc<Thread>],
        limit: Duration,
    ) -> Option<(&'static str, Trouble)> {
        let control = &self.control_post.thread;
        let (poller, converter) = (&self.poller, &self.converter);
        let converters = &self.converter_post.thread;
        let writer = self.letter_writer.as_ref();
        let stages = [
            (
                "poller",
                poller.is_connected(),
                control,
                Some(&self.health.poller),
            ),
            (
                "converter",
                converter.is_connected(),
                converters,
                Some(&self.health.converter),
            ),
            (
                "acknowledger",
                self.acknowledger.is_connected(),
                control,
                Some(&self.health.acknowledger),
            ),
            // It waits for its letters, however long they take.
            (
                "dead letter writer",
                writer.is_none_or(Mailbox::is_connected),
                converters,
                None,
            ),
        ];
        stages
            .into_iter()
            .find_map(|(name, is_connected, thread, watch)| {
                let trouble = if !is_connected {
                    Trouble::Dead
                } else if is_in(hung, thread) {
                    Trouble::Blocked
                } else if watch.is_some_and(|watch| watch.hangs(limit)) {
                    Trouble::Idle
                } else {
                    return None;
                };
                Some((name, trouble))
            })
    }

    /// A task takes what it asked for and waits in no handler: it is dead, or
    /// its thread is.
    fn tasks_in_trouble(&self, hung: &[Arc<Thread>]) -> Vec<(u32, Trouble)> {
        let mut found = Vec::new();
        for (task, handle) in self.tasks.iter().enumerate() {
            let Some(handle) = handle.as_ref().filter(|handle| !handle.is_gone) else {
                continue;
            };
            if !handle.mailbox.is_connected() {
                found.push((task as u32, Trouble::Dead));
            } else if is_in(hung, &handle.post.thread) {
                found.push((task as u32, Trouble::Blocked));
            }
        }
        found
    }

    /// The record, by its place in the batch, that the converter hangs or died
    /// over, if it does.
    pub(super) fn converters_record(&self, found: &Findings) -> Option<(usize, Stage)> {
        let hangs = is_in(&found.hung_threads, &self.converter_post.thread);
        let doing = self.converter_post.mark.doing()?;
        let has_ended = hangs || !self.converter.is_connected();
        (has_ended && doing != NO_RECORD).then(|| done_at(doing))
    }

    /// The put, by its lease, that each hung thread is blocked by.
    pub(super) fn blocking_puts(&self, found: &Findings) -> Vec<u32> {
        let blocking = |task: u32| {
            let handle = self.tasks.get(task as usize)?.as_ref()?;
            u32::try_from(handle.post.mark.doing()?).ok()
        };
        let blocked = |(task, trouble): &(u32, Trouble)| {
            (*trouble == Trouble::Blocked)
                .then(|| blocking(*task))
                .flatten()
        };
        found.tasks.iter().filter_map(blocked).collect()
    }

    /// Gives up on a task, and tells so by the acknowledger, behind what the
    /// task itself had to say.
    pub(super) fn give_up_task(&mut self, task: u32, trouble: Trouble) {
        let Some(Some(handle)) = self.tasks.get_mut(task as usize) else {
            return;
        };
        handle.is_gone = true;
        handle.kill.throw();
        let lease = handle.post.mark.doing().map(u32::try_from);
        if let (Trouble::Blocked, Some(Ok(lease))) = (trouble, lease) {
            let end = PutEnd::Panicked(blocked_cause());
            let _ = self.acknowledger.signal(EndedPut { lease, end });
        }
        let _ = self.acknowledger.signal(TaskGone {
            generation: self.number,
            task,
            incarnation: handle.incarnation,
            end: TaskEnd::Died(trouble.to_string().into()),
        });
    }
}

/// Why a record is rejected in the end.
pub(super) fn blocked_cause() -> Cause {
    "blocked the thread of its task, and never came back".into()
}
