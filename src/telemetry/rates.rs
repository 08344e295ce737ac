//! Rates and means over the last half minute, as Connect's own metrics have
//! them, from samples of what only grows.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluice_actors::live_view::{ConnectorView, LiveView};
use sluice_actors::meters::TaskFigures;
use tokio::time::{Instant, MissedTickBehavior};

/// `metrics.sample.window.ms`.
const WINDOW: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_secs(2);

/// What is sampled of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Acquired,
    Accepted,
    Released,
    Rejected,
    Delivered,
    AcceptSeconds,
}

/// What is sampled of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskCount {
    Sent,
    Puts,
    PutSeconds,
    /// Seconds, each as often as there were records in the put.
    ActiveSeconds,
    RunningSeconds,
    RestingSeconds,
}

/// The newest samples of one thing, the oldest first.
#[derive(Clone, Debug, Default)]
struct Samples(VecDeque<(Instant, [f64; 6])>);

impl Samples {
    fn push(&mut self, now: Instant, counts: [f64; 6]) {
        let is_anew = |before: &[f64; 6]| before.iter().zip(&counts).any(|(old, new)| new < old);
        if self.0.back().is_some_and(|(_, before)| is_anew(before)) {
            self.0.clear();
        }
        while self.0.len() > 1
            && self
                .0
                .front()
                .is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW)
        {
            self.0.pop_front();
        }
        self.0.push_back((now, counts));
    }

    /// What came within the window, and in how many seconds.
    fn gained(&self, place: usize) -> (f64, f64) {
        match (self.0.front(), self.0.back()) {
            (Some((since, old)), Some((now, new))) => {
                (new[place] - old[place], (*now - *since).as_secs_f64())
            }
            _ => (0.0, 0.0),
        }
    }

    fn rate(&self, place: usize) -> f64 {
        let (gained, seconds) = self.gained(place);
        if seconds > 0.0 { gained / seconds } else { 0.0 }
    }

    fn mean(&self, sum: usize, count: usize) -> Option<f64> {
        let (count, _) = self.gained(count);
        (count > 0.0).then(|| self.gained(sum).0 / count)
    }
}

/// Rates of one connector.
#[derive(Clone, Debug, Default)]
pub struct ConnectorRates(Samples);

impl ConnectorRates {
    /// A second.
    #[must_use]
    pub fn rate(&self, count: Count) -> f64 {
        self.0.rate(count as usize)
    }

    /// Seconds from acquisition to ACCEPT, if there was any.
    #[must_use]
    pub fn accept_mean(&self) -> Option<f64> {
        self.0
            .mean(Count::AcceptSeconds as usize, Count::Accepted as usize)
    }
}

/// Rates of one task.
#[derive(Clone, Debug, Default)]
pub struct TaskRates(Samples);

impl TaskRates {
    #[must_use]
    pub fn rate(&self, count: TaskCount) -> f64 {
        self.0.rate(count as usize)
    }

    /// Seconds that a put took, if there was any.
    #[must_use]
    pub fn put_mean(&self) -> Option<f64> {
        self.0
            .mean(TaskCount::PutSeconds as usize, TaskCount::Puts as usize)
    }

    /// Records in a put.
    #[must_use]
    pub fn put_size_mean(&self) -> Option<f64> {
        self.0
            .mean(TaskCount::Sent as usize, TaskCount::Puts as usize)
    }
}

/// The samples of one worker.
#[derive(Debug, Default)]
pub struct Rates {
    connectors: Mutex<HashMap<Arc<str>, Samples>>,
    tasks: Mutex<HashMap<(Arc<str>, u32), Samples>>,
}

