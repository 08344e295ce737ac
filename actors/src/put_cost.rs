//! What a put costs by itself, however much it holds, and what each record
//! adds: a line through the puts of late. Where the first is most of it (a
//! request, a linger), larger puts deliver more; where the second is, they
//! only make records wait. Pure.

use std::time::Duration;

/// How much a put counts when the next one has come.
const KEPT: f64 = 0.97;
/// Fewer tell no line.
const ENOUGH_PUTS: f64 = 8.0;
/// Puts that are all of one size tell no line: their spread is to be this part
/// of it.
const LEAST_SPREAD: f64 = 0.05;
/// A put may cost by itself this part of what its records add.
const OWN_PART: f64 = 0.25;

/// Sums over the puts of late, the newest with the most weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutCost {
    puts: f64,
    records: f64,
    seconds: f64,
    records_squared: f64,
    records_by_seconds: f64,
}

/// Puts that would deliver more if they were larger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortPuts {
    /// Records that they hold on the average.
    pub records: f64,
    /// How long they take on the average.
    pub took: Duration,
}

impl PutCost {
    /// Takes a put that the sink has taken.
    pub fn add(&mut self, records: usize, took: Duration) {
        let (records, seconds) = (records as f64, took.as_secs_f64());
        for (sum, of_put) in [
            (&mut self.puts, 1.0),
            (&mut self.records, records),
            (&mut self.seconds, seconds),
            (&mut self.records_squared, records * records),
            (&mut self.records_by_seconds, records * seconds),
        ] {
            *sum = KEPT * *sum + of_put;
        }
    }

    /// Whether larger puts, of up to `most` records, would deliver more.
    #[must_use]
    pub fn short_puts(&self, most: usize) -> Option<ShortPuts> {
        if self.puts < ENOUGH_PUTS {
            return None;
        }
        let mean = |sum: f64| sum / self.puts;
        let (records, seconds) = (mean(self.records), mean(self.seconds));
        let spread = mean(self.records_squared) - records * records;
        if records >= 0.9 * most as f64 || spread < (LEAST_SPREAD * records).powi(2) {
            return None;
        }
        let together = mean(self.records_by_seconds) - records * seconds;
        let of_records = (together / spread).max(0.0) * records;
        let own = seconds - of_records;
        (own > OWN_PART * of_records).then(|| ShortPuts {
            records,
            took: Duration::from_secs_f64(seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 500;

    fn after(puts: impl IntoIterator<Item = (usize, f64)>) -> PutCost {
        let mut cost = PutCost::default();
        for (records, millis) in puts {
            cost.add(records, Duration::from_secs_f64(millis / 1000.0));
        }
        cost
    }

    fn sizes() -> impl Iterator<Item = usize> {
        [8, 12, 10, 9, 11].into_iter().cycle().take(40)
    }

    #[test]
    fn puts_that_cost_the_same_whatever_they_hold_are_short() {
        let short = after(sizes().map(|records| (records, 20.0))).short_puts(MOST);
        let short = short.unwrap();
        assert!((short.records - 10.0).abs() < 0.5, "{short:?}");
        assert_eq!(short.took.as_millis(), 20);
    }

    #[test]
    fn puts_that_cost_what_their_records_do_are_not() {
        let by_record = sizes().map(|records| (records, records as f64));
        assert_eq!(after(by_record).short_puts(MOST), None);
        // A timer's grain is no reason.
        let with_grain = sizes().map(|records| (records, records as f64 + 1.0));
        assert_eq!(after(with_grain).short_puts(MOST), None);
    }

    #[test]
    fn nothing_is_said_of_few_puts_of_full_ones_or_of_one_size() {
        let few = sizes().take(5).map(|records| (records, 20.0));
        assert_eq!(after(few).short_puts(MOST), None);
        let full = sizes().map(|records| (records, 20.0));
        assert_eq!(after(full).short_puts(10), None);
        let one_size = sizes().map(|_| (10, 20.0));
        assert_eq!(after(one_size).short_puts(MOST), None);
    }

    #[test]
    fn what_puts_cost_long_ago_is_forgotten() {
        let mut cost = after(sizes().map(|records| (records, 20.0)));
        for records in sizes().chain(sizes()).chain(sizes()) {
            cost.add(records, Duration::from_millis(records as u64));
        }
        assert_eq!(cost.short_puts(MOST), None);
    }
}
