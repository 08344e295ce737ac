//! How long the stages of a batch's conversion took. Pure; the time is passed
//! in.
//!
//! Looking at the clock at each stage of each record would cost more than some
//! stages do: one record in so many speaks for its batch.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::life::Step;
use crate::outcome::Stage;

/// So many records for one that is timed.
const EACH: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Pace {
    began: Instant,
    /// The converters together, then each transform.
    spent: Vec<Duration>,
    transforms: Vec<Arc<str>>,
    /// The stage that the record at hand is in, and since when.
    current: Option<(usize, Instant)>,
}

impl Pace {
    pub(crate) fn new(transforms: Vec<Arc<str>>, now: Instant) -> Self {
        Self {
            began: now,
            spent: vec![Duration::ZERO; 1 + transforms.len()],
            transforms,
            current: None,
        }
    }

    /// Whether the record at this place is one to time. With converters alone
    /// there is nothing to tell apart.
    pub(crate) fn times(&self, place: usize) -> bool {
        !self.transforms.is_empty() && place.is_multiple_of(EACH)
    }

    /// A record that is timed enters a stage; each transform is one.
    pub(crate) fn enter(&mut self, stage: Stage, now: impl FnOnce() -> Instant) {
        let next = match (stage, self.current) {
            (Stage::Transformation, Some((current, _))) => current + 1,
            (_, None) => 0,
            (_, Some(_)) => return,
        };
        let now = now();
        self.leave(now);
        self.current = Some((next, now));
    }

    /// It is converted, or will not be.
    pub(crate) fn leave(&mut self, now: Instant) {
        if let Some((stage, since)) = self.current.take()
            && let Some(spent) = self.spent.get_mut(stage)
        {
            *spent += now.saturating_duration_since(since);
        }
    }

    /// The batch's conversion, divided as that of the records that were timed.
    pub(crate) fn steps(&self, ended: Instant) -> Vec<(Step, Instant)> {
        let took = ended.saturating_duration_since(self.began);
        let all: Duration = self.spent.iter().sum();
        let mut before = Duration::ZERO;
        let starts = self.spent.iter().map(|spent| {
            let share = before.div_duration_f64(all.max(Duration::from_nanos(1)));
            before += *spent;
            self.began + took.mul_f64(share)
        });
        let transforms = self.transforms.iter().cloned().map(Step::Transform);
        std::iter::once(Step::Convert)
            .chain(transforms)
            .zip(starts)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn pace(now: Instant) -> Pace {
        Pace::new(vec!["route".into(), "mask".into()], now)
    }

    #[test]
    fn a_batch_is_divided_as_the_records_that_were_timed() {
        let began = Instant::now();
        let mut pace = pace(began);
        let at = |ms: u32| move || began + ms * MS;
        for (stage, ms) in [
            (Stage::KeyConverter, 0),
            (Stage::ValueConverter, 1),
            (Stage::Transformation, 2),
            (Stage::Transformation, 3),
        ] {
            pace.enter(stage, at(ms));
        }
        pace.leave(began + 8 * MS);
        let steps = pace.steps(began + 80 * MS);
        let expected = [
            (Step::Convert, 0),
            (Step::Transform("route".into()), 20),
            (Step::Transform("mask".into()), 30),
        ];
        assert_eq!(steps, expected.map(|(step, ms)| (step, began + ms * MS)));
    }

    #[test]
    fn a_record_that_goes_no_further_counts_for_the_stages_that_it_came_to() {
        let began = Instant::now();
        let mut pace = pace(began);
        pace.enter(Stage::KeyConverter, || began);
        pace.leave(began + MS);
        pace.enter(Stage::KeyConverter, || began + 2 * MS);
        pace.enter(Stage::Transformation, || began + 3 * MS);
        pace.leave(began + 5 * MS);
        assert_eq!(pace.spent, [2 * MS, 2 * MS, Duration::ZERO]);
    }

    #[test]
    fn few_records_are_timed_and_none_without_transforms() {
        let now = Instant::now();
        let timed = |pace: &Pace| (0..160).filter(|place| pace.times(*place)).count();
        assert_eq!(timed(&pace(now)), 10);
        assert_eq!(timed(&Pace::new(Vec::new(), now)), 0);
    }
}
