//! When to try again: Connect's back-off, as a pure policy.

use std::time::Duration;

use tokio::time::Instant;

/// The wait before the first retry; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_millis(300);

/// How long, and how often, a transient failure is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// `errors.retry.timeout`; `None` is without end.
    pub timeout: Option<Duration>,
    /// `errors.retry.delay.max.ms`.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            timeout: None,
            max_delay: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// When to try again something that has failed `failures` times, since
    /// `since`; `None` when it is no use any more. `jitter` is a random number
    /// from 0 to 1.
    #[must_use]
    pub fn next_try(
        &self,
        failures: u32,
        since: Instant,
        now: Instant,
        jitter: f64,
    ) -> Option<Instant> {
        let at = now + self.delay(failures, jitter);
        match self.timeout {
            Some(timeout) if at > since + timeout => None,
            _ => Some(at),
        }
    }

    /// The wait after that many failures: between half and the whole of the
    /// doubled delay, so that many that failed together do not return together.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = FIRST_DELAY
            .saturating_mul(1 << doublings)
            .min(self.max_delay);
        full.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }

    /// The wait for a sink that was unavailable that many times in a row: as
    /// long as it says, if it does, and a little more, so that not all tasks
    /// return at the same moment.
    #[must_use]
    pub fn rest(&self, lasts: Option<Duration>, failures: u32, jitter: f64) -> Duration {
        match lasts {
            Some(lasts) => lasts.saturating_add(self.delay(1, jitter)),
            None => self.delay(failures, jitter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(timeout: Option<u64>) -> RetryPolicy {
        RetryPolicy {
            timeout: timeout.map(Duration::from_millis),
            max_delay: Duration::from_secs(5),
        }
    }

    #[test]
    fn the_delay_doubles_up_to_its_maximum() {
        let policy = policy(None);
        let delays: Vec<u128> = [1, 2, 3, 10, u32::MAX]
            .map(|failures| policy.delay(failures, 1.0).as_millis())
            .into();
        assert_eq!(delays, [300, 600, 1200, 5000, 5000]);
    }

    #[test]
    fn jitter_takes_off_at_most_half() {
        assert_eq!(policy(None).delay(1, 0.0), Duration::from_millis(150));
    }

    #[test]
    fn without_a_timeout_it_is_tried_for_ever() {
        let (since, year) = (Instant::now(), Duration::from_secs(31_536_000));
        assert!(policy(None).next_try(9, since, since + year, 0.5).is_some());
    }

    #[test]
    fn a_timeout_of_zero_means_no_retry() {
        let now = Instant::now();
        assert_eq!(policy(Some(0)).next_try(1, now, now, 0.0), None);
    }

    #[test]
    fn no_try_begins_after_the_timeout() {
        let since = Instant::now();
        let policy = policy(Some(1000));
        let late = since + Duration::from_millis(800);
        assert!(policy.next_try(1, since, since, 1.0).is_some());
        assert_eq!(policy.next_try(1, since, late, 1.0), None);
    }

    #[test]
    fn a_sink_that_says_for_how_long_is_not_rested_from_by_how_often() {
        let (policy, told) = (policy(None), Some(Duration::from_secs(7)));
        for failures in [1, 10] {
            let rest = policy.rest(told, failures, 1.0);
            assert_eq!(rest, Duration::from_millis(7300));
        }
        assert_eq!(policy.rest(None, 10, 1.0), Duration::from_secs(5));
        let for_ever = policy.rest(Some(Duration::MAX), 1, 1.0);
        assert_eq!(for_ever, Duration::MAX);
    }
}
