//! Puts under way, by lease.

use ahash::{AHashMap, AHashSet};
use tokio::time::Instant;

use super::journal::TracedPut;
use super::settling::PutRef;
use crate::chunk::Chunk;
use crate::outcome::Cause;
use crate::ports::sink::SinkError;
use crate::report::{Closed, Report};
use crate::work_queue::History;

/// A chunk that a task is to put.
#[derive(Clone, Debug)]
pub struct Put {
    pub lease: u32,
    pub chunk: Chunk,
    pub report: Report,
    /// A sink that buffers is to be flushed before it and behind it.
    pub alone: bool,
}

/// How a flush ended.
#[derive(Clone, Debug)]
pub enum FlushEnd {
    Answered(Result<(), SinkError>),
    /// The sink panicked; the task is gone.
    Panicked(Cause),
    /// It took longer than `share.delivery.timeout.ms`; the task is gone.
    TimedOut,
}

/// How a put ended.
#[derive(Clone, Debug)]
pub enum PutEnd {
    /// The sink answered; records without an outcome share its answer.
    Answered(Result<(), SinkError>),
    /// The sink panicked, or blocked a thread that was not its own; the task
    /// is gone.
    Panicked(Cause),
    /// It took longer than `share.delivery.timeout.ms`; the task is gone.
    TimedOut,
    /// The task stopped before the sink answered; nobody is to blame.
    Abandoned,
}

/// A put as the books see it.
#[derive(Debug)]
pub(super) struct OpenPut {
    pub(super) task: u32,
    pub(super) handed_out: Instant,
    pub(super) traced: Option<TracedPut>,
    pub(super) chunk: Chunk,
    pub(super) report: Report,
    pub(super) history: History,
    /// It is to find out whether the sink is back.
    pub(super) is_probe: bool,
    /// Places that wait for the sink's flush.
    pub(super) buffered: Vec<usize>,
    /// Since when the first of them do.
    pub(super) buffered_at: Option<Instant>,
    pub(super) ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct Puts {
    open: AHashMap<u32, OpenPut>,
    last_lease: u32,
}

impl Puts {
    /// A lease that no open put has; never 0.
    pub(super) fn next_lease(&mut self) -> u32 {
        loop {
            self.last_lease = self.last_lease.wrapping_add(1).max(1);
            if !self.open.contains_key(&self.last_lease) {
                return self.last_lease;
            }
        }
    }

    pub(super) fn open(&mut self, lease: u32, put: OpenPut) {
        self.open.insert(lease, put);
    }

    pub(super) fn get(&mut self, lease: u32) -> Option<&mut OpenPut> {
        self.open.get_mut(&lease)
    }

    pub(super) fn refer(&self, lease: u32) -> Option<PutRef> {
        self.open.get(&lease).map(|put| PutRef {
            lease,
            task: put.task,
            handed_out: put.handed_out,
            buffered_at: put.buffered_at,
            chunk: put.chunk.clone(),
            history: put.history,
            is_probe: put.is_probe,
        })
    }

    /// Marks a put as ended; returns what its report has left.
    pub(super) fn end(&mut self, lease: u32) -> Closed {
        self.open
            .get_mut(&lease)
            .map_or_else(Closed::default, |put| {
                put.ended = true;
                put.report.close()
            })
    }

    /// Places that wait for a flush; they wait no more.
    pub(super) fn take_buffered(&mut self, lease: u32) -> Vec<usize> {
        let mut places = self
            .open
            .get_mut(&lease)
            .map_or_else(Vec::new, |put| std::mem::take(&mut put.buffered));
        places.sort_unstable();
        places
    }

    pub(super) fn take(&mut self, lease: u32) -> Option<OpenPut> {
        self.open.remove(&lease)
    }

    pub(super) fn is_open(&self, lease: u32) -> bool {
        self.open.contains_key(&lease)
    }

    /// How many tasks but this one have puts that are not over.
    pub(super) fn other_tasks(&self, task: u32) -> usize {
        let tasks = self.open.values().map(|put| put.task);
        tasks
            .filter(|it| *it != task)
            .collect::<AHashSet<u32>>()
            .len()
    }

    /// Leases of one task, or of all.
    pub(super) fn leases(&self, task: Option<u32>) -> Vec<u32> {
        let of_task = |put: &OpenPut| task.is_none_or(|task| put.task == task);
        let mut leases: Vec<u32> = self
            .open
            .iter()
            .filter_map(|(lease, put)| of_task(put).then_some(*lease))
            .collect();
        leases.sort_unstable();
        leases
    }
}
