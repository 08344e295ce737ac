//! From a record's life to spans: one for the whole delivery, and one below it
//! for each step.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::SystemTime;

use opentelemetry::trace::{
    Event as SpanEvent, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId,
    TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sluice_actors::life::{End, Event, FinishedLife, FinishedPut, Lived, Step};
use sluice_actors::ports::source::Settlement;
use sluice_actors::trace_context::{Parent, TraceContext};
use tokio::time::Instant;

use super::attributes::{
    BATCH_COUNT, CAUSE, Common, ERROR_TYPE, OPERATION_NAME, OPERATION_TYPE, TASK, text,
};

/// The wall clock's time of instants, as both are now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    pub(super) time: SystemTime,
}

impl Clock {
    pub(super) fn now() -> Self {
        Self {
            now: Instant::now(),
            time: SystemTime::now(),
        }
    }

    fn time_of(self, instant: Instant) -> SystemTime {
        let ago = self.now.saturating_duration_since(instant);
        self.time.checked_sub(ago).unwrap_or(self.time)
    }
}

/// Makes the spans of one connector.
#[derive(Debug)]
pub(super) struct Spans {
    pub(super) common: Common,
    pub(super) scope: InstrumentationScope,
}

impl Spans {
    pub(super) fn of_life(&self, finished: &FinishedLife, clock: Clock) -> Vec<SpanData> {
        let life = &*finished.life;
        let state = state(life.parent.as_ref());
        let mut spans = Vec::with_capacity(finished.steps.len() + 1);
        let mut root = self.span(life.context, &state, "process".into(), clock);
        root.name = format!("process {}", life.origin.partition.topic).into();
        root.span_kind = SpanKind::Consumer;
        if let Some(parent) = &life.parent {
            root.parent_span_id = SpanId::from(parent.context.span_id);
            root.parent_span_is_remote = true;
        }
        root.start_time = clock.time_of(life.acquired_at);
        root.end_time = clock.time_of(finished.ended_at);
        root.attributes = self.common.of_life(finished);
        self.end(&mut root, finished);
        spans.push(root);
        for lived in &finished.steps {
            let context = life.context.child(lived.span_id);
            let mut span = self.span(context, &state, name(&lived.step), clock);
            span.parent_span_id = SpanId::from(life.context.span_id);
            self.fill(&mut span, lived, clock);
            spans.push(span);
        }
        spans
    }

    /// How the delivery ended: an event, and a status if that is not well.
    fn end(&self, root: &mut SpanData, finished: &FinishedLife) {
        let (name, cause) = match &finished.end {
            End::Confirmed => ("confirmed", None),
            End::Unknown(cause) => ("unknown", Some(cause)),
            End::Lost(cause) => ("lost", Some(cause)),
        };
        let attributes = cause.map(|cause| text(CAUSE, self.common.words(cause)));
        let mut events = SpanEvents::default();
        events.events.push(SpanEvent::new(
            name,
            root.end_time,
            attributes.into_iter().collect(),
            0,
        ));
        root.events = events;
        let outcome = finished.outcome();
        if outcome == "accepted" {
            return;
        }
        let failure = || {
            let steps = finished.steps.iter().rev();
            let mut events = steps.flat_map(|it| it.events.iter().rev());
            events.find_map(|(_, event)| event.cause())
        };
        let cause = cause.or_else(failure);
        let description =
            cause.map_or_else(|| outcome.to_owned(), |cause| self.common.words(cause));
        root.attributes.push(text(ERROR_TYPE, outcome));
        root.status = Status::error(description);
    }

