//! What one life of a worker takes: memory, by the operating system's word,
//! and records in flight, by its status lines.

use std::time::Duration;

pub const MIB: u64 = 1 << 20;
/// A life that is shorter has seen too little to be judged by its memory.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// How much more memory the second half of a life may take than the first: what
/// blows and their repair leave behind may not pile up. A run has too few records
/// for a leak of some bytes of each to show; that is `crate::memory`'s part.
const MEMORY_SLACK: u64 = 8 * MIB;

/// What a status line says of the credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    pub in_flight: u64,
    pub window: u64,
}

#[derive(Clone, Debug)]
pub struct Footprint {
    pub worker: usize,
    pub life: usize,
    /// Resident bytes over time.
    pub memory: Vec<(Duration, u64)>,
    pub credit: Vec<Credit>,
}

impl Footprint {
    /// The broker gives whole batches, as the producer wrote them, of each
    /// partition: the last one of each may reach beyond the window, so that
    /// `limit` are a batch for each partition.
    pub fn faults(&self, limit: u64) -> Vec<String> {
        let who = format!("worker {} in life {}", self.worker, self.life);
        let mut faults = Vec::new();
        let most = self.most_beyond_window();
        if most > limit {
            faults.push(format!(
                "{who} had {most} records in flight beyond its window, {limit} may be"
            ));
        }
        if let Some((first, second)) = self.memory_peaks()
            && second > first + MEMORY_SLACK
        {
            let (first, second) = (first / MIB, second / MIB);
            faults.push(format!(
                "the memory of {who} grew: {first} MiB in its first half, {second} in its second"
            ));
        }
        faults
    }

    pub fn most_in_flight(&self) -> u64 {
        let in_flight = self.credit.iter().map(|credit| credit.in_flight);
        in_flight.max().unwrap_or_default()
    }

    /// A window that gives way, as in an outage, takes nothing back: so it is
    /// the largest one so far that counts.
    fn most_beyond_window(&self) -> u64 {
        let mut window = 0;
        let beyond = self.credit.iter().map(|credit| {
            window = window.max(credit.window);
            credit.in_flight.saturating_sub(window)
        });
        beyond.max().unwrap_or_default()
    }

    /// The most resident bytes in the first and in the second half of a life
    /// that was long enough.
    pub fn memory_peaks(&self) -> Option<(u64, u64)> {
        let (begin, end) = (self.memory.first()?.0, self.memory.last()?.0);
        if end - begin < LONG_LIFE {
            return None;
        }
        let middle = begin + (end - begin) / 2;
        let peak = |samples: &[(Duration, u64)]| samples.iter().map(|sample| sample.1).max();
        let second = self.memory.partition_point(|(at, _)| *at < middle);
        let (first, second) = self.memory.split_at(second);
        Some((peak(first)?, peak(second)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch for each partition.
    const LIMIT: u64 = 240;

    const fn sample(seconds: u64, mib: u64) -> (Duration, u64) {
        (Duration::from_secs(seconds), mib * MIB)
    }

    fn footprint(memory: &[(Duration, u64)], credit: &[(u64, u64)]) -> Footprint {
        let credit = credit
            .iter()
            .map(|&(in_flight, window)| Credit { in_flight, window });
        Footprint {
            worker: 2,
            life: 0,
            memory: memory.to_vec(),
            credit: credit.collect(),
        }
    }

    fn told(memory: &[(Duration, u64)], credit: &[(u64, u64)]) -> String {
        footprint(memory, credit).faults(LIMIT).join("\n")
    }

    #[test]
    fn memory_that_is_higher_in_the_second_half_of_a_long_life_is_a_fault() {
        let life = |last| {
            [
                sample(100, 20),
                sample(120, 30),
                sample(131, 25),
                sample(160, last),
            ]
        };
        assert_eq!(told(&life(38), &[]), "");
        let grown = told(&life(39), &[]);
        assert!(grown.contains("worker 2 in life 0 grew: 30 MiB"), "{grown}");
    }

    #[test]
    fn a_short_life_is_not_judged_by_its_memory() {
        let short = footprint(&[sample(100, 20), sample(159, 90)], &[]);
        assert_eq!(short.memory_peaks(), None);
        assert_eq!(short.faults(LIMIT), Vec::<String>::new());
    }

    #[test]
    fn a_batch_a_partition_may_be_in_flight_beyond_the_window() {
        let most = 200 + LIMIT;
        assert_eq!(told(&[], &[(0, 200), (most, 200)]), "");
        assert_ne!(told(&[], &[(0, 200), (most + 1, 200)]), "");
        assert_eq!(
            told(&[], &[(most, 200), (most, 0)]),
            "",
            "it was open before"
        );
        assert_ne!(
            told(&[], &[(most, 0), (most, 200)]),
            "",
            "it came too early"
        );
    }
}
