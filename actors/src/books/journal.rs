//! The lives of records that are traced, while their deliveries are open.
//! Empty, and no burden, if there is no tracer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::time::Instant;

use super::passages::Passages;
use super::settling::PutRef;
use crate::ledger::{Entry, Ledger};
use crate::life::{Birth, Choice, End, Event, Finished, FinishedPut, Life, Step, new_span_id};
use crate::pace::Pace;
use crate::ports::source::{Answer, AnsweredRange, LostRange, SettleRange, Settlement};
use crate::ports::tracer::Tracer;
use crate::record::{AcquiredBatch, RawRecord, RecordId, SinkRecord, SourcePartition, TopicId};
use crate::sampling::{Sampling, TraceIds};
use crate::trace_context::{Parent, TraceContext};

/// Where a record's lock is.
type Place = (TopicId, i32, i64);

#[derive(Debug)]
pub(super) struct Tracing {
    pub(super) tracer: Arc<dyn Tracer>,
    pub(super) sampling: Sampling,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) tracing: Option<Tracing>,
    lives: BTreeMap<Place, Arc<Life>>,
    pub(super) passages: Passages,
    finished: Finished,
}

/// A put of several records, some of which are traced.
#[derive(Debug)]
pub(super) struct TracedPut {
    context: TraceContext,
    links: Vec<TraceContext>,
    began: Instant,
}

