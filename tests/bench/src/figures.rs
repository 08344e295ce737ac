//! Medians, and who comes when.

pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of what each round came to: a machine that is slow for a while is
/// slow for both.
pub fn median_ratio(ones: &[f64], others: &[f64]) -> f64 {
    median(ones.iter().zip(others).map(|(one, other)| one / other))
}

/// Who comes when in a round: nobody always comes behind the same one.
pub fn turns(round: usize, many: usize) -> impl Iterator<Item = usize> {
    (0..many).map(move |place| {
        let place = (round / 2 + place) % many;
        if round.is_multiple_of(2) {
            place
        } else {
            many - 1 - place
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_ratios_not_the_ratio_of_the_medians() {
        let ratio = median_ratio(&[90.0, 100.0, 120.0], &[100.0, 200.0, 100.0]);
        assert!((ratio - 0.9).abs() < 1e-9);
        assert!(median([]).is_nan());
    }

    #[test]
    fn all_take_turns_in_each_round_and_neighbours_change() {
        let round = |round| turns(round, 3).collect::<Vec<_>>();
        assert_eq!(round(0), [0, 1, 2]);
        assert_eq!(round(1), [2, 1, 0]);
        assert_eq!(round(2), [1, 2, 0]);
    }
}
