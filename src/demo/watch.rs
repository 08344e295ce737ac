//! When the demo has seen enough.

use std::io;

use sluice_actors::live_view::LiveView;
use tokio::time::{Duration, Instant, interval};

use super::plan::{CONNECTOR, GROUP, TOPIC};
use super::progress::{Figures, Progress};
use crate::kafka::embedded::{EmbeddedBroker, SettledOffsets};

const SHOW_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A demo in which nothing moves for so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The worker hears a moment later that the broker is done.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// Why the worker was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    AllSettled,
    Failed(String),
    /// Ctrl-C, or SIGTERM.
    Interrupted,
}

/// Shows the progress until the broker is done with all orders, or until that
/// cannot be hoped for any more.
pub(super) async fn watch(
    view: &LiveView,
    broker: &EmbeddedBroker,
    orders: u32,
    mut progress: Progress<'_>,
) -> io::Result<Ended> {
    let began = Instant::now();
    let (mut watch, mut shown) = (Watch::new(orders, began), began);
    let mut ticks = interval(LOOK_EVERY);
    loop {
        let now = ticks.tick().await;
        let settled = broker.settled(GROUP, TOPIC);
        let settled = settled.iter().map(SettledOffsets::count).sum();
        let figures = Figures::of(view);
        let ended = watch.look(now, settled, figures.accepted);
        if let Some(ended) = failure(view).or(ended) {
            progress.end(now - began, figures)?;
            return Ok(ended);
        }
        if now >= shown + SHOW_EVERY {
            shown = now;
            progress.show(now - began, figures)?;
        }
    }
}

fn failure(view: &LiveView) -> Option<Ended> {
    let shown = view.connector(CONNECTOR)?;
    let cause = shown.state.cause();
    cause.map(|cause| Ended::Failed(cause.to_string()))
}

/// What was seen so far.
#[derive(Debug)]
struct Watch {
    orders: u64,
    settled: u64,
    moved_at: Instant,
}

impl Watch {
    fn new(orders: u32, now: Instant) -> Self {
        Self {
            orders: orders.into(),
            settled: 0,
            moved_at: now,
        }
    }

    /// `settled` is what the broker says, `accepted` what the worker has heard
    /// of it.
    fn look(&mut self, now: Instant, settled: u64, accepted: u64) -> Option<Ended> {
        if settled > self.settled {
            (self.settled, self.moved_at) = (settled, now);
        }
        let still = now.saturating_duration_since(self.moved_at);
        if settled >= self.orders {
            let is_heard = accepted >= self.orders || still >= HEARD_WITHIN;
            return is_heard.then_some(Ended::AllSettled);
        }
        let is_stuck = still >= PATIENCE;
        is_stuck.then(|| Ended::Failed(format!("nothing was settled for {PATIENCE:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_settled_when_the_broker_says_so_and_the_worker_has_heard_it() {
        let began = Instant::now();
        let mut watch = Watch::new(10, began);
        assert_eq!(watch.look(began, 9, 9), None);
        assert_eq!(watch.look(began, 10, 9), None);
        assert_eq!(watch.look(began, 10, 10), Some(Ended::AllSettled));
    }

    #[test]
    fn the_worker_may_miss_an_answer() {
        let began = Instant::now();
        let mut watch = Watch::new(10, began);
        assert_eq!(watch.look(began, 10, 8), None);
        let later = began + HEARD_WITHIN;
        assert_eq!(watch.look(later, 10, 8), Some(Ended::AllSettled));
    }

    #[test]
    fn only_a_demo_that_stands_still_has_failed() {
        let began = Instant::now();
        let mut watch = Watch::new(10, began);
        let moved = began + PATIENCE - Duration::from_secs(1);
        assert_eq!(watch.look(moved, 5, 5), None);
        assert_eq!(watch.look(began + PATIENCE, 5, 5), None);
        let ended = watch.look(moved + PATIENCE, 5, 5);
        assert!(matches!(ended, Some(Ended::Failed(_))), "{ended:?}");
    }
}
