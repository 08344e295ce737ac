//! Which records are traced, and the ids of their traces.
//!
//! A record's trace id is its producer's, or made from the record's own id. So
//! all deliveries of a record lie in one trace, whoever delivers it, and each
//! worker decides the same for all of them.

use std::time::Duration;

use crate::record::SourcePartition;
use crate::trace_context::TraceContext;

/// All of the 63 bits of a trace id that a ratio looks at.
const ALL: u64 = 1 << 63;

/// Who is traced from the start, and who is called slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Ids below it are sampled.
    bound: u64,
    follows_parents: bool,
    /// A record that took longer, from its acquisition to the broker's answer,
    /// is traced as well.
    pub slow: Option<Duration>,
}

impl Sampling {
    /// So large a part of all traces, as OpenTelemetry's `traceidratio` chooses
    /// them.
    #[must_use]
    pub fn ratio(ratio: f64) -> Self {
        Self {
            bound: (ratio.clamp(0.0, 1.0) * ALL as f64) as u64,
            follows_parents: false,
            slow: None,
        }
    }

    /// Records with a producer's context are sampled if the producer is.
    #[must_use]
    pub const fn following_parents(mut self) -> Self {
        self.follows_parents = true;
        self
    }

    #[must_use]
    pub const fn with_slow(mut self, slow: Option<Duration>) -> Self {
        self.slow = slow;
        self
    }

    /// Of a record without a producer's context; by the trace id's lower half.
    #[must_use]
    pub const fn samples(&self, trace_id_low: u64) -> bool {
        trace_id_low >> 1 < self.bound
    }

    /// Of a record with one.
    #[must_use]
    pub const fn samples_child(&self, parent: TraceContext) -> bool {
        if self.follows_parents {
            return parent.is_sampled;
        }
        self.samples(parent.trace_id as u64)
    }
}

/// The trace ids of one partition's records.
#[derive(Clone, Copy, Debug)]
pub struct TraceIds {
    seed: u64,
}

impl TraceIds {
    #[must_use]
    pub fn of(partition: &SourcePartition) -> Self {
        let mut halves = [0; 2];
        for (place, byte) in partition.topic_id.0.into_iter().enumerate() {
            halves[place / 8] = halves[place / 8] << 8 | u64::from(byte);
        }
        let topic = mix(mix(halves[0]) ^ halves[1]);
        Self {
            seed: mix(topic ^ partition.partition as u64),
        }
    }

    /// The half that decides whether it is sampled.
    #[must_use]
    pub const fn low(&self, offset: i64) -> u64 {
        mix(self.seed ^ offset as u64)
    }

    #[must_use]
    pub const fn id(&self, offset: i64) -> u128 {
        let low = self.low(offset);
        let id = (mix(low ^ self.seed) as u128) << 64 | low as u128;
        if id == 0 { 1 } else { id }
    }
}

/// The last step of the generator SplitMix64: each bit of the input changes
/// half of the output's.
const fn mix(input: u64) -> u64 {
    let mut bits = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::testing::partition;

    fn sampled(sampling: Sampling, offsets: i64) -> Vec<i64> {
        let ids = TraceIds::of(&partition("orders", 3));
        let chosen = |offset: &i64| sampling.samples(ids.low(*offset));
        (0..offsets).filter(chosen).collect()
    }

    #[test]
    fn a_ratio_chooses_so_many_and_always_the_same() {
        let one_percent = sampled(Sampling::ratio(0.01), 100_000);
        assert!((850..1150).contains(&one_percent.len()), "{one_percent:?}");
        let more: HashSet<i64> = sampled(Sampling::ratio(0.1), 100_000).into_iter().collect();
        assert!(one_percent.iter().all(|offset| more.contains(offset)));
        assert_eq!(sampled(Sampling::ratio(0.0), 1000).len(), 0);
        assert_eq!(sampled(Sampling::ratio(1.0), 1000).len(), 1000);
    }

    #[test]
    fn a_producer_decides_for_its_records_if_it_is_followed() {
        let parent = |trace_id, is_sampled| TraceContext {
            trace_id,
            span_id: 1,
            is_sampled,
        };
        let none = Sampling::ratio(0.0).following_parents();
        assert!(none.samples_child(parent(1, true)));
        assert!(!none.samples(1));
        let all = Sampling::ratio(1.0).following_parents();
        assert!(!all.samples_child(parent(1, false)));
        let half = Sampling::ratio(0.5);
        let (low, high) = (u128::from(u64::MAX), u128::from(u64::MAX) << 64);
        assert!(!half.samples_child(parent(low, true)), "by the lower half");
        assert!(half.samples_child(parent(high, false)));
    }

    #[test]
    fn each_record_has_a_trace_of_its_own() {
        let mut seen = HashSet::new();
        for (topic, number) in [("orders", 0), ("orders", 1), ("parcels", 0)] {
            let ids = TraceIds::of(&partition(topic, number));
            for offset in 0..1000 {
                let id = ids.id(offset);
                assert_eq!(id as u64, ids.low(offset));
                assert!(seen.insert(id), "{topic}-{number}@{offset}");
            }
        }
        let again = TraceIds::of(&partition("orders", 1));
        assert!(seen.contains(&again.id(7)), "the same at the next delivery");
    }
}
