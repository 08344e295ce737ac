//! Which records are slow, and how slow.

/// Each `every`-th offset of a partition takes `millis` more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    pub(super) name: &'static str,
    /// Names files, topics and groups.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) every: u32,
    pub(super) millis: u32,
}

/// One in a thousand far slower, one in a hundred much slower.
pub(super) const KINDS: [Slow; 2] = [
    Slow {
        name: "every 1000th 1 s more",
        key: "mixed-1000th",
        title: "Latency of the fast records, every 1000th takes 1 s",
        every: 1000,
        millis: 1000,
    },
    Slow {
        name: "every 100th 100 ms more",
        key: "mixed-100th",
        title: "Latency of the fast records, every 100th takes 100 ms",
        every: 100,
        millis: 100,
    },
];

impl Slow {
    /// The sink's settings, which are the same for all contestants.
    pub(super) fn settings(self) -> [(String, String); 2] {
        [
            ("slow.match".to_owned(), format!("every={}", self.every)),
            ("slow.ms".to_owned(), self.millis.to_string()),
        ]
    }

    /// Of a record that takes a millisecond if it is fast.
    pub(super) fn mean_ms(self) -> f64 {
        1.0 + f64::from(self.millis) / f64::from(self.every)
    }

    pub(super) const fn is(self, offset: u64) -> bool {
        (offset + 1).is_multiple_of(self.every as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_so_many_is_slow_and_the_mean_counts_it() {
        let [rare, often] = KINDS;
        assert!(rare.is(999) && !rare.is(0) && !rare.is(1000));
        assert!(often.is(99) && often.is(199) && !often.is(100));
        assert!(KINDS.iter().all(|it| (it.mean_ms() - 2.0).abs() < 1e-9));
    }
}