impl Rates {
    /// Takes samples for ever.
    pub async fn run(self: Arc<Self>, view: Arc<LiveView>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.sample(&view, Instant::now());
        }
    }

    pub fn sample(&self, view: &LiveView, now: Instant) {
        for (name, connector) in view.connectors() {
            for (task, figures) in view.figures(&name) {
                let mut tasks = self.tasks.lock();
                let samples = tasks.entry((Arc::clone(&name), task)).or_default();
                samples.push(now, counts_of_task(&figures));
            }
            let mut connectors = self.connectors.lock();
            let samples = connectors.entry(name).or_default();
            samples.push(now, counts(&connector));
        }
    }

    #[must_use]
    pub fn connector(&self, name: &str) -> ConnectorRates {
        let samples = self.connectors.lock().get(name).cloned();
        ConnectorRates(samples.unwrap_or_default())
    }

    #[must_use]
    pub fn task(&self, connector: &Arc<str>, task: u32) -> TaskRates {
        let key = (Arc::clone(connector), task);
        let samples = self.tasks.lock().get(&key).cloned();
        TaskRates(samples.unwrap_or_default())
    }
}

fn counts(view: &ConnectorView) -> [f64; 6] {
    let totals = view.totals;
    [
        totals.acquired as f64,
        totals.accepted as f64,
        totals.released as f64,
        totals.rejected as f64,
        view.delivered as f64,
        view.times.accept.total.as_secs_f64(),
    ]
}

fn counts_of_task(figures: &TaskFigures) -> [f64; 6] {
    let seconds = figures.puts.total.as_secs_f64();
    let (sent, puts) = (figures.sent as f64, figures.puts.count as f64);
    let times = [
        figures.active_time,
        figures.running_time,
        figures.resting_time,
    ];
    let [active, running, resting] = times.map(|time| time.as_secs_f64());
    [sent, puts, seconds, active, running, resting]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(count: f64, seconds: f64) -> [f64; 6] {
        let mut counts = [0.0; 6];
        counts[Count::Accepted as usize] = count;
        counts[Count::AcceptSeconds as usize] = seconds;
        counts
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_rate_is_of_the_window_and_not_of_all_time() {
        let start = Instant::now();
        let mut rates = ConnectorRates::default();
        assert!(near(rates.rate(Count::Accepted), 0.0));
        for second in 0..100_u32 {
            let count = second.saturating_sub(50);
            let at = start + Duration::from_secs(second.into());
            rates
                .0
                .push(at, accepted(f64::from(count * 10), f64::from(count)));
        }
        assert!(near(rates.rate(Count::Accepted), 10.0), "{rates:?}");
        assert!(near(rates.accept_mean().unwrap_or_default(), 0.1));
        assert!(rates.0.0.len() <= 32);
    }

    #[test]
    fn seconds_that_were_won_in_a_second_are_a_part_of_the_time() {
        let start = Instant::now();
        let mut rates = TaskRates::default();
        for second in 0..=10 {
            let of_time = |part| Duration::from_secs(second).mul_f64(part);
            let figures = TaskFigures {
                // Two records for a quarter of the time.
                active_time: 2 * of_time(0.25),
                running_time: of_time(0.75),
                resting_time: of_time(0.125),
                ..TaskFigures::default()
            };
            let at = start + Duration::from_secs(second);
            rates.0.push(at, counts_of_task(&figures));
        }
        for (count, expected) in [
            (TaskCount::ActiveSeconds, 0.5),
            (TaskCount::RunningSeconds, 0.75),
            (TaskCount::RestingSeconds, 0.125),
        ] {
            assert!(near(rates.rate(count), expected), "{count:?} of {rates:?}");
        }
    }

    #[test]
    fn a_connector_that_begins_anew_has_no_negative_rate() {
        let start = Instant::now();
        let mut rates = ConnectorRates::default();
        rates.0.push(start, accepted(1000.0, 1.0));
        rates.0.push(start + INTERVAL, accepted(10.0, 0.1));
        assert!(near(rates.rate(Count::Accepted), 0.0));
        assert_eq!(rates.accept_mean(), None);
        rates.0.push(start + 2 * INTERVAL, accepted(30.0, 0.1));
        assert!(near(rates.rate(Count::Accepted), 10.0));
    }
}
