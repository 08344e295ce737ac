//! The actors of one generation, spawned bottom-up, in one list of handles.

use std::sync::Arc;

use actix::Actor;
use tokio::time::Instant;

use super::Supervisor;
use crate::acknowledger::{Acknowledger, AcknowledgerLinks};
use crate::converter::Converter;
use crate::delivery::{Delivery, DeliveryLinks};
use crate::kill_switch::KillSwitch;
use crate::mailbox::Mailbox;
use crate::messages::{TaskEnd, TaskGone};
use crate::poller::{Poller, PollerLinks};
use crate::ports::sink::TaskContext;
use crate::window::Window;

/// Batches that may wait for the converter. The credit is the bound that
/// counts: the poller, which also has answers to pass on, should not wait.
const CONVERTER_MAILBOX: usize = 1024;
/// Messages of tasks that may wait for the acknowledger.
const ACKNOWLEDGER_MAILBOX: usize = 256;

#[derive(Debug)]
pub(super) struct TaskHandle {
    pub(super) incarnation: u32,
    pub(super) mailbox: Mailbox<Delivery>,
}

pub(super) struct Generation {
    pub(super) started_at: Instant,
    /// Stops converter and deliveries.
    pub(super) work_kill: KillSwitch,
    /// Stops poller and acknowledger.
    control_kill: KillSwitch,
    pub(super) acknowledger: Mailbox<Acknowledger>,
    pub(super) converter: Mailbox<Converter>,
    pub(super) poller: Mailbox<Poller>,
    pub(super) tasks: Vec<Option<TaskHandle>>,
}

impl Generation {
    pub(super) fn start(parts: &Supervisor, supervisor: Mailbox<Supervisor>) -> Self {
        let (work_kill, control_kill) = (KillSwitch::default(), KillSwitch::default());
        let control = parts.threads.control();

        let acknowledger = Acknowledger::new(AcknowledgerLinks {
            connector: Arc::clone(&parts.connector),
            books: Arc::clone(&parts.books),
            credit: Arc::clone(&parts.credit),
            source: Arc::clone(&parts.source),
            supervisor: supervisor.clone(),
            view: Arc::clone(&parts.view),
            kill: control_kill.clone(),
            buffers: parts.spec.sink.traits().buffers,
            log_errors: parts.spec.log_errors,
        });
        let acknowledger = Mailbox::new(
            Acknowledger::start_in_arbiter(control, move |_| acknowledger),
            ACKNOWLEDGER_MAILBOX,
        );

        let converter = Converter::new(
            parts.spec.conversion.clone(),
            Arc::clone(&parts.books),
            acknowledger.clone(),
            work_kill.clone(),
        );
        let converter = Mailbox::new(
            Converter::start_in_arbiter(parts.threads.pool(0), move |_| converter),
            CONVERTER_MAILBOX,
        );

        let poller_links = PollerLinks {
            connector: Arc::clone(&parts.connector),
            books: Arc::clone(&parts.books),
            credit: Arc::clone(&parts.credit),
            events: Arc::clone(&parts.events),
            converter: converter.clone(),
            acknowledger: acknowledger.clone(),
            supervisor,
            view: Arc::clone(&parts.view),
            kill: control_kill.clone(),
            span: parts.spec.span,
        };
        let tasks = parts.spec.policy.tasks;
        let window = match parts.spec.max_in_flight_records {
            Some(records) => Window::fixed(records),
            None => Window::new(tasks),
        };
        let mut generation = Self {
            started_at: Instant::now(),
            work_kill,
            control_kill,
            acknowledger,
            converter,
            poller: Mailbox::new(
                Poller::start_in_arbiter(control, move |_| Poller::new(poller_links, window)),
                1,
            ),
            tasks: Vec::new(),
        };
        for task in 0..tasks {
            generation.start_task(parts, task as u32, 1);
        }
        generation
    }

    pub(super) fn start_task(&mut self, parts: &Supervisor, task: u32, incarnation: u32) {
        let links = DeliveryLinks {
            converter: self.converter.clone(),
            acknowledger: self.acknowledger.clone(),
            view: Arc::clone(&parts.view),
            kill: self.work_kill.clone(),
        };
        let context = TaskContext {
            connector: parts.spec.connector.clone(),
            task,
            worker: parts.spec.worker.clone(),
        };
        let settings = parts.delivery.clone();
        let addr = Delivery::start_in_arbiter(parts.threads.pool(task as usize), move |_| {
            Delivery::new(context, incarnation, settings, links)
        });
        let place = task as usize;
        if self.tasks.len() <= place {
            self.tasks.resize_with(place + 1, || None);
        }
        self.tasks[place] = Some(TaskHandle {
            incarnation,
            mailbox: Mailbox::new(addr, 1),
        });
    }

    pub(super) fn forget_task(&mut self, task: u32) {
        if let Some(handle) = self.tasks.get_mut(task as usize) {
            *handle = None;
        }
    }

    pub(super) fn is_current(&self, gone: &TaskGone) -> bool {
        matches!(
            self.tasks.get(gone.task as usize),
            Some(Some(handle)) if handle.incarnation == gone.incarnation
        )
    }

    /// Tasks that died without a word.
    pub(super) fn dead_tasks(&self) -> Vec<TaskGone> {
        let dead = |(task, handle): (usize, &Option<TaskHandle>)| {
            let handle = handle.as_ref()?;
            (!handle.mailbox.is_connected()).then(|| TaskGone {
                task: task as u32,
                incarnation: handle.incarnation,
                end: TaskEnd::Died("found dead".into()),
            })
        };
        self.tasks.iter().enumerate().filter_map(dead).collect()
    }

    /// Goes by the acknowledger, behind what the task itself had to say.
    pub(super) fn report_gone(&self, gone: TaskGone) {
        let _ = self.acknowledger.signal(gone);
    }

    /// How often a sender had to wait for a full mailbox.
    pub(super) fn mailbox_waits(&self) -> u64 {
        self.converter.waits() + self.acknowledger.waits()
    }

    pub(super) fn dead_stage(&self) -> Option<&'static str> {
        if !self.poller.is_connected() {
            Some("poller")
        } else if !self.converter.is_connected() {
            Some("converter")
        } else if !self.acknowledger.is_connected() {
            Some("acknowledger")
        } else {
            None
        }
    }

    pub(super) fn kill(&self) {
        self.work_kill.throw();
        self.control_kill.throw();
    }
}
