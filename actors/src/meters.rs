//! What a task and a ledger count beyond their totals: times, and how they
//! are spread. Plain numbers; whoever exports them knows how.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A maximum is forgotten after one to two of these.
const PEAK_WINDOW: Duration = Duration::from_secs(30);

/// The largest value of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak<T> {
    since: Option<Instant>,
    current: T,
    before: T,
}

impl<T: Copy + Default + Ord> Peak<T> {
    pub fn note(&mut self, value: T, now: Instant) {
        self.turn(now);
        self.current = self.current.max(value);
    }

    #[must_use]
    pub fn value(mut self, now: Instant) -> T {
        self.turn(now);
        self.current.max(self.before)
    }

    /// Begins another window when this one is over.
    fn turn(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let age = now.saturating_duration_since(since);
        if age < PEAK_WINDOW {
            return;
        }
        self.before = if age < 2 * PEAK_WINDOW {
            self.current
        } else {
            T::default()
        };
        self.current = T::default();
        self.since = Some(now);
    }
}

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub count: u64,
    pub total: Duration,
    pub longest: Peak<Duration>,
}

impl Timing {
    pub fn add(&mut self, time: Duration, times: u32, now: Instant) {
        self.count += u64::from(times);
        self.total += time * times;
        self.longest.note(time, now);
    }
}

/// Upper bounds of a settlement's time, in seconds.
pub const SETTLEMENT_BOUNDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// How long the broker took to answer settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// One for each bound, not added up, and one for what lies above.
    pub counts: [u64; SETTLEMENT_BOUNDS.len() + 1],
    pub seconds: f64,
}

impl Spread {
    pub fn add(&mut self, time: Duration, times: u64) {
        let seconds = time.as_secs_f64();
        let bucket = SETTLEMENT_BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[bucket] += times;
        self.seconds += seconds * times as f64;
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What one task counts, over all its incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    pub puts: Timing,
    /// Records in puts that have ended, whichever way.
    pub sent: u64,
    /// Records in the put that is under way.
    pub active: u64,
    pub most_active: Peak<u64>,
    /// The times of all puts, each as often as it had records: what is won of
    /// it in a second is the mean of `active`.
    pub active_time: Duration,
    pub largest_put: u64,
    /// Whether its sink is open.
    pub opened: bool,
    /// Whether it was so in any incarnation.
    pub has_opened: bool,
    pub running_time: Duration,
    /// While its sink could not take records, and was left alone.
    pub resting_time: Duration,
}

/// What a task's time is spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    Running,
    Resting,
    #[default]
    Other,
}

/// A task's own counters; locked once a put, by nobody else for long.
#[derive(Debug, Default)]
pub struct TaskMeter(Mutex<Counted>);

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    figures: TaskFigures,
    /// The put that was begun last. One that was given up may end after it.
    newest_put: u64,
    phase: Phase,
    /// Up to when times are in the figures.
    counted_to: Option<Instant>,
}

impl Counted {
    /// Adds what has gone by since the last time.
    fn count_to(&mut self, now: Instant) {
        let before = self.counted_to.replace(now).unwrap_or(now);
        let elapsed = now.saturating_duration_since(before);
        let figures = &mut self.figures;
        match self.phase {
            Phase::Running => figures.running_time += elapsed,
            Phase::Resting => figures.resting_time += elapsed,
            Phase::Other => {}
        }
        let active = u32::try_from(figures.active).unwrap_or(u32::MAX);
        figures.active_time += elapsed.saturating_mul(active);
    }
}

impl TaskMeter {
    #[must_use]
    pub fn figures(&self) -> TaskFigures {
        let mut counted = *self.0.lock();
        counted.count_to(Instant::now());
        counted.figures
    }

    pub(crate) fn enter(&self, phase: Phase) {
        let mut counted = self.0.lock();
        counted.count_to(Instant::now());
        counted.phase = phase;
    }

    pub(crate) fn set_opened(&self, opened: bool) {
        let figures = &mut self.0.lock().figures;
        figures.opened = opened;
        figures.has_opened |= opened;
    }