impl Journal {
    pub(super) fn of(tracer: Arc<dyn Tracer>) -> Self {
        let sampling = tracer.sampling();
        Self {
            tracing: Some(Tracing { tracer, sampling }),
            lives: BTreeMap::new(),
            passages: Passages::default(),
            finished: Finished::default(),
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.tracing.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.lives.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// What is over since it was asked last.
    pub(super) fn take_finished(&mut self) -> Finished {
        std::mem::take(&mut self.finished)
    }

    /// Begins the lives of those of a batch that are chosen at once, with their
    /// places in it.
    pub(super) fn begin(
        &mut self,
        batch: &AcquiredBatch,
        acquisition: u32,
    ) -> Vec<(usize, Arc<Life>)> {
        let Some(Tracing { tracer, sampling }) = &self.tracing else {
            return Vec::new();
        };
        let (tracer, ids) = (Arc::clone(tracer), TraceIds::of(&batch.partition));
        self.passages.begin(batch, acquisition);
        let (mut lives, mut left_out) = (Vec::new(), 0);
        // Asked no more for those that are sampled, once there is no room: it
        // may be all of them.
        let mut samples = true;
        let now = batch.acquired_at;
        for (place, raw) in batch.records.iter().enumerate() {
            let parent = Parent::of(&raw.headers);
            let Some(choice) = choose(*sampling, ids, raw, parent.as_ref()) else {
                self.passages.keep(acquisition, raw, parent);
                continue;
            };
            let is_sampled = choice == Choice::Sampled;
            if (samples || !is_sampled) && tracer.admits(choice, now) {
                lives.push((place, born(batch, acquisition, raw, choice, parent)));
            } else {
                self.passages.keep(acquisition, raw, parent);
                left_out += 1;
                samples &= !is_sampled;
            }
        }
        if left_out > 0 {
            tracer.left_out(left_out);
        }
        for (_, life) in &lives {
            life.enter(Step::Acquire, now);
            self.open(Arc::clone(life), now);
        }
        lives
    }

    pub(super) fn open(&mut self, life: Arc<Life>, now: Instant) {
        let place = place(&life.place.partition, life.place.offset);
        if let Some(before) = self.lives.insert(place, life) {
            self.end(before, End::Lost("acquired again".into()), now);
        }
    }

    fn end(&mut self, life: Arc<Life>, end: End, now: Instant) {
        self.finished.lives.push(life.end(end, now));
    }

    /// The life of what lies here, if it is traced.
    pub(super) fn at(&self, record: &RecordId) -> Option<&Arc<Life>> {
        self.lives.get(&place(&record.partition, record.offset))
    }

    /// The life of a delivery, if it is traced.
    pub(super) fn find(&self, entry: Entry<'_>) -> Option<&Arc<Life>> {
        if self.lives.is_empty() {
            return None;
        }
        let life = self.lives.get(&place(entry.partition, entry.offset));
        life.filter(|life| life.acquisition == entry.acquisition)
    }

    pub(super) fn converted(&mut self, acquisition: u32, pace: &Pace, now: Instant) {
        self.passages.converted(acquisition, pace, now);
    }

    pub(super) fn delivered(&mut self, put: &PutRef, places: &[usize]) {
        self.passages.delivered(put, places);
    }

    /// A task gets a put. Several records have a span of their own together, if
    /// any of them is traced.
    pub(super) fn put_began(
        &self,
        records: &[SinkRecord],
        task: u32,
        now: Instant,
    ) -> Option<TracedPut> {
        if self.lives.is_empty() {
            return None;
        }
        let traced = || records.iter().filter_map(|record| record.life.as_ref());
        let is_batch = records.len() > 1 && traced().next().is_some();
        let batch = is_batch.then(|| TraceContext {
            trace_id: fastrand::u128(1..),
            span_id: new_span_id(),
            is_sampled: true,
        });
        let put = |life: &Arc<Life>| {
            life.enter(Step::Put { task, batch }, now);
            life.current()
        };
        let links: Vec<TraceContext> = traced().map(put).collect();
        batch.map(|context| TracedPut {
            context,
            links,
            began: now,
        })
    }

    pub(super) fn put_ended(&mut self, put: TracedPut, task: u32, records: usize, now: Instant) {
        self.finished.puts.push(FinishedPut {
            context: put.context,
            task,
            records,
            links: put.links,
            began: put.began,
            ended: now,
        });
    }

    fn within(
        &self,
        partition: &SourcePartition,
        offsets: RangeInclusive<i64>,
    ) -> impl Iterator<Item = (&Place, &Arc<Life>)> {
        let first = place(partition, *offsets.start());
        let last = place(partition, *offsets.end());
        self.lives.range(first..=last)
    }

    /// The broker is being told.
    pub(super) fn settling(&self, ranges: &[SettleRange], now: Instant) {
        if self.lives.is_empty() {
            return;
        }
        for range in ranges {
            let offsets = range.first_offset..=range.last_offset;
            for (_, life) in self.within(&range.partition, offsets) {
                match range.settlement {
                    Settlement::Renew => life.note(Event::Renewing, now),
                    settlement => life.enter(Step::Settle(settlement), now),
                }
            }
        }
    }

    /// The broker has answered; the ledger knows already.
    pub(super) fn answered(&mut self, answered: &AnsweredRange, ledger: &Ledger, now: Instant) {
        if self.lives.is_empty() {
            return;
        }
        let AnsweredRange { range, answer } = answered;
        let offsets = range.first_offset..=range.last_offset;
        let end = match answer {
            Answer::Renewed { .. } => {
                for (_, life) in self.within(&range.partition, offsets) {
                    life.note(Event::Renewed, now);
                }
                return;
            }
            Answer::Confirmed => End::Confirmed,
            Answer::Unknown { cause } if range.settlement.is_final() => End::Unknown(cause.clone()),
            Answer::Unknown { cause } => End::Lost(cause.clone()),
        };
        self.end_within(&range.partition, offsets, ledger, &end, now);
    }

    pub(super) fn lost(&mut self, lost: &LostRange, ledger: &Ledger, now: Instant) {
        if self.lives.is_empty() {
            return;
        }
        let offsets = lost.first_offset..=lost.last_offset;
        let end = End::Lost(lost.cause.clone());
        self.end_within(&lost.partition, offsets, ledger, &end, now);
    }

    /// Ends the lives of those whose records are open no more.
    fn end_within(
        &mut self,
        partition: &SourcePartition,
        offsets: RangeInclusive<i64>,
        ledger: &Ledger,
        end: &End,
        now: Instant,
    ) {
        let over = self.within(partition, offsets);
        let over: Vec<Place> = over
            .filter(|(_, life)| !ledger.has(entry(life)))
            .map(|(place, _)| *place)
            .collect();
        for place in over {
            if let Some(life) = self.lives.remove(&place) {
                self.end(life, end.clone(), now);
            }
        }
    }

    /// The same of all that went without a word.
    pub(super) fn expire(&mut self, ledger: &Ledger, now: Instant) {
        self.passages.tidy(ledger);
        let over = self
            .lives
            .extract_if(.., |_, life| !ledger.has(entry(life)));
        let over: Vec<_> = over.collect();
        for (_, life) in over {
            self.end(life, End::Lost("the lock has ended".into()), now);
        }
    }
}

/// Whoever is left was not answered for.
impl Drop for Journal {
    fn drop(&mut self) {
        let (lives, now) = (std::mem::take(&mut self.lives), Instant::now());
        for (_, life) in lives {
            let end = End::Unknown("the connector stopped before the broker answered".into());
            self.end(life, end, now);
        }
        if let Some(tracing) = &self.tracing {
            std::mem::take(&mut self.finished).tell(&*tracing.tracer);
        }
    }
}

fn choose(
    sampling: Sampling,
    ids: TraceIds,
    raw: &RawRecord,
    parent: Option<&Parent>,
) -> Option<Choice> {
    if raw.delivery_count > 1 || raw.parked.is_some() {
        return Some(Choice::Redelivered);
    }
    let is_sampled = match parent {
        Some(parent) => sampling.samples_child(parent.context),
        None => sampling.samples(ids.low(raw.offset)),
    };
    is_sampled.then_some(Choice::Sampled)
}

fn born(
    batch: &AcquiredBatch,
    acquisition: u32,
    raw: &RawRecord,
    choice: Choice,
    parent: Option<Parent>,
) -> Arc<Life> {
    let place = RecordId {
        partition: Arc::clone(&batch.partition),
        offset: raw.offset,
    };
    let parked = raw.parked.as_ref();
    let origin = parked.map_or_else(|| place.clone(), |parked| parked.origin.clone());
    let ids = TraceIds::of(&origin.partition);
    Life::begin(Birth {
        trace_id: trace_id(ids, origin.offset, parent.as_ref()),
        origin,
        place,
        acquisition,
        delivery_count: raw.delivery_count,
        choice,
        parent,
        acquired_at: batch.acquired_at,
    })
}

pub(super) fn trace_id(ids: TraceIds, offset: i64, parent: Option<&Parent>) -> u128 {
    parent.map_or_else(|| ids.id(offset), |parent| parent.context.trace_id)
}

const fn place(partition: &SourcePartition, offset: i64) -> Place {
    (partition.topic_id, partition.partition, offset)
}

fn entry(life: &Life) -> Entry<'_> {
    Entry {
        partition: &life.place.partition,
        offset: life.place.offset,
        acquisition: life.acquisition,
    }
}
