//! The table's metrics as OTLP has them, histograms with their buckets. What
//! the SDK's instruments count goes there as it was counted; ours has been
//! counted already, so it is put into OTLP's own words.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::any_value::Value as Text;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Pushed,
    NumberDataPoint, Sum,
};
use sluice_actors::meters::{SETTLEMENT_BOUNDS, Spread};

use crate::config::metrics::Temporality;
use crate::telemetry::metrics::{Kind, Labels, Metric, all};
use crate::telemetry::sight::WorkerSight;

/// What the collector has been told, so that it can be told what is new.
#[derive(Clone)]
pub(super) struct Points {
    temporality: Temporality,
    /// When it was told last; at first, when counting began.
    told: SystemTime,
    counters: Known<f64>,
    spreads: Known<Spread>,
}

impl Points {
    pub(super) fn new(temporality: Temporality, began: SystemTime) -> Self {
        Self {
            temporality,
            told: began,
            counters: Known::default(),
            spreads: Known::default(),
        }
    }

    /// All metrics of one look, and what is known once they are taken. If they
    /// are not, the next ones tell of this time too.
    pub(super) fn collect(&self, worker: &WorkerSight, at: SystemTime) -> (Vec<Pushed>, Self) {
        let mut next = Self::new(self.temporality, at);
        let pushed = all().filter_map(|metric| {
            Some(Pushed {
                name: metric.exported(),
                description: metric.doc.to_owned(),
                data: Some(self.data(metric, worker, &mut next)?),
                ..Pushed::default()
            })
        });
        (pushed.collect(), next)
    }

    /// Nothing as long as nothing is known.
    fn data(&self, metric: &Metric, worker: &WorkerSight, next: &mut Self) -> Option<Data> {
        match metric.kind {
            Kind::Gauge => gauge(metric, worker, next.told).map(Data::Gauge),
            Kind::Counter => self.sum(metric, worker, next).map(Data::Sum),
            Kind::Histogram => self.histogram(metric, worker, next).map(Data::Histogram),
        }
    }

    fn sum(&self, metric: &Metric, worker: &WorkerSight, next: &mut Self) -> Option<Sum> {
        let is_delta = self.is_delta(metric.kind);
        let samples = metric.samples(worker).into_iter();
        let points = samples.map(|it| {
            let key = (metric.exported(), it.labels);
            let known = (&self.counters, &mut next.counters);
            let (value, since) = told(known, &key, it.value, is_delta, self.told);
            number(key.1, value, since, next.told)
        });
        Some(Sum {
            data_points: some(points)?,
            aggregation_temporality: temporality(is_delta),
            is_monotonic: true,
        })
    }

    fn histogram(
        &self,
        metric: &Metric,
        worker: &WorkerSight,
        next: &mut Self,
    ) -> Option<Histogram> {
        let is_delta = self.is_delta(metric.kind);
        let points = metric.spreads(worker).map(|(labels, spread)| {
            let key = (metric.exported(), labels);
            let known = (&self.spreads, &mut next.spreads);
            let (spread, since) = told(known, &key, *spread, is_delta, self.told);
            buckets(key.1, &spread, since, next.told)
        });
        Some(Histogram {
            data_points: some(points)?,
            aggregation_temporality: temporality(is_delta),
        })
    }

    /// With `lowmemory`, what is read when it is due stays a total, as the
    /// specification has it.
    fn is_delta(&self, kind: Kind) -> bool {
        match self.temporality {
            Temporality::Cumulative => false,
            Temporality::Delta => true,
            Temporality::LowMemory => kind == Kind::Histogram,
        }
    }
}

/// A metric and its labels.
type Key = (String, Labels);
/// What each series had counted, and since when.
type Known<T> = HashMap<Key, (T, SystemTime)>;

/// What only grows, until it begins anew.
trait Counted: Copy {
    /// What was counted after `before`; `None` if it has begun anew.
    fn beyond(self, before: Self) -> Option<Self>;
}

impl Counted for f64 {
    fn beyond(self, before: Self) -> Option<Self> {
        (self >= before).then_some(self - before)
    }
}

impl Counted for Spread {
    fn beyond(mut self, before: Self) -> Option<Self> {
        self.seconds = self.seconds.beyond(before.seconds)?;
        for (count, before) in self.counts.iter_mut().zip(before.counts) {
            *count = count.checked_sub(before)?;
        }
        Some(self)
    }
}

/// What is to be told of a series that has counted so much, and since when that
/// is counted. `last` is when anything was told.
fn told<T: Counted>(
    (known, next): (&Known<T>, &mut Known<T>),
    key: &Key,
    value: T,
    is_delta: bool,
    last: SystemTime,
) -> (T, SystemTime) {
    let before = known.get(key);
    let goes_on = before.and_then(|(before, since)| Some((value.beyond(*before)?, *since)));
    let (new, since) = goes_on.unwrap_or((value, last));
    next.insert(key.clone(), (value, since));
    if is_delta {
        (new, last)
    } else {
        (value, since)
    }
}

fn gauge(metric: &Metric, worker: &WorkerSight, at: SystemTime) -> Option<Gauge> {
    let samples = metric.samples(worker).into_iter();
    // It has no beginning, which OTLP writes as 0.
    let points = samples.map(|it| number(it.labels, it.value, UNIX_EPOCH, at));
    Some(Gauge {
        data_points: some(points)?,
    })
}

fn some<T>(points: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let points: Vec<T> = points.collect();
    (!points.is_empty()).then_some(points)
}

fn number(labels: Labels, value: f64, since: SystemTime, at: SystemTime) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: nanoseconds(since),
        time_unix_nano: nanoseconds(at),
        value: Some(Number::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn buckets(
    labels: Labels,
    spread: &Spread,
    since: SystemTime,
    at: SystemTime,
) -> HistogramDataPoint {
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: nanoseconds(since),
        time_unix_nano: nanoseconds(at),
        count: spread.count(),
        sum: Some(spread.seconds),
        bucket_counts: spread.counts.to_vec(),
        explicit_bounds: SETTLEMENT_BOUNDS.to_vec(),
        ..HistogramDataPoint::default()
    }
}

fn temporality(is_delta: bool) -> i32 {
    match is_delta {
        true => AggregationTemporality::Delta.into(),
        false => AggregationTemporality::Cumulative.into(),
    }
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    let attributes = labels.into_iter().map(|(name, value)| KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Text::StringValue(value)),
        }),
        ..KeyValue::default()
    });
    attributes.collect()
}

/// Since 1970, as OTLP counts.
fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
