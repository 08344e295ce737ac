//! Keeps fetches below what comes through: a quota (KIP-13), once the broker
//! has shown that there is one, and a line on which answers get lost.
//!
//! A fetch that is throttled comes back empty, but what it was to bring is
//! locked: it comes again when its lock ends, with an attempt used up. To wait
//! for as long as the broker says is not enough: the next answer uses the
//! quota up anew, so that every other one would be thrown away. So the rate of
//! bytes is kept a little below what came through, and raised slowly until the
//! broker throttles again, as on a congested network.
//!
//! An answer that is lost (it took longer than a request may, or could not be
//! read) costs its records an attempt as well, and no count tells of it. The
//! same fetch once more would do the same, up to the limit. So each one asks
//! for half as much, until answers come.

use std::time::Duration;

use tokio::time::Instant;

/// How long bytes that came count against a quota (Kafka's default window).
const MEMORY: Duration = Duration::from_secs(10);
/// What is left of the rate after a throttled fetch: at most, and at least.
const BACK_OFF: f64 = 0.8;
const BACK_OFF_MAX: f64 = 0.25;
/// The least pause after a throttled fetch, doubled while they go on: bytes
/// count until their window ends, however little is asked for.
const PAUSE: Duration = Duration::from_secs(1);
/// After so many throttled fetches in a row nothing seems to fit the quota.
const STARVED: u32 = 3;
/// By what part the rate grows in a second.
const GROWTH: f64 = 0.05;
/// A fetch asks for what comes in so many seconds.
const SLICE: f64 = 0.25;
/// Bytes a second.
const LOWEST: f64 = 1024.0;
/// From there on nothing is paced any more.
const UNBOUND: f64 = 1e9;
/// How often a fetch is halved at most.
const HALVES: u32 = 12;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes a second, once a fetch was throttled.
    rate: Option<f64>,
    /// Bytes that came, fading with [`MEMORY`].
    lately: f64,
    faded_at: Option<Instant>,
    /// What the last fetch asked for.
    asked: usize,
    next_at: Option<Instant>,
    /// Throttled fetches in a row.
    failures: u32,
    /// Answers that were lost, less those that came since.
    lost: u32,
}

