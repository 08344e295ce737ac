//! Bytes to records through converters and transforms, and records to tasks.

use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::time::Instant;

use crate::books::{Books, Effects};
use crate::chunk::Holds;
use crate::conversion::Conversion;
use crate::delivery::Delivery;
use crate::intake::{RawBatch, ToConvert};
use crate::kill_switch::KillSwitch;
use crate::ledger::Entry;
use crate::life::Step;
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{DeliverChunk, TaskReady};
use crate::outcome::{Rejection, Stage};
use crate::outlet::Outlet;
use crate::pace::Pace;
use crate::progress::{Mark, NO_RECORD};
use crate::record::SinkRecord;
use crate::supervisor::Supervisor;

/// A delivery actor joins (or takes the place of a dead one).
#[derive(Debug)]
pub(crate) struct EnlistTask {
    pub(crate) task: u32,
    pub(crate) incarnation: u32,
    pub(crate) mailbox: Mailbox<Delivery>,
}

struct Enlisted {
    incarnation: u32,
    mailbox: Mailbox<Delivery>,
    idle: bool,
}

/// The stages that a plugin may hang in, as the mark numbers them.
const STAGES: [Stage; 4] = [
    Stage::KeyConverter,
    Stage::ValueConverter,
    Stage::HeaderConverter,
    Stage::Transformation,
];

/// What the mark shows inside a plugin: the record's place in its batch, and
/// the stage.
fn doing(place: usize, stage: Stage) -> u64 {
    let stage = STAGES.iter().position(|known| *known == stage);
    (place * STAGES.len() + stage.unwrap_or_default()) as u64 + 1
}

/// The place and the stage that a mark shows.
pub(crate) fn done_at(doing: u64) -> (usize, Stage) {
    let number = doing.saturating_sub(1) as usize;
    (number / STAGES.len(), STAGES[number % STAGES.len()])
}

/// Records of a batch that do not go on to a sink.
#[derive(Default)]
struct SortedOut {
    /// By their places in the batch.
    rejected: Vec<(usize, Rejection)>,
    /// Dropped by a transform.
    filtered: Vec<i64>,
}

impl SortedOut {
    fn enter(&self, batch: &RawBatch, holds: &Holds, books: &mut Books, effects: &mut Effects) {
        let entry = |offset: i64| Entry {
            partition: &batch.partition,
            offset,
            acquisition: batch.acquisition,
        };
        let filtered = self.filtered.iter().copied().map(entry);
        books.filtered(filtered, effects);
        for (place, rejection) in &self.rejected {
            let raw = &batch.records[*place];
            books.unconverted(entry(raw.offset), raw, rejection, holds, effects);
        }
    }
}

/// 1. converts the records of a batch, each on its own, 2. settles those that
///    do not go on, 3. queues the others, 4. splits what is queued over the
///    idle tasks.
pub struct Converter {
    conversion: Conversion,
    outlet: Outlet,
    supervisor: Mailbox<Supervisor>,
    kill: KillSwitch,
    mark: Mark,
    tasks: Vec<Option<Enlisted>>,
    /// Tasks in the order in which they became idle.
    idle: std::collections::VecDeque<u32>,
}

impl Converter {
    pub(crate) fn new(
        conversion: Conversion,
        outlet: Outlet,
        supervisor: Mailbox<Supervisor>,
        kill: KillSwitch,
        mark: Mark,
    ) -> Self {
        Self {
            conversion,
            outlet,
            supervisor,
            kill,
            mark,
            tasks: Vec::new(),
            idle: std::collections::VecDeque::new(),
        }
    }