    /// Counts a put from now until what is returned is dropped, whichever way
    /// the put ends.
    pub(crate) fn put(&self, records: usize) -> PutUnderWay<'_> {
        let (records, now) = (records as u64, Instant::now());
        let mut counted = self.0.lock();
        counted.count_to(now);
        counted.figures.active = records;
        counted.figures.most_active.note(records, now);
        counted.newest_put += 1;
        PutUnderWay {
            meter: self,
            number: counted.newest_put,
            records,
            since: now,
        }
    }
}

/// A put that is being counted.
#[derive(Debug)]
pub(crate) struct PutUnderWay<'a> {
    meter: &'a TaskMeter,
    number: u64,
    records: u64,
    since: Instant,
}

impl Drop for PutUnderWay<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut counted = self.meter.0.lock();
        counted.count_to(now);
        let is_newest = counted.newest_put == self.number;
        let figures = &mut counted.figures;
        figures.puts.add(now - self.since, 1, now);
        figures.sent += self.records;
        if is_newest {
            figures.active = 0;
        }
        figures.largest_put = figures.largest_put.max(self.records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_peak_is_remembered_for_a_while_and_then_forgotten() {
        let start = Instant::now();
        let mut peak = Peak::default();
        peak.note(ms(7), start);
        peak.note(ms(3), start + ms(1));
        assert_eq!(peak.value(start + ms(29_000)), ms(7));
        peak.note(ms(2), start + ms(31_000));
        assert_eq!(peak.value(start + ms(32_000)), ms(7), "the window before");
        assert_eq!(peak.value(start + ms(61_500)), ms(2));
        assert_eq!(peak.value(start + ms(200_000)), Duration::ZERO);
    }

    #[test]
    fn a_time_on_a_bound_counts_below_it() {
        let mut spread = Spread::default();
        spread.add(ms(1), 2);
        spread.add(ms(6), 1);
        spread.add(ms(60_000), 1);
        assert_eq!(spread.counts[0], 2);
        assert_eq!(spread.counts[3], 1);
        assert_eq!(spread.counts[SETTLEMENT_BOUNDS.len()], 1);
        assert_eq!(spread.count(), 4);
        assert!((spread.seconds - 60.008).abs() < 1e-9, "{spread:?}");
    }

    #[tokio::test]
    async fn a_put_is_counted_also_when_it_is_abandoned() {
        tokio::time::pause();
        let meter = TaskMeter::default();
        let put = meter.put(5);
        assert_eq!((meter.figures().active, meter.figures().sent), (5, 0));
        tokio::time::advance(ms(20)).await;
        drop(put);
        drop(meter.put(2));
        let figures = meter.figures();
        assert_eq!((figures.active, figures.sent), (0, 7));
        assert_eq!((figures.puts.count, figures.puts.total), (2, ms(20)));
        assert_eq!(figures.puts.longest.value(Instant::now()), ms(20));
        assert_eq!(figures.largest_put, 5);
    }

    #[test]
    fn a_put_that_ends_late_leaves_the_next_one_under_way() {
        let meter = TaskMeter::default();
        let abandoned = meter.put(5);
        let next = meter.put(2);
        drop(abandoned);
        assert_eq!((meter.figures().active, meter.figures().sent), (2, 5));
        drop(next);
        assert_eq!((meter.figures().active, meter.figures().sent), (0, 7));
    }

    #[tokio::test]
    async fn records_are_active_for_as_long_as_their_put_takes() {
        tokio::time::pause();
        let meter = TaskMeter::default();
        let put = meter.put(5);
        tokio::time::advance(ms(20)).await;
        assert_eq!(meter.figures().active_time, ms(100), "also while it runs");
        drop(put);
        tokio::time::advance(ms(50)).await;
        drop(meter.put(3));
        let figures = meter.figures();
        assert_eq!(figures.active_time, ms(100));
        assert_eq!(figures.most_active.value(Instant::now()), 5);
    }

    #[tokio::test]
    async fn time_counts_for_what_a_task_does_in_it() {
        tokio::time::pause();
        let meter = TaskMeter::default();
        for (phase, spent) in [
            (Phase::Other, 1),
            (Phase::Running, 20),
            (Phase::Resting, 300),
            (Phase::Running, 4000),
        ] {
            meter.enter(phase);
            tokio::time::advance(ms(spent)).await;
        }
        let figures = meter.figures();
        assert_eq!(figures.running_time, ms(4020));
        assert_eq!(figures.resting_time, ms(300));
    }
}
