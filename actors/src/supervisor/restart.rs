//! A task's restart on the operator's word: the sink is closed in good order,
//! and another incarnation takes the task's place.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::oneshot;

use super::Supervisor;
use super::generation::{Generation, TaskHandle};
use crate::live_view::{ConnectorState, TaskState};
use crate::mailbox::Letter;
use crate::messages::{CloseTask, RestartTask, TaskEnd, TaskGone};

/// How long the put that is under way may take to end. What it has then not
/// told goes to other tasks, under the same locks.
const GRACE: Duration = Duration::from_secs(5);

impl Generation {
    fn current(&mut self, task: u32, incarnation: u32) -> Option<&mut TaskHandle> {
        let handle = self.tasks.get_mut(task as usize)?.as_mut()?;
        (handle.incarnation == incarnation && !handle.is_gone).then_some(handle)
    }

    /// Tells the end of a task that was to be restarted, by the acknowledger,
    /// behind what the task itself had to say.
    fn end_task(&mut self, task: u32, incarnation: u32) {
        let generation = self.number;
        let Some(handle) = self.current(task, incarnation) else {
            return;
        };
        handle.is_gone = true;
        handle.kill.throw();
        let _ = self.acknowledger.signal(TaskGone {
            generation,
            task,
            incarnation,
            end: TaskEnd::Died("restarted".into()),
        });
    }
}

impl Supervisor {
    fn restart_task(&mut self, task: u32, ctx: &mut Context<Self>) {
        // Without a generation all tasks are about to be started anew.
        let Some(generation) = &mut self.generation else {
            return;
        };
        match generation.tasks.get(task as usize) {
            Some(Some(handle)) if !handle.is_gone => {
                let incarnation = handle.incarnation;
                self.close_to_restart(task, incarnation, ctx);
            }
            Some(None) if generation.has_failed(task) => {
                let incarnation = generation.last_incarnation(task) + 1;
                self.start_task(task, incarnation);
                self.resume();
            }
            // Its next incarnation is on its way.
            Some(_) | None => {}
        }
    }

    fn close_to_restart(&mut self, task: u32, incarnation: u32, ctx: &mut Context<Self>) {
        let Some(generation) = &mut self.generation else {
            return;
        };
        let Some(handle) = generation.current(task, incarnation) else {
            return;
        };
        let (done, closed) = oneshot::channel();
        let _ = handle.mailbox.signal(CloseTask(done));
        self.view
            .set_task_by(&handle.kill, &self.connector, task, TaskState::Restarting);
        let number = self.number;
        ctx.spawn(
            // The sender is dropped when the task is gone, whichever way.
            tokio::time::timeout(GRACE, closed)
                .into_actor(self)
                .map(move |_, supervisor, _| {
                    if supervisor.number == number
                        && !supervisor.is_closing()
                        && let Some(generation) = &mut supervisor.generation
                    {
                        generation.end_task(task, incarnation);
                    }
                }),
        );
    }

    /// Fetches again, if it was for want of tasks that the connector failed.
    fn resume(&mut self) {
        if !std::mem::take(&mut self.out_of_tasks) {
            return;
        }
        self.books.resume_polling();
        tracing::info!(connector = %self.connector, "there is a task again");
        self.view.update(&Arc::clone(&self.connector), |view| {
            view.state = ConnectorState::Running;
        });
    }
}

impl Handler<Letter<RestartTask>> for Supervisor {
    type Result = ();

    fn handle(&mut self, letter: Letter<RestartTask>, ctx: &mut Self::Context) {
        if self.drain.is_none() {
            self.restart_task(letter.message.0, ctx);
        }
    }
}