    /// Converts the next batch, and settles what does not go to a sink. Not
    /// when this actor has hung over it: then the next generation has it.
    fn convert_next(&self) {
        let (to_convert, is_traced) = {
            let mut books = self.outlet.books.lock();
            (books.intake().first(), books.is_traced())
        };
        let Some(to_convert) = to_convert else {
            return;
        };
        self.mark.took();
        let mut pace = is_traced.then(|| self.conversion.pace(Instant::now()));
        let Some((records, sorted_out)) = self.convert(&to_convert, pace.as_mut()) else {
            return;
        };
        let batch = &*to_convert.batch;
        self.enter(|books| {
            let mut effects = Effects::default();
            // Looked at under the lock: the supervisor throws the switch
            // before it looks for what is forgotten.
            let ours = !self.kill.is_dead();
            let finished = ours.then(|| books.intake().finish(batch.acquisition));
            if let Some(holds) = finished.flatten() {
                books.pass_time(Instant::now());
                if let Some(pace) = &pace {
                    books.note_converted(batch.acquisition, pace);
                }
                sorted_out.enter(batch, &holds, books, &mut effects);
                books.converted(records, holds);
            }
            effects
        });
    }

    fn enter(&self, change: impl FnOnce(&mut Books) -> Effects) {
        if let Some(failed) = self.outlet.enter(change) {
            let _ = self.supervisor.signal(failed);
        }
    }

    /// `None` when this actor was given up meanwhile.
    fn convert(
        &self,
        to_convert: &ToConvert,
        mut pace: Option<&mut Pace>,
    ) -> Option<(Vec<SinkRecord>, SortedOut)> {
        let batch = &*to_convert.batch;
        let mut records = Vec::with_capacity(batch.records.len());
        let mut sorted_out = SortedOut::default();
        let keeps_originals = self.outlet.books.has_letters;
        let mut lives = batch.lives.iter().peekable();
        let step = self.mark.begin(NO_RECORD);
        for (place, raw) in batch.records.iter().enumerate() {
            if self.kill.is_dead() {
                return None;
            }
            let life = lives.next_if(|(at, _)| *at == place).map(|(_, life)| life);
            if let Some(rejection) = to_convert.rejection(place) {
                sorted_out.rejected.push((place, rejection.clone()));
                continue;
            }
            let mut timed = pace.as_deref_mut().filter(|pace| pace.times(place));
            let entering = |stage| {
                step.moved(doing(place, stage));
                if let Some(pace) = &mut timed {
                    pace.enter(stage, Instant::now);
                }
            };
            let converted =
                self.conversion
                    .convert(&batch.partition, batch.acquisition, raw, life, entering);
            if let Some(pace) = timed {
                pace.leave(Instant::now());
            }
            match converted {
                Ok(Some(mut record)) => {
                    record.original = keeps_originals.then(|| Arc::new(raw.clone()));
                    if let Some(life) = life {
                        life.enter(Step::Queue, Instant::now());
                    }
                    records.push(record);
                }
                Ok(None) => sorted_out.filtered.push(raw.offset),
                Err(rejection) => sorted_out.rejected.push((place, rejection)),
            }
        }
        Some((records, sorted_out))
    }

    /// Hands chunks to idle tasks while there is work.
    fn dispatch(&mut self) {
        let now = Instant::now();
        while let Some(task) = self.idle.front().copied() {
            let Some(Some(enlisted)) = self.tasks.get_mut(task as usize) else {
                self.idle.pop_front();
                continue;
            };
            if !enlisted.mailbox.is_connected() {
                enlisted.idle = false;
                self.idle.pop_front();
                continue;
            }
            let put = {
                let mut books = self.outlet.books.lock();
                // Under the lock, as for what was converted.
                if self.kill.is_dead() {
                    return;
                }
                books.dispatch(task, now)
            };
            let Some(put) = put else {
                break;
            };
            enlisted.idle = false;
            self.idle.pop_front();
            if enlisted.mailbox.signal(DeliverChunk(put)).is_err() {
                // Found dead between two looks: what it was to put goes on.
                self.take_back(task, now);
            }
        }
        self.show_idle_tasks();
    }

