//! The actors of one generation, spawned bottom-up, in one list of handles.

use std::sync::Arc;

use actix::Actor;
use tokio::time::Instant;

use super::Supervisor;
use super::health::Health;
use crate::acknowledger::{Acknowledger, AcknowledgerLinks};
use crate::converter::Converter;
use crate::delivery::{Delivery, DeliveryLinks};
use crate::kill_switch::KillSwitch;
use crate::letter_writer::{LetterBoxes, LetterWriter, LetterWriterLinks};
use crate::mailbox::Mailbox;
use crate::messages::TaskGone;
use crate::poller::{Poller, PollerLinks};
use crate::ports::sink::TaskContext;
use crate::progress::Mark;
use crate::threads::Thread;
use crate::window::Window;

/// The converter gets signals only: its work lies in the intake, which the
/// credit bounds.
const CONVERTER_MAILBOX: usize = 1;
/// Messages of tasks that may wait for the acknowledger.
pub(super) const ACKNOWLEDGER_MAILBOX: usize = 256;

/// Where an actor works, and what it shows of it.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) thread: Arc<Thread>,
    pub(super) mark: Mark,
}

impl Post {
    fn on(thread: Arc<Thread>) -> Self {
        let mark = Mark::on(thread.pulse());
        Self { thread, mark }
    }
}

#[derive(Debug)]
pub(super) struct TaskHandle {
    pub(super) incarnation: u32,
    pub(super) mailbox: Mailbox<Delivery>,
    pub(super) kill: KillSwitch,
    pub(super) post: Post,
    /// Its end is told already, and under way.
    pub(super) is_gone: bool,
}

pub(super) struct Generation {
    pub(super) number: u32,
    pub(super) started_at: Instant,
    /// Stops converter and deliveries.
    pub(super) work_kill: KillSwitch,
    /// Stops poller, acknowledger and the writer of letters.
    control_kill: KillSwitch,
    pub(super) acknowledger: Mailbox<Acknowledger>,
    pub(super) converter: Mailbox<Converter>,
    pub(super) poller: Mailbox<Poller>,
    /// On the converter's thread.
    pub(super) letter_writer: Option<Mailbox<LetterWriter>>,
    pub(super) control_post: Post,
    pub(super) converter_post: Post,
    pub(super) health: Health,
    pub(super) tasks: Vec<Option<TaskHandle>>,
    lives: Vec<Life>,
}

/// What is known of a task also while it has no actor.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    incarnation: u32,
    has_failed: bool,
}

impl Generation {
    pub(super) fn start(parts: &Supervisor, supervisor: Mailbox<Supervisor>) -> Self {
        let (work_kill, control_kill) = (KillSwitch::default(), KillSwitch::default());
        let control_post = Post::on(parts.threads.control());
        let converter_post = Post::on(parts.threads.pool(0));
        let control = control_post.thread.arbiter();

        let acknowledger = Acknowledger::new(AcknowledgerLinks {
            credit: Arc::clone(&parts.credit),
            outlet: parts.outlet.clone(),
            supervisor: supervisor.clone(),
            view: Arc::clone(&parts.view),
            kill: control_kill.clone(),
            accepts_after_flush: parts.spec.accepts_after_flush(),
        });
        let acknowledger = Mailbox::new(
            Acknowledger::start_in_arbiter(control, move |_| acknowledger),
            ACKNOWLEDGER_MAILBOX,
        );

        let converter = Converter::new(
            parts.spec.conversion.clone(),
            parts.outlet.clone(),
            supervisor.clone(),
            work_kill.clone(),
            converter_post.mark.clone(),
        );
        let converter = Mailbox::new(
            Converter::start_in_arbiter(converter_post.thread.arbiter(), move |_| converter),
            CONVERTER_MAILBOX,
        );

        let poller_links = PollerLinks {
            connector: Arc::clone(&parts.connector),
            books: Arc::clone(&parts.books),
            credit: Arc::clone(&parts.credit),
            inbox: Arc::clone(&parts.inbox),
            supervisor,
            view: Arc::clone(&parts.view),
            kill: control_kill.clone(),
            parked: parts.spec.parking.as_ref().map(|it| Arc::clone(&it.credit)),
        };
        let tasks = parts.spec.policy.tasks;
        let window = match parts.spec.policy.max_in_flight_records {
            Some(records) => Window::fixed(records),
            None => Window::new(tasks),
        };
        let poller = Mailbox::new(
            Poller::start_in_arbiter(control, move |_| Poller::new(poller_links, window)),
            1,
        );
        let boxes = LetterBoxes {
            dead: parts.spec.dead_letters.clone(),
            parked: parts.spec.parking.as_ref().map(|it| Arc::clone(&it.lot)),
        };
        let letter_writer = boxes.are_there().then(|| {
            let links = LetterWriterLinks {
                outlet: parts.outlet.clone(),
                boxes,
                kill: control_kill.clone(),
                timeout: parts.spec.delivery_timeout,
            };
            let start = move |_: &mut _| LetterWriter::new(links);
            let thread = converter_post.thread.arbiter();
            Mailbox::new(LetterWriter::start_in_arbiter(thread, start), 1)
        });
        let mut generation = Self {
            number: parts.number,
            started_at: Instant::now(),
            work_kill,
            control_kill,
            acknowledger,
            converter,
            poller,
            letter_writer,
            control_post,
            converter_post,
            health: Health::from(Instant::now()),
            tasks: Vec::new(),
            lives: vec![Life::default(); tasks],
        };
        for task in 0..tasks {
            generation.start_task(parts, task as u32, 1);
        }
        generation
    }