impl Pace {
    /// When the next fetch may go out, if it has to wait.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.next_at
    }

    pub(super) fn may_fetch(&self, now: Instant) -> bool {
        self.next_at.is_none_or(|at| at <= now)
    }

    /// Nothing has come through for a while.
    pub(super) fn is_starved(&self) -> bool {
        self.failures >= STARVED
    }

    /// How much a fetch asks for that could take `bytes`.
    pub(super) fn ask(&mut self, bytes: usize) -> usize {
        let slice = self.rate.map_or(usize::MAX, |rate| (rate * SLICE) as usize);
        self.asked = (bytes.min(slice) >> self.lost).max(1);
        self.asked
    }

    /// A fetch brought so many bytes.
    pub(super) fn came_through(&mut self, bytes: usize, now: Instant) {
        let passed = self.fade(now);
        self.lately += bytes as f64;
        self.failures = 0;
        self.lost = self.lost.saturating_sub(1);
        self.next_at = None;
        let Some(rate) = self.rate else {
            return;
        };
        let rate = rate * (1.0 + GROWTH * passed.as_secs_f64().min(1.0));
        self.rate = (rate < UNBOUND).then_some(rate);
        self.next_at = self.rate.map(|rate| {
            now + Duration::from_secs_f64((bytes as f64 / rate).min(MEMORY.as_secs_f64()))
        });
    }

    /// A fetch has no answer, whatever it was to bring.
    pub(super) fn lost(&mut self) {
        self.lost = (self.lost + 1).min(HALVES);
    }

    /// A fetch came back empty, to be followed by none for that time at least;
    /// whether it is the first one.
    pub(super) fn throttled(&mut self, throttle: Duration, now: Instant) -> bool {
        self.fade(now);
        let through = self.lately / MEMORY.as_secs_f64();
        let below = through * BACK_OFF;
        let rate = match self.rate {
            None => below.max(self.asked as f64 / (MEMORY + throttle).as_secs_f64()),
            Some(before) => below.clamp(before * BACK_OFF_MAX, before * BACK_OFF),
        };
        let first = self.rate.replace(rate.max(LOWEST)).is_none();
        let pause = PAUSE.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures += 1;
        self.next_at = Some(now + throttle.max(pause.min(MEMORY)));
        first
    }

    /// The time since the last call.
    fn fade(&mut self, now: Instant) -> Duration {
        let passed = self
            .faded_at
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.lately *= (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.faded_at = Some(now);
        passed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A quota as brokers keep it: bytes in windows of a second.
    struct Quota {
        bytes_per_second: f64,
        windows: usize,
        samples: VecDeque<(Instant, f64)>,
    }

    impl Quota {
        fn new(bytes_per_second: f64, windows: usize) -> Self {
            Self {
                bytes_per_second,
                windows,
                samples: VecDeque::new(),
            }
        }

        /// Whether an answer goes out, or for how long its client is muted.
        fn answer(&mut self, bytes: usize, now: Instant) -> Result<(), Duration> {
            let second = Duration::from_secs(1);
            let span = second * self.windows as u32;
            self.samples.retain(|(at, _)| now < *at + span);
            let first = self.samples.front().map_or(now, |(at, _)| *at);
            let window = now.duration_since(first).max(span - second).as_secs_f64();
            let sum: f64 = self.samples.iter().map(|(_, bytes)| bytes).sum();
            let rate = (sum + bytes as f64) / window;
            if rate > self.bytes_per_second {
                let over = (rate - self.bytes_per_second) / self.bytes_per_second;
                return Err(Duration::from_secs_f64(over * window));
            }
            match self.samples.back_mut() {
                Some((at, sum)) if now < *at + second => *sum += bytes as f64,
                _ => self.samples.push_back((now, bytes as f64)),
            }
            Ok(())
        }
    }

    #[derive(Debug, Default)]
    struct Run {
        answers: usize,
        lost: usize,
        /// In the second half.
        bytes: f64,
    }

    /// A client with a backlog without end, for five minutes.
    fn run(quota: &mut Quota) -> Run {
        let half = Duration::from_secs(150);
        let (start, mut pace, mut run) = (Instant::now(), Pace::default(), Run::default());
        let mut now = start;
        while now < start + 2 * half {
            let bytes = pace.ask(1 << 20);
            run.answers += 1;
            match quota.answer(bytes, now) {
                Ok(()) => {
                    pace.came_through(bytes, now);
                    run.bytes += if now < start + half {
                        0.0
                    } else {
                        bytes as f64
                    };
                }
                Err(throttle) => {
                    run.lost += 1;
                    pace.throttled(throttle, now);
                }
            }
            now = pace
                .next_at()
                .unwrap_or(now)
                .max(now + Duration::from_millis(2));
        }
        run.bytes /= half.as_secs_f64();
        run
    }

    #[test]
    fn a_quota_is_made_use_of_and_few_answers_are_lost() {
        for bytes_per_second in [1e5, 1e6, 2e7] {
            for windows in [3, 11] {
                let run = run(&mut Quota::new(bytes_per_second, windows));
                assert!(
                    run.lost * 20 < run.answers && run.bytes > 0.7 * bytes_per_second,
                    "{bytes_per_second} over {windows} windows: {run:?}"
                );
            }
        }
    }

    #[test]
    fn without_a_quota_nothing_is_paced() {
        let mut pace = Pace::default();
        let now = Instant::now();
        assert_eq!(pace.ask(1 << 20), 1 << 20);
        pace.came_through(1 << 20, now);
        assert!(pace.may_fetch(now));
        assert_eq!(pace.next_at(), None);
    }

    #[test]
    fn lost_answers_halve_what_is_asked_for_and_those_that_come_double_it() {
        let mut pace = Pace::default();
        let now = Instant::now();
        let ask = |pace: &mut Pace| pace.ask(50 << 20);
        for halved in [25 << 20, 50 << 18, 50 << 17] {
            pace.lost();
            assert_eq!(ask(&mut pace), halved);
        }
        pace.came_through(1, now);
        assert_eq!(ask(&mut pace), 50 << 18);
        for _ in 0..1000 {
            pace.lost();
        }
        assert_eq!(ask(&mut pace), (50 << 20) >> HALVES);
        for _ in 0..HALVES {
            pace.came_through(1, now);
        }
        assert_eq!(ask(&mut pace), 50 << 20);
    }

    /// A line that brings an answer of so many bytes in the time that a request
    /// may take: how often the records at the head are lost.
    #[test]
    fn on_a_slow_line_the_head_comes_through_below_the_limit() {
        for line in [20 << 20, 3 << 20, 100 << 10] {
            let mut pace = Pace::default();
            let now = Instant::now();
            let mut attempts = 0;
            while pace.ask(50 << 20) > line {
                attempts += 1;
                pace.lost();
            }
            assert!(attempts < 10, "{line}: {attempts}");
            // In the long run, every other answer is lost at most, and its
            // records come with the next one.
            for _ in 0..100 {
                if pace.ask(50 << 20) > line {
                    pace.lost();
                    assert!(pace.ask(50 << 20) <= line);
                } else {
                    pace.came_through(1, now);
                }
            }
        }
    }

    #[test]
    fn a_throttled_fetch_is_waited_out_and_told_once() {
        let mut pace = Pace::default();
        let (now, throttle) = (Instant::now(), Duration::from_secs(3));
        let asked = pace.ask(1 << 20);
        assert!(pace.throttled(throttle, now));
        assert!(!pace.may_fetch(now) && pace.may_fetch(now + throttle));
        assert!(pace.ask(1 << 20) < asked);
        assert!(!pace.throttled(throttle, now + throttle));
    }

    #[test]
    fn a_quota_that_lets_nothing_through_is_starvation_until_something_comes() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for row in 1..=STARVED {
            assert!(!pace.is_starved(), "{row}");
            pace.throttled(Duration::ZERO, now);
        }
        assert!(pace.is_starved());
        pace.came_through(1, now);
        assert!(!pace.is_starved());
    }

    #[test]
    fn a_quota_that_is_gone_is_forgotten() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.ask(1 << 20);
        pace.throttled(Duration::from_secs(1), now);
        for _ in 0..10_000 {
            let bytes = pace.ask(8 << 20);
            pace.came_through(bytes, now);
            now = pace
                .next_at()
                .unwrap_or(now)
                .max(now + Duration::from_millis(50));
        }
        assert_eq!(pace.ask(usize::MAX), usize::MAX);
    }
}
