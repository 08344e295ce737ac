//! Prints what was measured.

use crate::sluice::Measured;

/// One turn of each.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Records a second.
    pub consumer: f64,
    pub worker: Measured,
}

/// Prints rounds and medians; returns the median of the ratios.
#[allow(clippy::print_stdout, reason = "the program's answer")]
pub fn print(rounds: &[Round]) -> f64 {
    println!(
        "| round | ConsumerPerformance, records/s | Sluice, records/s | ratio | CPU, µs/record | peak MB |"
    );
    println!("|---|---|---|---|---|---|");
    for (number, round) in rounds.iter().enumerate() {
        row(
            &(number + 1).to_string(),
            round.consumer,
            round.worker,
            ratio(round),
        );
    }
    let median_of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let ratio = median_of(&ratio);
    let worker = Measured {
        rate: median_of(&|round| round.worker.rate),
        cpu_micros_per_record: median_of(&|round| round.worker.cpu_micros_per_record),
        peak_rss_mb: median_of(&|round| round.worker.peak_rss_mb),
    };
    row("median", median_of(&|round| round.consumer), worker, ratio);
    ratio
}

fn ratio(round: &Round) -> f64 {
    round.worker.rate / round.consumer
}

#[allow(clippy::print_stdout, reason = "the program's answer")]
fn row(name: &str, consumer: f64, worker: Measured, ratio: f64) {
    println!(
        "| {name} | {consumer:.0} | {:.0} | {ratio:.2} | {:.2} | {:.0} |",
        worker.rate, worker.cpu_micros_per_record, worker.peak_rss_mb
    );
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