    pub(super) fn start_task(&mut self, parts: &Supervisor, task: u32, incarnation: u32) {
        let post = Post::on(parts.threads.pool(task as usize));
        let kill = self.work_kill.child();
        let links = DeliveryLinks {
            connector: Arc::clone(&parts.connector),
            task,
            error_log: parts.outlet.error_log,
            circuit: Arc::clone(parts.books.circuit()),
            flush_call: Arc::clone(&parts.books.flush_call),
            converter: self.converter.clone(),
            acknowledger: self.acknowledger.clone(),
            view: Arc::clone(&parts.view),
            generation: self.number,
            kill: kill.clone(),
            meter: parts.view.meter(&parts.connector, task),
            mark: post.mark.clone(),
        };
        let context = TaskContext {
            connector: parts.spec.connector.clone(),
            task,
            worker: parts.spec.worker.clone(),
        };
        let settings = parts.delivery.clone();
        let addr = Delivery::start_in_arbiter(post.thread.arbiter(), move |_| {
            Delivery::new(context, incarnation, settings, links)
        });
        let place = task as usize;
        if self.tasks.len() <= place {
            self.tasks.resize_with(place + 1, || None);
        }
        self.lives[place] = Life {
            incarnation,
            has_failed: false,
        };
        self.tasks[place] = Some(TaskHandle {
            incarnation,
            mailbox: Mailbox::new(addr, 1),
            kill,
            post,
            is_gone: false,
        });
    }

    pub(super) fn forget_task(&mut self, task: u32, has_failed: bool) {
        if let Some(handle) = self.tasks.get_mut(task as usize) {
            *handle = None;
            self.lives[task as usize].has_failed = has_failed;
        }
    }

    pub(super) fn last_incarnation(&self, task: u32) -> u32 {
        self.lives[task as usize].incarnation
    }

    /// Whether a task is at work, or will be.
    pub(super) fn has_tasks(&self) -> bool {
        self.lives.iter().any(|life| !life.has_failed)
    }

    /// Whether it stays away until it is restarted.
    pub(super) fn has_failed(&self, task: u32) -> bool {
        self.lives[task as usize].has_failed
    }

    pub(super) fn is_current(&self, gone: &TaskGone) -> bool {
        let is_its = |handle: &TaskHandle| {
            (self.number, handle.incarnation) == (gone.generation, gone.incarnation)
        };
        let handle = self.tasks.get(gone.task as usize);
        handle.is_some_and(|handle| handle.as_ref().is_some_and(is_its))
    }

    /// How often a sender had to wait for a full mailbox.
    pub(super) fn mailbox_waits(&self) -> u64 {
        self.converter.waits() + self.acknowledger.waits()
    }

    pub(super) fn kill(&self) {
        self.work_kill.throw();
        self.control_kill.throw();
    }
}
