//! Who is measured: Sluice, and what a user would pick instead. Each reads a
//! topic to its end, as a group of its own.

pub mod connect;
pub mod java;
pub mod krafka;
pub mod peer;
pub mod performance;
pub mod share_loop;
pub mod sinks;
pub mod sluice;

/// What one turn came to.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Records a second.
    pub rate: f64,
    /// From the first record on, so that nobody's start counts.
    pub cpu_micros_per_record: f64,
    pub peak_rss_mb: f64,
}

/// Seconds, and records until then.
pub type Series = Vec<(f64, u64)>;

/// Keys and values, as contestants are told them.
pub fn owned<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Between the first time with records and the first time with all of them.
pub fn rate(series: &[(f64, u64)]) -> Option<f64> {
    let all = series.last()?.1;
    let first = series.iter().find(|(_, records)| *records > 0)?;
    let last = series.iter().find(|(_, records)| *records == all)?;
    between(*first, *last)
}

/// Between the first time with a tenth of the records and the first one with
/// nine tenths: neither the join nor the last slow record counts.
pub fn steady_rate(series: &[(f64, u64)]) -> Option<f64> {
    let all = series.last()?.1;
    let reaches = |tenths: u64| {
        series
            .iter()
            .find(|(_, records)| *records >= all * tenths / 10)
    };
    between(*reaches(1)?, *reaches(9)?)
}

fn between(first: (f64, u64), last: (f64, u64)) -> Option<f64> {
    let elapsed = last.0 - first.0;
    (elapsed > 0.0).then(|| (last.1 - first.1) as f64 / elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_counts_from_the_first_records_to_the_first_sight_of_all() {
        let series = [(1.0, 0), (2.0, 100), (3.0, 500), (4.0, 900), (9.0, 900)];
        assert_eq!(rate(&series), Some(400.0));
    }

    #[test]
    fn a_rate_over_no_time_is_not_told() {
        assert_eq!(rate(&[(5.0, 100)]), None);
        assert_eq!(rate(&[]), None);
    }

    #[test]
    fn the_steady_rate_leaves_out_the_begin_and_the_end() {
        let series = [(0.0, 0), (9.0, 100), (10.0, 500), (11.0, 900), (99.0, 1000)];
        assert_eq!(steady_rate(&series), Some(400.0));
        assert_eq!(steady_rate(&series[..1]), None);
    }
}
