//! Every message that crosses actors. Data is named for the state it has
//! reached, orders for what they want; timers stay with their actor.

use tokio::sync::oneshot;

use crate::books::{FlushEnd, Put, PutEnd};
use crate::outcome::{Cause, Rejection};
use crate::ports::source::SourceClosed;
use crate::record::RecordId;
use crate::trace_context::TraceContext;

/// Delivery to converter: this task can take a chunk.
#[derive(Clone, Copy, Debug)]
pub struct TaskReady {
    pub task: u32,
    pub incarnation: u32,
}

/// Converter to delivery. Comes only after the task was ready.
#[derive(Debug)]
pub struct DeliverChunk(pub Put);

/// Supervisor to delivery: close the sink and stop.
#[derive(Debug)]
pub struct CloseTask(pub oneshot::Sender<()>);

/// Delivery to acknowledger: there are outcomes while the put is running. They
/// stay in its report until they are entered, so that none is lost on the way.
#[derive(Debug)]
pub struct ReportedOutcomes {
    pub lease: u32,
}

/// Delivery to acknowledger.
#[derive(Debug)]
pub struct EndedPut {
    pub lease: u32,
    pub end: PutEnd,
}

/// Delivery to acknowledger.
#[derive(Debug)]
pub struct FlushedPuts {
    pub leases: Vec<u32>,
    pub end: FlushEnd,
}

/// Delivery (or who found it dead) to acknowledger, and on to the supervisor.
#[derive(Clone, Debug)]
pub struct TaskGone {
    /// Incarnations begin anew with each generation.
    pub generation: u32,
    pub task: u32,
    pub incarnation: u32,
    pub end: TaskEnd,
}

/// Why a task is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// Another one takes its place.
    Died(Cause),
    /// It stays away until the operator has mended something.
    Failed(Cause),
}

/// Converter or acknowledger to supervisor: with `errors.tolerance=none`.
#[derive(Clone, Debug)]
pub struct RecordFailed {
    pub record: RecordId,
    pub rejection: Rejection,
    /// Where the trace tells of it, if it is traced.
    pub trace: Option<TraceContext>,
}

/// Poller to supervisor: what an event leaves to be done when it is entered.
#[derive(Clone, Debug)]
pub enum SourceNews {
    /// Numbered as they came: whoever stands in for the poller may be heard
    /// before it.
    State(u64, SourceState),
    Failed(RecordFailed),
}

/// How the source is.
#[derive(Clone, Debug)]
pub enum SourceState {
    Ready,
    Troubled(Cause),
    Failed(Cause),
}

/// Pipeline to supervisor: close this task's sink and open another.
#[derive(Clone, Copy, Debug)]
pub struct RestartTask(pub u32);

/// Pipeline to supervisor: take no more, if all that is open could be given
/// back; otherwise tell what could not, and go on.
#[derive(Debug)]
pub struct Quiesce {
    /// How long to wait for records that were asked for.
    pub patience: std::time::Duration,
    pub reply: oneshot::Sender<Vec<RecordId>>,
}

/// Stop polling, finish, close; see the supervisor's list.
#[derive(Debug)]
pub struct Drain {
    pub deadline: std::time::Duration,
    pub reply: oneshot::Sender<Drained>,
}

/// Supervisor to acknowledger: dropped when all is entered that came before.
#[derive(Debug)]
pub struct EnteredAll(pub oneshot::Sender<()>);

/// How a drain ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// All that was delivered is confirmed, and nothing was cut short.
    pub clean: bool,
    /// Open records that were given back undelivered.
    pub released: u64,
    /// Open records on their last attempt, which the broker archives.
    pub lost: usize,
    pub closed: SourceClosed,
}
