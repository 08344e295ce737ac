//! What one delivery of one record went through, from its acquisition to the
//! broker's answer: steps, each of which begins where the last one ended.
//!
//! Only traced records have one. It knows nothing of spans but their ids, which
//! are fixed when a step begins, so that a sink may pass them on.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::books::{FlushEnd, PutEnd};
use crate::outcome::{Cause, Rejection};
use crate::ports::sink::SinkError;
use crate::ports::source::Settlement;
use crate::ports::tracer::Tracer;
use crate::record::RecordId;
use crate::trace_context::{Parent, TraceContext};

/// A record that is held for days keeps so many steps, and so many events in
/// each: the first ones and the last.
const MOST: usize = 20;

/// Why a record is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    Sampled,
    /// It came before, or was parked.
    Redelivered,
    Failed,
    Slow,
}

/// What a record goes through at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Acquired, until a converter has it.
    Acquire,
    Convert,
    /// By the name that the connector has for it.
    Transform(Arc<str>),
    /// Until a task takes it.
    Queue,
    Put {
        task: u32,
        /// The put's own span, if it has other records too.
        batch: Option<TraceContext>,
    },
    /// Until the sink flushes.
    Flush,
    /// Until its dead letter is written.
    PutAside,
    /// Until it is in the parking topic.
    Park,
    /// Until the operator has mended something.
    Hold,
    /// Until the broker answers.
    Settle(Settlement),
}

/// Something that happened in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Delivered,
    Buffered,
    Retry(Cause),
    Unavailable(Cause),
    Rejected(Rejection),
    TaskFailed(Cause),
    TaskDied(Cause),
    TimedOut,
    /// Its task stopped.
    Abandoned,
    Renewing,
    Renewed,
}

impl Event {
    /// What a put's end says of the records without an outcome; nothing, if
    /// they share in its success, or if one of them is to blame.
    #[must_use]
    pub(crate) fn of_end(end: &PutEnd) -> Option<Self> {
        match end {
            PutEnd::Answered(Err(SinkError::RejectedOne(_))) => None,
            PutEnd::Answered(answer) => answer.as_ref().err().map(Self::of_error),
            PutEnd::Panicked(cause) => Some(Self::TaskDied(cause.clone())),
            PutEnd::TimedOut => Some(Self::TimedOut),
            PutEnd::Abandoned => Some(Self::Abandoned),
        }
    }

    /// The same of a flush of so many records. One that is refused alone is
    /// rejected; of several, it is looked for.
    #[must_use]
    pub(crate) fn of_flush(end: &FlushEnd, records: usize) -> Option<Self> {
        match end {
            FlushEnd::Answered(Err(SinkError::RejectedOne(_))) if records <= 1 => None,
            FlushEnd::Answered(answer) => answer.as_ref().err().map(Self::of_error),
            FlushEnd::Panicked(cause) => Some(Self::TaskDied(cause.clone())),
            FlushEnd::TimedOut => Some(Self::TimedOut),
        }
    }

    fn of_error(error: &SinkError) -> Self {
        match error {
            SinkError::Retry(cause) | SinkError::RejectedOne(cause) => Self::Retry(cause.clone()),
            SinkError::Unavailable(cause) | SinkError::UnavailableFor(cause, _) => {
                Self::Unavailable(cause.clone())
            }
            SinkError::Fatal(cause) => Self::TaskFailed(cause.clone()),
        }
    }

    /// Whether the record is to blame, its sink, or its task: reason enough to
    /// trace it.
    #[must_use]
    pub(crate) const fn is_failure(&self) -> bool {
        !matches!(
            self,
            Self::Delivered | Self::Buffered | Self::Abandoned | Self::Renewing | Self::Renewed
        )
    }

    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Buffered => "buffered",
            Self::Retry(_) => "retry",
            Self::Unavailable(_) => "unavailable",
            Self::Rejected(_) => "rejected",
            Self::TaskFailed(_) => "task_failed",
            Self::TaskDied(_) => "task_died",
            Self::TimedOut => "timed_out",
            Self::Abandoned => "abandoned",
            Self::Renewing => "renewing",
            Self::Renewed => "renewed",
        }
    }

    #[must_use]
    pub const fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Retry(cause)
            | Self::Unavailable(cause)
            | Self::TaskFailed(cause)
            | Self::TaskDied(cause) => Some(cause),
            Self::Rejected(rejection) => Some(&rejection.cause),
            _ => None,
        }
    }
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The broker has its settlement.
    Confirmed,
    /// Nobody can tell whether the broker has.
    Unknown(Cause),
    /// Its lock is gone.
    Lost(Cause),
}

/// A step that is over, or the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lived {
    pub step: Step,
    pub span_id: u64,
    pub began: Instant,
    pub ended: Instant,
    pub events: Vec<(Instant, Event)>,
}

/// See the module.
#[derive(Debug)]
pub struct Life {
    /// Where the record came from, also if it was parked meanwhile.
    pub origin: RecordId,
    /// Where its lock is.
    pub place: RecordId,
    pub acquisition: u32,
    pub delivery_count: u16,
    pub choice: Choice,
    /// The span of the whole delivery.
    pub context: TraceContext,
    pub parent: Option<Parent>,
    pub acquired_at: Instant,
    course: Mutex<Course>,
}

