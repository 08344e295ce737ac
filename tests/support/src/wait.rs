//! Waiting for a condition, never for a time.

use std::{fmt::Display, time::Duration};

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_millis(20);

/// Calls `check` until it answers `Ok`. Its `Err` is what it saw instead, and
/// the last one is told when `timeout` is over.
///
/// ```
/// # use std::time::Duration;
/// # use sluice_test_support::wait::eventually;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> anyhow::Result<()> {
/// let mut seen = 0;
/// let all = eventually("three are seen", Duration::from_secs(1), async || {
///     seen += 1;
///     if seen == 3 { Ok(seen) } else { Err(format!("{seen} of 3")) }
/// })
/// .await?;
/// assert_eq!(all, 3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the condition did not come true in time.
pub async fn eventually<T, E: Display>(
    condition: &str,
    timeout: Duration,
    mut check: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        let state = match check().await {
            Ok(value) => return Ok(value),
            Err(state) => state,
        };
        if Instant::now() >= deadline {
            // The alternate form prints the causes of an `anyhow::Error`.
            bail!("waited {timeout:?} until {condition}; last seen: {state:#}");
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_state_is_told_when_time_is_over() {
        let mut calls = 0;
        let error = eventually("never", Duration::from_secs(1), async || {
            calls += 1;
            Err::<(), _>(format!("call {calls}"))
        })
        .await
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("waited 1s until never; last seen: call {calls}")
        );
        assert!(calls > 10, "{calls}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_holds_is_not_waited_for() {
        let before = Instant::now();
        let value = eventually("at once", Duration::ZERO, async || Ok::<_, String>(7))
            .await
            .unwrap();
        assert_eq!((value, before.elapsed()), (7, Duration::ZERO));
    }
}
