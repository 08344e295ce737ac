//! The table's metrics as OpenTelemetry's instruments. They are read when the
//! metrics are due, and all of one push from one look.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use parking_lot::Mutex;
use sluice_actors::meters::{SETTLEMENT_BOUNDS, Spread};
use tokio::time::Instant;

use super::Look;
use crate::telemetry::metrics::{Kind, Labels, Metric};
use crate::telemetry::sight::WorkerSight;

/// Instruments are read one after the other; those of one push are sooner.
const FRESH: Duration = Duration::from_millis(200);

/// Looks at the worker once for all instruments of a push.
pub(super) struct Sights {
    look: Look,
    last: Mutex<Option<(Instant, Arc<WorkerSight>)>>,
}

impl Sights {
    pub(super) fn new(look: Look) -> Self {
        Self {
            look,
            last: Mutex::default(),
        }
    }

    fn worker(&self, now: Instant) -> Arc<WorkerSight> {
        let mut last = self.last.lock();
        match &*last {
            Some((at, worker)) if now.saturating_duration_since(*at) < FRESH => Arc::clone(worker),
            _ => {
                let worker = Arc::new((self.look)());
                *last = Some((now, Arc::clone(&worker)));
                worker
            }
        }
    }
}

/// A histogram cannot be read when it is due: it becomes its parts, as
/// Prometheus has them.
#[derive(Clone, Copy)]
enum Part {
    Bucket,
    Sum,
    Count,
}

impl Part {
    const ALL: [Self; 3] = [Self::Bucket, Self::Sum, Self::Count];

    const fn suffix(self) -> &'static str {
        match self {
            Self::Bucket => "_bucket",
            Self::Sum => "_sum",
            Self::Count => "_count",
        }
    }
}

/// What a metric's instruments are called.
pub(super) fn names(metric: &Metric) -> impl Iterator<Item = String> + use<> {
    let name = metric.exported();
    let suffixes = match metric.kind {
        Kind::Counter | Kind::Gauge => vec![""],
        Kind::Histogram => Part::ALL.map(Part::suffix).to_vec(),
    };
    suffixes
        .into_iter()
        .map(move |suffix| format!("{name}{suffix}"))
}

pub(super) fn instrument(meter: &Meter, metric: &'static Metric, sights: &Arc<Sights>) {
    let name = metric.exported();
    match metric.kind {
        Kind::Counter => {
            let counter = meter.f64_observable_counter(name);
            let counter = counter.with_description(metric.doc);
            counter.with_callback(samples(metric, sights)).build();
        }
        Kind::Gauge => {
            let gauge = meter.f64_observable_gauge(name);
            let gauge = gauge.with_description(metric.doc);
            gauge.with_callback(samples(metric, sights)).build();
        }
        Kind::Histogram => {
            for part in Part::ALL {
                let counter = meter.f64_observable_counter(format!("{name}{}", part.suffix()));
                let counter = counter.with_description(metric.doc);
                counter.with_callback(spreads(metric, part, sights)).build();
            }
        }
    }
}

fn samples(
    metric: &'static Metric,
    sights: &Arc<Sights>,
) -> impl Fn(&dyn AsyncInstrument<f64>) + Send + Sync + 'static {
    let sights = Arc::clone(sights);
    move |observer| {
        for sample in metric.samples(&sights.worker(Instant::now())) {
            observer.observe(sample.value, &attributes(sample.labels));
        }
    }
}

fn spreads(
    metric: &'static Metric,
    part: Part,
    sights: &Arc<Sights>,
) -> impl Fn(&dyn AsyncInstrument<f64>) + Send + Sync + 'static {
    let sights = Arc::clone(sights);
    move |observer| {
        for (labels, spread) in metric.spreads(&sights.worker(Instant::now())) {
            match part {
                Part::Sum => observer.observe(spread.seconds, &attributes(labels)),
                Part::Count => observer.observe(spread.count() as f64, &attributes(labels)),
                Part::Bucket => {
                    for (bound, count) in buckets(spread) {
                        let mut attributes = attributes(labels.clone());
                        attributes.push(KeyValue::new("le", bound));
                        observer.observe(count as f64, &attributes);
                    }
                }
            }
        }
    }
}

/// Each with all that lie below its bound.
fn buckets(spread: &Spread) -> impl Iterator<Item = (String, u64)> {
    let bounds = SETTLEMENT_BOUNDS.iter().map(|bound| bound.to_string());
    let bounds = bounds.chain(["+Inf".to_owned()]);
    let counts = spread.counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    bounds.zip(counts.collect::<Vec<_>>())
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    let attributes = labels.into_iter();
    attributes
        .map(|(name, value)| KeyValue::new(name, value))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn one_push_looks_at_the_worker_once_and_the_next_one_anew() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let sights = Sights::new(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            WorkerSight::default()
        }));
        let now = Instant::now();
        sights.worker(now);
        sights.worker(now + FRESH / 2);
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        sights.worker(now + FRESH);
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn buckets_add_up_as_prometheus_has_them() {
        let mut spread = Spread::default();
        spread.add(Duration::from_millis(3), 2);
        spread.add(Duration::from_secs(60), 1);
        let buckets: Vec<_> = buckets(&spread).collect();
        assert_eq!(buckets[1], ("0.0025".to_owned(), 0));
        assert_eq!(buckets[2], ("0.005".to_owned(), 2));
        assert_eq!(buckets.last(), Some(&("+Inf".to_owned(), 3)));
        assert_eq!(buckets.len(), SETTLEMENT_BOUNDS.len() + 1);
    }
}
