//! Bytes to records through converters and transforms, and records to tasks.

use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::time::Instant;

use crate::acknowledger::Acknowledger;
use crate::books::SharedBooks;
use crate::chunk::Holds;
use crate::conversion::Conversion;
use crate::delivery::Delivery;
use crate::kill_switch::KillSwitch;
use crate::mailbox::{Letter, Mailbox};
use crate::messages::{AcquiredRecords, DeliverChunk, SortedOut, TaskReady};

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

/// 1. converts the records of a batch, each on its own, 2. hands those that do
///    not go on to the acknowledger, 3. queues the others, 4. splits what is
///    queued over the idle tasks.
pub struct Converter {
    conversion: Conversion,
    books: Arc<SharedBooks>,
    acknowledger: Mailbox<Acknowledger>,
    kill: KillSwitch,
    tasks: Vec<Option<Enlisted>>,
    /// Tasks in the order in which they became idle.
    idle: std::collections::VecDeque<u32>,
}

impl Converter {
    pub(crate) fn new(
        conversion: Conversion,
        books: Arc<SharedBooks>,
        acknowledger: Mailbox<Acknowledger>,
        kill: KillSwitch,
    ) -> Self {
        Self {
            conversion,
            books,
            acknowledger,
            kill,
            tasks: Vec::new(),
            idle: std::collections::VecDeque::new(),
        }
    }

    fn convert(&mut self, acquired: AcquiredRecords) -> SortedOut {
        let AcquiredRecords { batch, acquisition } = acquired;
        let mut records = Vec::with_capacity(batch.records.len());
        let mut sorted_out = SortedOut {
            acquisition,
            partition: Arc::clone(&batch.partition),
            rejected: Vec::new(),
            filtered: Vec::new(),
        };
        for raw in batch.records {
            let offset = raw.offset;
            match self.conversion.convert(&batch.partition, acquisition, raw) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => sorted_out.filtered.push(offset),
                Err(rejection) => sorted_out.rejected.push((offset, rejection)),
            }
        }
        self.books.lock().converted(records, Holds::of(batch.held));
        sorted_out
    }

    /// Hands chunks to idle tasks while there is work.
    fn dispatch(&mut self) {
        if self.kill.is_dead() {
            return;
        }
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
            let Some(put) = self.books.lock().dispatch(task, now) else {
                break;
            };
            enlisted.idle = false;
            self.idle.pop_front();
            if enlisted.mailbox.signal(DeliverChunk(put)).is_err() {
                // Found dead between two looks: what it was to put goes on.
                self.books.lock().task_gone(Some(task));
            }
        }
        self.books.set_idle_tasks(self.idle.len());
    }

    /// Waits for work that comes from elsewhere (retries, dead tasks), or for
    /// the time of what waits.
    fn watch_queue(&self, ctx: &mut Context<Self>) {
        let (books, kill) = (Arc::clone(&self.books), self.kill.clone());
        let wait = async move {
            let due = books.lock().queue().next_due();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = books.work.notified() => {}
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
            converter.books.lock().wake(Instant::now());
            converter.dispatch();
            converter.watch_queue(ctx);
        }));
    }
}

impl Actor for Converter {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.watch_queue(ctx);
    }
}

impl Handler<Letter<AcquiredRecords>> for Converter {
    type Result = ();

    fn handle(&mut self, letter: Letter<AcquiredRecords>, ctx: &mut Self::Context) {
        let sorted_out = self.convert(letter.message);
        self.dispatch();
        if sorted_out.rejected.is_empty() && sorted_out.filtered.is_empty() {
            return;
        }
        let acknowledger = self.acknowledger.clone();
        ctx.wait(actix::fut::wrap_future(async move {
            let _ = acknowledger.send(sorted_out).await;
        }));
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
        self.tasks[place] = Some(Enlisted {
            incarnation,
            mailbox,
            idle: false,
        });
        self.idle.retain(|idle| *idle != task);
        // A chunk that was on its way while the former incarnation died.
        self.books.lock().task_gone(Some(task));
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