    /// The number is the next generation's when this one is dead.
    fn show_idle_tasks(&self) {
        let _books = self.outlet.books.lock();
        if !self.kill.is_dead() {
            let next = self.idle.front().copied();
            self.outlet.books.set_idle_tasks(self.idle.len(), next);
        }
    }

    fn take_back(&self, task: u32, now: Instant) {
        self.enter(|books| {
            // Under the lock: the next generation has a task of that number.
            if self.kill.is_dead() {
                return Effects::default();
            }
            books.task_gone(Some(task), now)
        });
    }

    /// Waits for work that comes from elsewhere (the poller, retries, dead
    /// tasks), or for the time of what waits.
    fn watch_books(&self, ctx: &mut Context<Self>) {
        let (books, kill) = (Arc::clone(&self.outlet.books), self.kill.clone());
        let wait = async move {
            let (work, circuit) = (books.work.notified(), books.circuit().changed().notified());
            tokio::pin!(work, circuit);
            // Registered before the look, so that no word falls in between.
            work.as_mut().enable();
            circuit.as_mut().enable();
            let (due, is_due) = {
                let next_task = books.next_task();
                let (now, mut books) = (Instant::now(), books.lock());
                let to_put = next_task.is_some_and(|task| books.has_put(task, now));
                let is_due = to_put || !books.intake().is_empty();
                // Once; from then on, who brings a task or work finds it due.
                let probe = books.circuit().next_probe().filter(|at| *at > now);
                let due = books.queue().next_due().into_iter().chain(probe).min();
                (due, is_due)
            };
            if is_due {
                // One batch at a time: who shares this thread has a turn too.
                return tokio::task::yield_now().await;
            }
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = work => {}
                () = circuit => {}
                () = due => {}
                () = kill.dead() => {}
            }
        };
        ctx.spawn(wait.into_actor(self).map(|(), converter, ctx| {
            if converter.kill.is_dead() {
                ctx.stop();
                return;
            }
            // What is due waits for a task from here on, or this would wake
            // again and again while all tasks are busy.
            converter.outlet.books.lock().wake(Instant::now());
            converter.convert_next();
            converter.dispatch();
            converter.watch_books(ctx);
        }));
    }
}

impl Actor for Converter {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch_books(ctx);
    }
}

impl Handler<Letter<EnlistTask>> for Converter {
    type Result = ();

    fn handle(&mut self, letter: Letter<EnlistTask>, _ctx: &mut Self::Context) {
        let EnlistTask {
            task,
            incarnation,
            mailbox,
        } = letter.message;
        let place = task as usize;
        if self.tasks.len() <= place {
            self.tasks.resize_with(place + 1, || None);
        }
        let known = self.tasks[place].as_ref();
        if known.is_some_and(|known| known.incarnation > incarnation) {
            // Its thread hung before it came to this.
            return;
        }
        self.tasks[place] = Some(Enlisted {
            incarnation,
            mailbox,
            idle: false,
        });
        self.idle.retain(|idle| *idle != task);
        // A chunk that was on its way while the former incarnation died.
        self.take_back(task, Instant::now());
        self.dispatch();
    }
}

impl Handler<Letter<TaskReady>> for Converter {
    type Result = ();

    fn handle(&mut self, letter: Letter<TaskReady>, _ctx: &mut Self::Context) {
        let TaskReady { task, incarnation } = letter.message;
        match self.tasks.get_mut(task as usize) {
            Some(Some(enlisted)) if enlisted.incarnation == incarnation && !enlisted.idle => {
                enlisted.idle = true;
                self.idle.push_back(task);
            }
            _ => return,
        }
        self.dispatch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_place_and_stage() {
        for stage in STAGES {
            assert_eq!(done_at(doing(0, stage)), (0, stage));
            assert_eq!(done_at(doing(499, stage)), (499, stage));
        }
        assert_ne!(doing(0, Stage::KeyConverter), 0, "not idle");
    }
}