#[derive(Debug, Default)]
struct Course {
    steps: Vec<Lived>,
    left_out: usize,
}

/// What a life is made of when it begins.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) origin: RecordId,
    pub(crate) place: RecordId,
    pub(crate) acquisition: u32,
    pub(crate) delivery_count: u16,
    pub(crate) choice: Choice,
    pub(crate) trace_id: u128,
    pub(crate) parent: Option<Parent>,
    pub(crate) acquired_at: Instant,
}

impl Life {
    pub(crate) fn begin(birth: Birth) -> Arc<Self> {
        let context = TraceContext {
            trace_id: birth.trace_id,
            span_id: new_span_id(),
            is_sampled: true,
        };
        Arc::new(Self {
            origin: birth.origin,
            place: birth.place,
            acquisition: birth.acquisition,
            delivery_count: birth.delivery_count,
            choice: birth.choice,
            context,
            parent: birth.parent,
            acquired_at: birth.acquired_at,
            course: Mutex::default(),
        })
    }

    /// Ends the current step, and begins another.
    pub(crate) fn enter(&self, step: Step, now: Instant) {
        let mut course = self.course.lock();
        let Course { steps, left_out } = &mut *course;
        let now = end_last(steps, now);
        *left_out += make_room(steps);
        steps.push(Lived {
            step,
            span_id: new_span_id(),
            began: now,
            ended: now,
            events: Vec::new(),
        });
    }

    /// Something happens in the current step.
    pub(crate) fn note(&self, event: Event, now: Instant) {
        if let Some(last) = self.course.lock().steps.last_mut() {
            make_room(&mut last.events);
            last.events.push((now.max(last.began), event));
        }
    }

    /// The span of the current step.
    #[must_use]
    pub fn current(&self) -> TraceContext {
        let course = self.course.lock();
        let last = course.steps.last();
        last.map_or(self.context, |it| self.context.child(it.span_id))
    }

    /// The span of the put that the record is in with others.
    #[must_use]
    pub fn batch(&self) -> Option<TraceContext> {
        match self.course.lock().steps.last()?.step {
            Step::Put { batch, .. } => batch,
            _ => None,
        }
    }

    pub(crate) fn end(self: Arc<Self>, end: End, now: Instant) -> FinishedLife {
        let Course {
            mut steps,
            left_out,
        } = std::mem::take(&mut *self.course.lock());
        let ended_at = end_last(&mut steps, now);
        FinishedLife {
            life: self,
            steps,
            left_out,
            end,
            ended_at,
        }
    }
}

/// Each actor has its own look at the clock: no step ends before it began.
/// Returns when it ended.
fn end_last(steps: &mut [Lived], now: Instant) -> Instant {
    let Some(last) = steps.last_mut() else {
        return now;
    };
    last.ended = now.max(last.began);
    last.ended
}

/// Leaves one out in the middle, if there are too many. Returns how many.
fn make_room<T>(list: &mut Vec<T>) -> usize {
    let is_full = list.len() >= MOST;
    if is_full {
        list.remove(MOST / 2);
    }
    usize::from(is_full)
}

/// Of a span, in whichever trace.
#[must_use]
pub fn new_span_id() -> u64 {
    fastrand::u64(1..)
}

/// A delivery that is over.
#[derive(Debug)]
pub struct FinishedLife {
    pub life: Arc<Life>,
    /// In their order.
    pub steps: Vec<Lived>,
    /// Steps between them that were too many.
    pub left_out: usize,
    pub end: End,
    pub ended_at: Instant,
}

impl FinishedLife {
    /// What became of the record, in a word.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        let settlement = match self.steps.last().map(|it| &it.step) {
            Some(Step::Settle(settlement)) => Some(*settlement),
            _ => None,
        };
        match (&self.end, settlement) {
            (End::Lost(_), _) => "lost",
            (End::Unknown(_), _) => "unknown",
            (End::Confirmed, Some(Settlement::Release)) => "released",
            (End::Confirmed, Some(Settlement::Reject)) => "rejected",
            (End::Confirmed, _) => self.accepted_as(),
        }
    }

    /// By ACCEPT it may also be put aside or parked.
    fn accepted_as(&self) -> &'static str {
        let before = self.steps.iter().rev().nth(1).map(|it| &it.step);
        match before {
            Some(Step::PutAside) => "rejected",
            Some(Step::Park) => "parked",
            _ => "accepted",
        }
    }
}

/// A put of several records that is over.
#[derive(Debug)]
pub struct FinishedPut {
    /// In a trace of its own.
    pub context: TraceContext,
    pub task: u32,
    pub records: usize,
    /// The spans that its traced records are put in.
    pub links: Vec<TraceContext>,
    pub began: Instant,
    pub ended: Instant,
}

/// What is over, to be told when nobody waits for the books.
#[derive(Debug, Default)]
pub struct Finished {
    pub(crate) lives: Vec<FinishedLife>,
    pub(crate) puts: Vec<FinishedPut>,
}

impl Finished {
    pub(crate) fn tell(self, tracer: &dyn Tracer) {
        self.puts.into_iter().for_each(|it| tracer.put_ended(it));
        self.lives.into_iter().for_each(|it| tracer.ended(it));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.lives.extend(other.lives);
        self.puts.extend(other.puts);
    }
}

#[cfg(test)]
mod tests;