    fn fill(&self, span: &mut SpanData, lived: &Lived, clock: Clock) {
        span.start_time = clock.time_of(lived.began);
        span.end_time = clock.time_of(lived.ended);
        let mut own = Vec::new();
        match &lived.step {
            Step::Put { task, batch } => {
                own.push(text(TASK, i64::from(*task)));
                if let Some(batch) = batch {
                    span.links.links.push(link(*batch));
                }
            }
            Step::Settle(settlement) => {
                span.span_kind = SpanKind::Client;
                own.push(text(OPERATION_NAME, settled(*settlement)));
                own.push(text(OPERATION_TYPE, "settle"));
            }
            _ => {}
        }
        let mut outcomes = lived.events.iter().rev().map(|(_, event)| event);
        if let Some(event) = outcomes.find(|it| !is_renewal(it)) {
            own.extend(self.common.verdict(event));
            if let Some(cause) = event.cause() {
                span.status = Status::error(self.common.words(cause));
            }
        }
        span.attributes = self.common.with(own);
        let events = lived.events.iter().map(|(at, event)| {
            let cause = event
                .cause()
                .map(|cause| text(CAUSE, self.common.words(cause)));
            let (at, attributes) = (clock.time_of(*at), cause.into_iter().collect());
            SpanEvent::new(event.name(), at, attributes, 0)
        });
        let mut all = SpanEvents::default();
        all.events = events.collect();
        span.events = all;
    }

    pub(super) fn of_put(&self, put: &FinishedPut, clock: Clock) -> SpanData {
        let mut span = self.span(put.context, &TraceState::NONE, "put".into(), clock);
        span.start_time = clock.time_of(put.began);
        span.end_time = clock.time_of(put.ended);
        span.attributes = self.common.with([
            text(TASK, i64::from(put.task)),
            text(BATCH_COUNT, put.records as i64),
        ]);
        span.links.links = put.links.iter().copied().map(link).collect();
        span
    }

    fn span(
        &self,
        context: TraceContext,
        state: &TraceState,
        name: Cow<'static, str>,
        clock: Clock,
    ) -> SpanData {
        empty(context, state, name, &self.scope, clock)
    }
}

/// A span that says nothing yet.
pub(super) fn empty(
    context: TraceContext,
    state: &TraceState,
    name: Cow<'static, str>,
    scope: &InstrumentationScope,
    clock: Clock,
) -> SpanData {
    SpanData {
        span_context: span_context(context, state.clone(), false),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name,
        start_time: clock.time,
        end_time: clock.time,
        attributes: Vec::<KeyValue>::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope.clone(),
    }
}

const fn is_renewal(event: &Event) -> bool {
    matches!(event, Event::Renewing | Event::Renewed)
}

fn name(step: &Step) -> Cow<'static, str> {
    match step {
        Step::Acquire => "acquire".into(),
        Step::Convert => "convert".into(),
        Step::Transform(alias) => format!("transform {alias}").into(),
        Step::Queue => "queue".into(),
        Step::Put { .. } => "put".into(),
        Step::Flush => "flush".into(),
        Step::PutAside => "put aside".into(),
        Step::Park => "park".into(),
        Step::Hold => "hold".into(),
        Step::Settle(_) => "settle".into(),
    }
}

const fn settled(settlement: Settlement) -> &'static str {
    match settlement {
        Settlement::Accept => "accept",
        Settlement::Release => "release",
        Settlement::Reject => "reject",
        Settlement::Renew => "renew",
    }
}

pub(super) fn state(parent: Option<&Parent>) -> TraceState {
    let state = parent.and_then(|it| it.state.as_deref());
    let state = state.and_then(|it| std::str::from_utf8(it).ok());
    let state = state.and_then(|it| TraceState::from_str(it).ok());
    state.unwrap_or_default()
}

fn span_context(context: TraceContext, state: TraceState, is_remote: bool) -> SpanContext {
    let flags = match context.is_sampled {
        true => TraceFlags::SAMPLED,
        false => TraceFlags::default(),
    };
    let (trace_id, span_id) = (
        TraceId::from(context.trace_id),
        SpanId::from(context.span_id),
    );
    SpanContext::new(trace_id, span_id, flags, is_remote, state)
}

fn link(context: TraceContext) -> Link {
    Link::with_context(span_context(context, TraceState::NONE, false))
}

#[cfg(test)]
mod tests;
