//! What is to become of each record: told by its key, which the sink's rules
//! look at, so that the log of the topic says what was planned.

use fastrand::Rng;
use serde_json::Value;

/// Each so-many-th record kills the task that gets it first. Two in one put
/// would be taken for one that kills twice.
const PANIC_EVERY: u64 = 2000;
/// Longer than half a second, shorter than a lock.
pub const SLOW_MS: u64 = 700;
pub const OUTAGE_MS: u64 = 3000;
/// Two workers that take so long for each record keep up with the load, just.
const MAX_LATENCY_US: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Plain,
    /// Takes longer than the others of its put.
    Slow,
    /// Fails twice, at each worker that it comes to.
    Retry,
    /// Can never be delivered.
    Reject,
    /// Kills the first task of each worker that it comes to.
    Panic,
    /// Begins an outage of the sink, at each worker that it comes to.
    Outage,
    /// Fails at the endpoint until it is on its last attempt, and there as well.
    Worn,
}

impl Fate {
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Slow,
        Self::Retry,
        Self::Reject,
        Self::Panic,
        Self::Outage,
        Self::Worn,
    ];

    pub const fn key(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Slow => "slow",
            Self::Retry => "retry",
            Self::Reject => "reject",
            Self::Panic => "panic",
            Self::Outage => "outage",
            Self::Worn => "worn",
        }
    }

    pub fn of_key(key: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|fate| fate.key().as_bytes() == key)
    }

    /// Of the record with this number.
    pub fn of(seed: u64, number: u64) -> Self {
        if number % PANIC_EVERY == PANIC_EVERY - 1 {
            return Self::Panic;
        }
        match drawn(seed, number).u32(..1000) {
            0..5 => Self::Slow,
            5..15 => Self::Retry,
            15..20 => Self::Reject,
            _ => Self::Plain,
        }
    }
}

/// How long each record takes in one life of a worker.
pub fn latency_us(seed: u64, worker: usize, life: usize) -> u64 {
    let number = (worker * 1000 + life) as u64;
    drawn(!seed, number).u64(0..=MAX_LATENCY_US)
}

fn drawn(seed: u64, number: u64) -> Rng {
    Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The rules by which the null sink keeps to the plan.
pub fn add_rules(connector: &mut Value) {
    let mut set = |key: &str, value: String| connector[key] = Value::from(value);
    set("slow.match", format!("key={}", Fate::Slow.key()));
    set("slow.ms", SLOW_MS.to_string());
    set("retry.match", format!("key={},times=2", Fate::Retry.key()));
    set("reject.match", format!("key={}", Fate::Reject.key()));
    set("panic.match", format!("key={},times=1", Fate::Panic.key()));
    set("unavailable.match", format!("key={}", Fate::Outage.key()));
    set("unavailable.ms", OUTAGE_MS.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_fate() {
        for fate in Fate::ALL {
            assert_eq!(Fate::of_key(fate.key().as_bytes()), Some(fate));
        }
        assert_eq!(Fate::of_key(b"other"), None);
    }

    #[test]
    fn each_kind_is_among_the_records_of_any_seed_and_most_are_plain() {
        for seed in 0..50 {
            let fates: Vec<Fate> = (0..10_000).map(|number| Fate::of(seed, number)).collect();
            let count = |fate| fates.iter().filter(|one| **one == fate).count();
            assert!(count(Fate::Plain) > 9_500);
            assert_eq!(count(Fate::Panic), 5);
            for fate in [Fate::Slow, Fate::Retry, Fate::Reject] {
                assert!((10..250).contains(&count(fate)), "{fate:?} {}", count(fate));
            }
        }
    }

    #[test]
    fn another_seed_has_other_fates_and_latencies() {
        let fates = |seed| -> Vec<Fate> { (0..1000).map(|n| Fate::of(seed, n)).collect() };
        assert_ne!(fates(1), fates(2));
        let latencies =
            |seed| -> Vec<u64> { (0..9).map(|life| latency_us(seed, 0, life)).collect() };
        assert_ne!(latencies(1), latencies(2));
        assert_eq!(latencies(1), latencies(1));
    }
}
