//! How latencies are spread.

use std::time::Duration;

use crate::figures::{median, median_ratio};

/// Where a plot has points.
const PLOTTED: [f64; 22] = [
    0.1, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5,
    95.0, 97.5, 99.0, 99.5, 99.9, 100.0,
];

/// Latencies in order, never none.
#[derive(Clone, Debug)]
pub(super) struct Distribution(Vec<Duration>);

impl Distribution {
    /// None without latencies.
    pub(super) fn new(mut latencies: Vec<Duration>) -> Option<Self> {
        latencies.sort_unstable();
        (!latencies.is_empty()).then_some(Self(latencies))
    }

    /// Milliseconds that this part of the latencies, in percent, did not
    /// exceed: the nearest rank.
    pub(super) fn percentile_ms(&self, percent: f64) -> f64 {
        // 99.9 % of a thousand comes out a little above 999.
        let rank = (percent / 100.0 * self.0.len() as f64 - 1e-6).ceil() as usize;
        let place = rank.clamp(1, self.0.len()) - 1;
        self.0[place].as_secs_f64() * 1000.0
    }
}

/// The same run in several rounds. Figures are medians of those of each round:
/// a machine that is busy for a while spoils one of them.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    distributions: Vec<Distribution>,
    /// Of the machine, each round.
    busy_cores: Vec<f64>,
}

impl Rounds {
    pub(super) const fn new() -> Self {
        Self {
            distributions: Vec::new(),
            busy_cores: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, (distribution, busy_cores): (Distribution, f64)) {
        self.distributions.push(distribution);
        self.busy_cores.push(busy_cores);
    }

    pub(super) fn busy_cores(&self) -> f64 {
        median(self.busy_cores.iter().copied())
    }

    pub(super) fn percentile_ms(&self, percent: f64) -> f64 {
        median(self.percentiles_ms(percent))
    }

    /// So many times as high is the median as that of `others`, whose rounds
    /// were beside these.
    pub(super) fn rise_over(&self, others: &Self) -> f64 {
        median_ratio(&self.percentiles_ms(50.0), &others.percentiles_ms(50.0))
    }

    /// Milliseconds, and the percentage of latencies up to there.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let points = PLOTTED.iter();
        points
            .map(|percent| (self.percentile_ms(*percent), *percent))
            .collect()
    }

    fn percentiles_ms(&self, percent: f64) -> Vec<f64> {
        let rounds = self.distributions.iter();
        rounds.map(|round| round.percentile_ms(percent)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(from: u64, to: u64) -> Distribution {
        Distribution::new((from..=to).rev().map(Duration::from_millis).collect()).unwrap()
    }

    #[test]
    fn a_percentile_is_the_latency_that_so_many_did_not_exceed() {
        let latencies = millis(1, 1000);
        for (percent, expected) in [(0.0, 1.0), (50.0, 500.0), (99.9, 999.0), (100.0, 1000.0)] {
            let reached = latencies.percentile_ms(percent);
            assert!((reached - expected).abs() < 1e-9, "{percent}: {reached}");
        }
    }

    #[test]
    fn one_slow_one_in_a_hundred_is_seen_in_the_last_percent_only() {
        let mut latencies = vec![Duration::from_millis(1); 99];
        latencies.push(Duration::from_secs(1));
        let latencies = Distribution::new(latencies).unwrap();
        assert!(latencies.percentile_ms(99.0) < 2.0);
        assert!(latencies.percentile_ms(99.9) > 999.0);
    }

    #[test]
    fn one_spoilt_round_of_three_moves_no_figure() {
        let mut rounds = Rounds::new();
        for factor in [1, 50, 1] {
            rounds.push((millis(factor, 100 * factor), 1.5 * factor as f64));
        }
        assert!((rounds.percentile_ms(50.0) - 50.0).abs() < 1e-9);
        assert!((rounds.rise_over(&rounds) - 1.0).abs() < 1e-9);
        assert!((rounds.busy_cores() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn points_rise_on_both_axes_and_nothing_has_no_distribution() {
        let mut rounds = Rounds::new();
        rounds.push((millis(1, 50), 1.0));
        rounds.push((millis(7, 9), 1.0));
        let points = rounds.points();
        assert!(points.is_sorted_by(|one, next| one.0 <= next.0 && one.1 < next.1));
        assert!(Distribution::new(Vec::new()).is_none());
    }
}
